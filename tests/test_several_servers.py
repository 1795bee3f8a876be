"""Several page servers as one place: the same bytes, while one of them is killed, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield.errors import AccessError, DataError, UsageError
from farfield.sources.parsing import expand
from remote_servers import page_server, use
from running import Command, Json, start

VALUES = np.random.default_rng(3).integers(0, 1 << 16, (128, 128, 128), dtype="<u2")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_TIMEOUT="5", FARFIELD_NETWORK_CACHE="0")
    monkeypatch.delenv("FARFIELD_REPLICAS", raising=False)
    made = tmp_path / "root"
    made.mkdir()
    head = b"NRRD0004\ntype: uint16\ndimension: 3\nsizes: 128 128 128\nendian: little\nencoding: raw\n\n"
    for name in ("a_1.nrrd", "a_2.nrrd"):
        (made / name).write_bytes(head + VALUES.tobytes())
    return made


@pytest.fixture
def servers(root: Path, tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[str]]]]:
    """Three slow servers of one folder as processes, and their common address."""
    words = ("serve", f"root={root}", "--listen", ":0", "--rate", "24Mbit", "--state")
    children = [start(*words, tmp_path / f"s{n}") for n in range(3)]
    try:
        hosts = []
        for child in children:
            assert child.stdout is not None
            hosts.append([child.stdout.readline() for _ in range(2)][1].split()[0].split("/")[2])
        yield f"farfield://{','.join(hosts)}/root", children
    finally:
        for child in children:
            child.kill()
            child.communicate(timeout=30)


def test_the_same_bytes(servers: tuple[str, list[subprocess.Popen[str]]], root: Path, ff_json: Json) -> None:
    url, _ = servers
    with farfield.open(f"{url}/a_1.nrrd") as remote:
        assert np.array_equal(remote[:], VALUES)
    remote, local = (ff_json("info", f"{place}/a_1.nrrd") for place in (url, root))
    assert remote["dims"] == local["dims"]
    # Patterns and lists take these addresses as others.
    listing = root / "names.txt"
    listing.write_text(f"{url}/a_1.nrrd\n{url}/a_2.nrrd\n")
    for source in (f"{url}/a_*.nrrd", f"@{listing}"):
        assert expand(source) == [f"{url}/a_1.nrrd", f"{url}/a_2.nrrd"]


def test_one_is_killed_in_a_run(
    servers: tuple[str, list[subprocess.Popen[str]]], root: Path, tmp_path: Path, ff: Command
) -> None:
    url, children = servers
    words = ("--size", "320x240", "--memory-limit", "64MiB")
    ff("render", root / "a_1.nrrd", "-o", tmp_path / "local.png", *words)
    killed = []

    def kill() -> None:
        children[1].kill()
        killed.append(time.monotonic())

    killer = threading.Timer(0.4, kill)
    killer.start()
    ff("render", f"{url}/a_1.nrrd", "-o", tmp_path / "remote.png", *words)
    assert killed and time.monotonic() > killed[0] + 0.1, "it was killed after the run"
    killer.join()
    assert (tmp_path / "local.png").read_bytes() == (tmp_path / "remote.png").read_bytes()
    # It is dead before the next run begins.
    children[1].wait(10)
    begun = time.monotonic()
    ff("render", f"{url}/a_1.nrrd", "-o", tmp_path / "again.png", *words, env={**os.environ, "FARFIELD_REPLICAS": "3"})
    assert (tmp_path / "local.png").read_bytes() == (tmp_path / "again.png").read_bytes()
    assert time.monotonic() - begun < 30


def test_copies(root: Path, tmp_path: Path, ff: Command) -> None:
    other = tmp_path / "other"
    shutil.copytree(root, other)
    with page_server(root, tmp_path / "s") as one, page_server(other, tmp_path / "t") as two:
        url = f"farfield://{one.address},{two.address}/root"
        with farfield.open(f"{url}/a_1.nrrd") as ds:
            assert np.array_equal(ds[:], VALUES)
        done = ff("doctor", f"{url}/a_1.nrrd", "--seconds", "0.1")
        assert "Together: their copies agree." in done.stdout and f"{two.address}: It works" in done.stdout, done.stdout
        (other / "a_2.nrrd").unlink()
        with farfield.open(f"{url}/a_2.nrrd") as ds:
            assert np.array_equal(ds[:], VALUES)
        assert f"{two.address}: It has no copy" in ff("doctor", f"{url}/a_2.nrrd", "--seconds", "0.1").stdout
        os.utime(other / "a_1.nrrd", (0, 1))
        with pytest.raises(DataError, match=r"copies differ: .* has 41943\d\d bytes of .*rsync -a"):
            farfield.open(f"{url}/a_1.nrrd")
        done = ff("doctor", f"{url}/a_1.nrrd", "--seconds", "0.1", ok=(5,))
        assert "copies differ" in done.stdout.splitlines()[-1], done.stdout


def test_what_is_refused(root: Path, tmp_path: Path, ff: Command) -> None:
    with page_server(root, tmp_path / "s") as one, page_server(root, tmp_path / "t") as two:
        for url, error, words in (
            (f"farfield://{one.address},{one.address}/root/a_1.nrrd", DataError, "twice"),
            (f"farfield://{one.address},/root/a_1.nrrd", DataError, "beside a comma"),
        ):
            with pytest.raises((error, UsageError, AccessError), match=words):
                farfield.open(url)
        both = f"farfield://{one.address},{two.address}/root/a_1.nrrd"
        assert "name one of them" in ff("serve", "--status", both, ok=(1, 2)).stderr
        done = ff("info", both, ok=(1, 2), env={**os.environ, "FARFIELD_REPLICAS": "5"})
        assert "FARFIELD_REPLICAS" in done.stderr, done.stderr
        two.stop()
        with pytest.raises(AccessError, match="FARFIELD_REPLICAS=2"):
            farfield.open(both.replace("a_1", "a_3"))
