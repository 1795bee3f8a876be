"""Use of lines with a rate, and the wait for a page while others are prefetched."""

from __future__ import annotations

from pathlib import Path

from farfield_bench import arms, common, network
from farfield_bench.common import MIB
from farfield_bench.network import Line, Network, Served
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

SLOW = Line("100 Mbit, 10 ms", 10, 100)
LINES = {
    SLOW: (0.90, 0.94),
    Line("1 Gbit, 10 ms", 10, 1000, queue_kib=2048): (0.85, 0.90),
    Line("1 Gbit, 50 ms", 50, 1000, queue_kib=8192): (0.70, 0.85),
    Line("100 Mbit, 50 ms, loss 1e-3", 50, 100, loss=1e-3): (0.75, 0.85),
}
"""Least share of the line, and the goal."""
WAIT_MS, WAIT_GOAL_MS = 45.0, 30.0
"""Most wait for a demanded page while prefetched ones fill `SLOW`."""
DEEP = 512
"""Reads that are asked for at a time: the place sends as many as it finds right."""
SERVERS = ("farfield://", "http")


@experiment("remote-lines", "Lines with a rate: the share that is used, and the wait for a demanded page")
def measure(recorder: Recorder) -> None:
    """Reads of 32 KiB at random places of a file of 256 MiB in the server's memory, past the pager, over lines with a
    rate, a delay, a queue and a loss: real TCP between two network namespaces (bench/python/farfield_bench/line.c).
    Bytes of the line are those of Ethernet, so at most 95.6 % are data. The reader asks for 512 at a time, and the
    place decides how many are under way. The first 1.5 s, in which the line is learned, do not count. farfield:// is
    over TLS, http from nginx without. Congestion control is the server's choice: bbr where the kernel lets it, for
    nginx the system's. Then one demanded read at a time, while 512 prefetched ones are asked for: the median of its wait.
    """
    quick = recorder.quick
    network.note_load(recorder)
    if not network.namespaces().record(recorder):
        return
    web = network.web_server().record(recorder)
    congestion = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    recorder.condition("congestion control bbr for all", "bbr" in congestion, f"allowed: {', '.join(congestion)}")
    folder = (recorder.work / "remote-lines").resolve()
    common.random_file(folder, (32 if quick else 256) * MIB)
    runs = 1 if quick else min(recorder.runs, 3)
    seconds = 2.5 if quick else 6.5
    for line in list(LINES)[: 1 if quick else None]:
        with network.over(line, recorder.work) as far:
            servers = {"farfield://": network.page_server(far, folder, tls=True)}
            if web:
                servers["http"] = network.nginx(far, folder)
            for _ in range(runs):
                for name, served in servers.items():
                    _share(recorder, line, name, far, served, seconds)
                    if line == SLOW:
                        _wait(recorder, name, far, served, seconds)
    _judge(recorder)


def _share(recorder: Recorder, line: Line, name: str, far: Network, served: Served, seconds: float) -> None:
    """As many reads as the line carries."""
    command = arms.inside(
        arm="remote_reads", source=f"{served.url}/random.bin", depth=DEEP, seconds=seconds, warm_up_s=1.5
    )
    server, begun = served.cpu_s, far.bytes_passed()
    found = arms.run(far.at_client(command, served.environment), timeout_s=90).json()
    rate = found["bytes"] / found["wall_s"]
    recorder.run(
        f"{line.name}: {name}",
        share_of_line=rate / line.bytes_per_s,
        pages_a_s=found["reads"] / found["wall_s"],
        client_cpu_us_a_page=1e6 * found["cpu_s"] / max(found["reads"], 1),
        server_cpu_s=served.cpu_s - server,
        passed_bytes=far.bytes_passed() - begun,
    )


def _wait(recorder: Recorder, name: str, far: Network, served: Served, seconds: float) -> None:
    """One demanded read at a time among prefetched ones, and alone."""
    for how, ahead in (("alone", 0), ("amid prefetches", DEEP)):
        command = arms.inside(
            arm="remote_reads", source=f"{served.url}/random.bin", depth=1, ahead=ahead, seconds=seconds, warm_up_s=1.5
        )
        found = arms.run(far.at_client(command, served.environment), timeout_s=90).json()
        recorder.run(
            f"{SLOW.name}: {name}, a demanded page {how}",
            wait_p50_ms=1e3 * found["demand"]["p50_s"],
            wait_p99_ms=1e3 * found["demand"]["p99_s"],
            share_of_line=found["bytes"] / found["wall_s"] / SLOW.bytes_per_s,
        )


def _judge(recorder: Recorder) -> None:
    """The bounds, which are for farfield://; http stands beside it."""
    rows: list[list[str | float | int]] = []
    for line, (bar, goal) in LINES.items():
        for name in SERVERS:
            arm = f"{line.name}: {name}"
            if recorder.measured(arm, "share_of_line"):
                share = recorder.median(arm, "share_of_line")
                rows.append([arm, share, bar if name == SERVERS[0] else "", goal if name == SERVERS[0] else ""])
                if name == SERVERS[0]:
                    recorder.claim(f"{arm}: share of the line", share, ">=", bar)
    recorder.table("Share of the line", ["line", "share", "bar", "goal"], rows)
    arm = f"{SLOW.name}: {SERVERS[0]}, a demanded page amid prefetches"
    wait = recorder.median(arm, "wait_p50_ms")
    recorder.claim(f"{arm}, median wait", wait, "<=", WAIT_MS, unit="ms")
    recorder.note(f"The goal of a demanded page's wait is {WAIT_GOAL_MS:g} ms.")
