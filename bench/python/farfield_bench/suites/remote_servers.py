"""Several page servers as one place: their rates together, and the time when one of them fails."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from farfield_bench import arms, common, network
from farfield_bench.common import MIB
from farfield_bench.network import Line, Network, Served
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

SLOW = Line("100 Mbit, 10 ms", 10, 100)
OPEN = Line("10 ms", 10)
SERVERS = 3
RATIO, RATIO_GOAL = 2.6, 2.9
"""Least rate of three servers over that of one."""
DEEP, WIDE = 512, 64
"""Reads that are asked for at a time: to fill lines, and where one server fails."""
HEALTHY = "all three are healthy"
MOST_BYTES = 1.06
"""Most bytes of a read over those of healthy servers."""
_FAULT_AT_S = 4.0
"""Time from the start of the client's process: it reads by then."""


def _kill(_: Network, served: Served) -> None:
    os.kill(served.pid, signal.SIGKILL)


def _stop(_: Network, served: Served) -> None:
    os.kill(served.pid, signal.SIGSTOP)


def _slow_down(far: Network, _: Served) -> None:
    if far.line is not None:
        far.line.send_signal(signal.SIGUSR1)


FAULTS: dict[str, tuple[Callable[[Network, Served], None], float]] = {
    "one is killed": (_kill, 1.2),
    "one is stopped": (_stop, 1.3),
    "the line to one takes 20 times as long": (_slow_down, 1.15),
}
"""What befalls one of three, and the most time over the healthy one."""


@experiment("remote-servers", "Three page servers as one place: their rate, and one of them failing")
def measure(recorder: Recorder) -> None:
    """Reads of 32 KiB at random places of a file of 256 MiB in the memory of page servers, past the pager, over TLS.
    Each server is at the end of a line of its own: real TCP between network namespaces
    (bench/python/farfield_bench/line.c), all on one machine. First lines of 100 Mbit and 10 ms, 512 reads at a time, at
    one server and at three. Then three lines of 10 ms without a bound, 64 reads at a time, and in the middle of the run
    one of the servers is killed, stopped, or its line takes 20 times as long. The time of a read then counts over that
    of a run with healthy servers, and so do the bytes on the lines: hedges send some twice.
    """
    quick = recorder.quick
    network.note_load(recorder)
    if not network.namespaces().record(recorder):
        return
    folder = (recorder.work / "remote-servers").resolve()
    common.random_file(folder, (32 if quick else 256) * MIB)
    seconds = 2.5 if quick else 8.0
    for _ in range(1 if quick else min(recorder.runs, 3)):
        for count in (1, SERVERS):
            with network.over_each([SLOW] * count, recorder.work) as ends:
                _read(recorder, f"{SLOW.name}: {count}", ends, _serve(ends, folder), DEEP, seconds)
        for how in (HEALTHY, *list(FAULTS)[: 1 if quick else None]):
            with network.over_each([OPEN] * SERVERS, recorder.work) as ends:
                servers = _serve(ends, folder)
                fault = FAULTS[how][0] if how in FAULTS else None
                timer = threading.Timer(_FAULT_AT_S, lambda at=ends[1], of=servers[1], do=fault: do and do(at, of))
                timer.start()
                _read(recorder, how, ends, servers, WIDE, max(2 * seconds, _FAULT_AT_S + 2))
                timer.join()
    _judge(recorder)


def _serve(ends: list[Network], folder: Path) -> list[Served]:
    first = network.page_server(ends[0], folder, tls=True)
    return [first, *(network.page_server(far, folder, tls=True, like=first) for far in ends[1:])]


def _read(recorder: Recorder, arm: str, ends: list[Network], servers: list[Served], depth: int, seconds: float) -> None:
    source = f"{network.together(servers)}/random.bin" if len(servers) > 1 else f"{servers[0].url}/random.bin"
    command = arms.inside(arm="remote_reads", source=source, depth=depth, seconds=seconds, warm_up_s=1.5)
    before = sum(far.bytes_passed() for far in ends)
    found = arms.run(ends[0].at_client(command, servers[0].environment), timeout_s=90).json()
    passed = sum(far.bytes_passed() for far in ends) - before
    pages = found["reads"] / found["wall_s"]
    recorder.run(
        arm,
        pages_a_s=pages,
        wait_p50_ms=1e3 * found["demand"]["p50_s"],
        wait_p99_ms=1e3 * found["demand"]["p99_s"],
        client_cpu_us_a_page=1e6 * found["cpu_s"] / max(found["reads"], 1),
        line_bytes_a_page=passed / max(pages * seconds, 1),
    )


def _judge(recorder: Recorder) -> None:
    one, three = (f"{SLOW.name}: {count}" for count in (1, SERVERS))
    ratio = recorder.median(three, "pages_a_s") / recorder.median(one, "pages_a_s")
    recorder.claim("three servers of 100 Mbit over one, rate", ratio, ">=", RATIO, unit="times")
    rows: list[list[str | float | int]] = []
    healthy = {name: recorder.median(HEALTHY, name) for name in ("pages_a_s", "wait_p99_ms", "line_bytes_a_page")}
    for how, (_, most) in FAULTS.items():
        if not recorder.measured(how, "pages_a_s"):
            continue
        time = healthy["pages_a_s"] / recorder.median(how, "pages_a_s")
        late = recorder.median(how, "wait_p99_ms") / healthy["wait_p99_ms"]
        sent = recorder.median(how, "line_bytes_a_page") / healthy["line_bytes_a_page"]
        rows.append([how, time, late, sent])
        recorder.claim(f"{how}: time over the healthy one", time, "<=", most, unit="times")
        recorder.claim(f"{how}: bytes of a page over the healthy ones", sent, "<=", MOST_BYTES, unit="times")
    recorder.table("One of three servers fails: over healthy servers", ["fault", "time", "p99", "bytes a page"], rows)
    recorder.note(f"The goal of three servers over one is {RATIO_GOAL:g} times.")
