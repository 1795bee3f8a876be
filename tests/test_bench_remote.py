"""The experiments on data at servers, on small data; and the line that they measure over."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from farfield_bench import Recorder, arms, network, registry
from farfield_bench.network import Line
from farfield_bench.result import Result

pytestmark = pytest.mark.skipif(not network.namespaces().here, reason=network.namespaces().why)
NEEDS_NGINX = pytest.mark.skipif(not network.web_server().here, reason="there is no nginx")


@pytest.fixture(autouse=True)
def quick_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))  # which the experiments set as well
    monkeypatch.setattr(arms, "_most_ready", 0)


def measured(name: str, work: Path) -> Result:
    """Bounds on times are for a quiet machine and large data: only results must be right."""
    experiment = registry.find(name)
    recorder = Recorder(name, experiment.title, about=experiment.about, runs=1, quick=True, work=work)
    experiment.measure(recorder)
    result = recorder.result()
    for condition in result.conditions:
        if condition.what == "room on the disk for the cache" and not condition.here:
            pytest.skip(condition.why)
    assert result.claims and all(claim.holds for claim in result.claims if claim.right), result.claims
    return result


ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], 9))
while True:
    taken, _ = server.accept()
    while data := taken.recv(1 << 20):
        if data[-1:] == b".":
            taken.sendall(b".")
"""
TIMES = """
import socket, sys, time
s = socket.create_connection(("10.78.0.2", 9))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def ask(data):
    begun = time.perf_counter(); s.sendall(data); s.recv(1); return time.perf_counter() - begun
print(min(ask(b".") for _ in range(20)), ask(bytes(int(sys.argv[1])) + b"."))
"""


def test_a_line_has_its_delay_and_its_rate(tmp_path: Path) -> None:
    size = 2_000_000
    with network.over(Line("a line", 20, 40), tmp_path) as far:
        far.start([sys.executable, "-c", ECHO, network.SERVER], 9, "echo")
        before = far.bytes_passed()
        run = arms.run(far.at_client([sys.executable, "-c", TIMES, str(size)]))
        assert run.code == 0, run.stderr
        shortest, long = map(float, run.stdout.split())
        passed = far.bytes_passed() - before
    assert 0.02 <= shortest < 0.04
    assert size * 8 / 40e6 < long < 2.5 * size * 8 / 40e6
    assert size < passed < 1.2 * size
    spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"farfield-{os.getpid()}-" not in spaces


@NEEDS_NGINX
def test_pages_from_servers_are_measured(tmp_path: Path) -> None:
    result = measured("remote-pages", tmp_path)
    medians = {arm.name: arm.median for arm in result.arms}
    for arm in (
        "loopback: farfield://",
        "loopback: farfield:// over TLS",
        "loopback: http, nginx",
        "10 ms: http, nginx",
    ):
        assert medians[arm]["pages_a_s"] > 0 and medians[arm]["client_cpu_us_a_page"] > 0
        # A small array has small pages.
        assert 15_000 < medians[arm]["line_bytes_a_page"] < 120_000, arm


@NEEDS_NGINX
def test_shares_of_a_line_are_measured(tmp_path: Path) -> None:
    result = measured("remote-lines", tmp_path)
    shares = {arm.name: arm.median["share_of_line"] for arm in result.arms if "demanded" not in arm.name}
    assert set(shares) == {"100 Mbit, 10 ms: farfield://", "100 Mbit, 10 ms: http"}
    # Reads that were under way when counting began are counted whole: a little of a second.
    assert all(0 < share < 1.1 for share in shares.values()), shares


@NEEDS_NGINX
@pytest.mark.parametrize("name", ["remote-runs", "remote-cache", "remote-first"])
def test_runs_at_servers_have_the_results_of_local_ones(name: str, tmp_path: Path) -> None:
    result = measured(name, tmp_path)
    assert any("differ" in claim.text for claim in result.claims)


def test_several_servers_are_measured(tmp_path: Path) -> None:
    result = measured("remote-servers", tmp_path)
    medians = {arm.name: arm.median for arm in result.arms}
    assert set(medians) == {"100 Mbit, 10 ms: 1", "100 Mbit, 10 ms: 3", "all three are healthy", "one is killed"}
    assert all(median["pages_a_s"] > 0 for median in medians.values()), medians
    # Three lines carry more than one, also on a busy machine.
    assert medians["100 Mbit, 10 ms: 3"]["pages_a_s"] > 1.3 * medians["100 Mbit, 10 ms: 1"]["pages_a_s"]
