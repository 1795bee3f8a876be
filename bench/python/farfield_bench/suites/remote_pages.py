"""Pages a second from servers, beside TensorStore and zarr-python."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield_bench import arms, common, data, network
from farfield_bench.common import MIB
from farfield_bench.network import Line, Network, Served
from farfield_bench.readers import ran
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

ARRAY = "zone1/density"
DEPTHS = (32, 128)
"""Requests of TensorStore under way; the better of both counts."""
BATCH = 400
"""Pages that Farfield is asked for at a time: a fifth of the array, so that few are neighbours."""
THREADS = 32
"""Threads of zarr-python."""
LINES = (Line("1 ms", 1), Line("10 ms", 10), Line("50 ms", 50))
LOOPBACK = "loopback"
BARS = {LOOPBACK: 4.0, "1 ms": 5.0, "10 ms": 4.0, "50 ms": 2.0}
"""Least ratio of pages a second, farfield:// over TensorStore."""
GOALS = {LOOPBACK: 7.0, "1 ms": 8.0, "10 ms": 6.0, "50 ms": 4.0}
PLAIN, TLS, WEB = "farfield://", "farfield:// over TLS", "http, nginx"
TENSORSTORE, ZARR = "TensorStore, http, nginx", "zarr-python and obstore, http, nginx"


@dataclass
class _Case:
    """The store, and its pages."""

    recorder: Recorder
    store: Path
    count: int
    slow_count: int
    """Pages of zarr-python, which takes a hundred times as long."""
    values: dict[str, set[str]] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)

    def ours(self, where: str, arm: str, network_: Network, served: Served) -> None:
        """Random pages through the pager, indexes loaded, nothing else in memory."""
        command = arms.inside(
            arm="page_reads",
            source=f"{served.url}/{self.store.name}",
            array=ARRAY.split("/")[-1],
            count=self.count,
            batch=BATCH,
            rounds=4,
            memory_limit=512 * MIB,
            readers=64,
        )
        server, passed = served.cpu_s, network_.bytes_passed()
        found = arms.run(network_.at_client(command, served.environment), takes_bytes=512 * MIB).json()
        pages = self.count * len(found["rounds"])
        more = {
            "server_cpu_us_a_page": 1e6 * (served.cpu_s - server) / pages,
            "line_bytes_a_page": (network_.bytes_passed() - passed) / pages,
        }
        row = _usual(found["rounds"])
        more["reads_a_page"] = row["reads"] / self.count
        _record(self.recorder, f"{where}: {arm}", row["wall_s"], row["cpu_s"], self.count, **more)

    def peer(self, where: str, arm: str, name: str, depth: int, count: int, network_: Network, served: Served) -> None:
        """The same pages by a peer."""
        if name in self.skipped:
            return
        url = f"{served.url}/{self.store.name}"
        command = arms.remote_peer(name, url=url, array=ARRAY, seed=1, count=count, depth=depth)
        server, passed = served.cpu_s, network_.bytes_passed()
        done = arms.run(network_.at_client(command), takes_bytes=1024 * MIB, timeout_s=120)
        if not ran(self.recorder, arm, done):
            self.skipped.add(name)
            return
        found = done.json()
        self.recorder.version(name.split("_")[0], found["version"])
        self.values.setdefault(f"{name} {count}", set()).add(found["values"])
        pages = found["pages"]
        more = {
            "server_cpu_us_a_page": 1e6 * (served.cpu_s - server) / pages,
            "line_bytes_a_page": (network_.bytes_passed() - passed) / pages,
        }
        _record(self.recorder, f"{where}: {arm}", found["wall_s"], found["cpu_s"], pages, **more)

    def turn(self, where: str, network_: Network, servers: dict[str, Served]) -> None:
        """Each arm once."""
        for arm, served in servers.items():
            self.ours(where, arm, network_, served)
        if WEB in servers:
            for depth in DEPTHS:
                arm = f"{TENSORSTORE}, {depth} at a time"
                self.peer(where, arm, "tensorstore_http", depth, self.count, network_, servers[WEB])
            self.peer(where, ZARR, "obstore_zarr", THREADS, self.slow_count, network_, servers[WEB])

    def one(self, where: str, arm: str, network_: Network, served: Served, file: str) -> None:
        """One read of 32 KiB after the other, past the pager."""
        command = arms.inside(arm="remote_reads", source=f"{served.url}/{file}", depth=1, seconds=1.5, warm_up_s=0.3)
        found = arms.run(network_.at_client(command, served.environment)).json()
        self.recorder.run(f"{where}: {arm}, one at a time", p50_ms=1e3 * found["demand"]["p50_s"])


@experiment("remote-pages", "Pages from servers: farfield:// and http beside TensorStore and zarr-python")
def measure(recorder: Recorder) -> None:
    """Random pages of 32 KiB of one array of a sharded, uncompressed Zarr store in the server's memory, 16 x 16 x
    16 numbers in double precision each. Server and clients are on one machine and share its cores: on a loopback
    device in a network namespace of its own, or at the ends of a line of 1, 10 and 50 ms without a bound of its
    rate. The line is real TCP between two namespaces (bench/python/farfield_bench/line.c). Farfield reads through
    its pager: checksums of replies and of pages are verified, no disk cache. It is asked for 400 pages at a time,
    and reads neighbours among them together. Of four rounds the first makes connections and learns the line; the
    median of the others counts. Over a line farfield:// is TLS, as its server serves nothing else to other machines; http is
    without. The peers read the same store from nginx. TensorStore has all pages asked for, and 32 or 128 requests
    under way; the better counts. zarr-python has 32 threads. Indexes of shards are loaded before in all arms. CPU
    is that of the client's process and of the server's, for each page. Bytes on the line are of both directions,
    with all that was sent before the clock starts. Bounds are ratios of arms that ran in turns.
    """
    quick = recorder.quick
    network.note_load(recorder)
    common.cache(recorder)
    flow = data.single(recorder.work, common.SMALL if quick else (256, 256, 128), precision=64)
    store = common.store(recorder, flow, page=16, codec="none")
    case = _Case(recorder, store.resolve(), *((150, 50) if quick else (1600, 300)))
    spaces, web = network.namespaces().record(recorder), network.web_server().record(recorder)
    runs = 1 if quick else min(recorder.runs, 3)
    arms.warm([store])
    _local(case, runs)
    with network.loopback(recorder.work, apart=spaces) as near:
        servers = {
            PLAIN: network.page_server(near, store.parent),
            TLS: network.page_server(near, store.parent, tls=True),
            **({WEB: network.nginx(near, store.parent)} if web else {}),
        }
        for _ in range(runs):
            case.turn(LOOPBACK, near, servers)
    for line in (LINES[1:2] if quick else LINES) if spaces else ():
        _over(case, line, runs, web)
    _judge(recorder, web)
    for what, values in case.values.items():
        recorder.claim(f"{what} pages: values that differ between lines", len(values) - 1, "==", 0, right=True)


def _over(case: _Case, line: Line, runs: int, web: bool) -> None:
    """All arms over one line."""
    with ExitStack() as stack:
        far = stack.enter_context(network.over(line, case.recorder.work))
        folder = case.store.parent
        servers = {TLS: network.page_server(far, folder, tls=True)}
        if web:
            servers[WEB] = network.nginx(far, folder)
        shard = next(p for p in sorted((case.store / ARRAY).rglob("c*")) if p.is_file())
        for _ in range(runs):
            case.turn(line.name, far, servers)
            for arm, served in servers.items():
                case.one(line.name, arm, far, served, str(shard.relative_to(folder)))


def _local(case: _Case, runs: int) -> None:
    """The same pages from local files in memory: what a page costs without a network."""
    for _ in range(runs):
        command = arms.inside(
            arm="page_reads",
            source=str(case.store),
            array=ARRAY.split("/")[-1],
            count=case.count,
            batch=BATCH,
            rounds=4,
            memory_limit=512 * MIB,
            readers=16,
        )
        found = arms.run(command, takes_bytes=512 * MIB).json()
        row = _usual(found["rounds"])
        _record(case.recorder, "local files in memory", row["wall_s"], row["cpu_s"], case.count)


def _usual(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """The median round, without the first, which makes connections and learns the line."""
    later = sorted(rounds[1:], key=lambda row: float(row["wall_s"]))
    return later[len(later) // 2]


def _record(recorder: Recorder, arm: str, wall_s: float, cpu_s: float, pages: int, **more: float) -> None:
    recorder.run(arm, settings=None, pages_a_s=pages / wall_s, client_cpu_us_a_page=1e6 * cpu_s / pages, **more)


def _better(recorder: Recorder, where: str) -> float | None:
    """Pages a second of TensorStore; None without it."""
    names = [f"{where}: {TENSORSTORE}, {depth} at a time" for depth in DEPTHS]
    rates = [recorder.median(name, "pages_a_s") for name in names if recorder.measured(name, "pages_a_s")]
    return max(rates, default=None)


def _judge(recorder: Recorder, web: bool) -> None:
    """The bounds, and a table of all ratios."""
    rows: list[list[str | float | int]] = []

    def over(where: str, arm: str, bar: float | None, goal: float | None) -> None:
        name, peer = f"{where}: {arm}", _better(recorder, where)
        if peer is None or not recorder.measured(name, "pages_a_s"):
            return
        ratio = recorder.median(name, "pages_a_s") / peer
        zarr = f"{where}: {ZARR}"
        slow = (
            recorder.median(name, "pages_a_s") / recorder.median(zarr, "pages_a_s")
            if recorder.measured(zarr, "pages_a_s")
            else ""
        )
        rows.append([name, ratio, bar or "", goal or "", slow])
        if bar is not None:
            recorder.claim(f"{name}: pages a second over TensorStore's", ratio, ">=", bar, unit="times")
        if where == LOOPBACK and arm == WEB and slow != "":
            recorder.claim(f"{name}: pages a second over zarr-python's", float(slow), ">=", 6, unit="times")

    over(LOOPBACK, PLAIN, BARS[LOOPBACK], GOALS[LOOPBACK])
    over(LOOPBACK, TLS, 2.0, 3.5)
    over(LOOPBACK, WEB, 1.5, 2.5)
    for line in LINES:
        over(line.name, TLS, BARS[line.name], GOALS[line.name])
        over(line.name, WEB, None, None)
    recorder.table("Ratios of pages a second", ["arm", "over TensorStore", "bar", "goal", "over zarr-python"], rows)
    local = recorder.median("local files in memory", "client_cpu_us_a_page")
    near = recorder.median(f"{LOOPBACK}: {PLAIN}", "client_cpu_us_a_page")
    recorder.claim(
        "farfield://, CPU time of a page at the client over a local warm page's", near / local, "<=", 2.0, unit="times"
    )
    for arm, bar in ((PLAIN, 20), (TLS, 45)):
        spent = recorder.median(f"{LOOPBACK}: {arm}", "server_cpu_us_a_page")
        recorder.claim(f"{arm}: CPU time of a page at the server", spent, "<=", bar, unit="us")
    for line in LINES:
        name = f"{line.name}: {TLS}, one at a time"
        if recorder.measured(name, "p50_ms"):
            most = 1.2 * line.rtt_ms + 1
            recorder.claim(
                f"{line.name}: one read at a time, median", recorder.median(name, "p50_ms"), "<=", most, unit="ms"
            )
    if not web:
        recorder.note("Without http and the peers: they need nginx.")
