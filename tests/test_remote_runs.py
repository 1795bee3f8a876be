"""Whole runs over a line that breaks, from files that change, with bits that flip: the exact result, or an error that says why."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield.errors import FarfieldError
from line_between import Line, line_to
from plot3d_files import box, cut, write
from remote_servers import page_server, use, web_server
from running import Command

SOAK = "FARFIELD_SOAK_S" in os.environ
DEADLINE_S = 1.0
SERVERS = ("http", "farfield")
VALUES = np.random.default_rng(1).integers(1, 60000, (64, 256, 256)).astype("<u2")
HEAD = b"NRRD0004\ntype: uint16\ndimension: 3\nsizes: 256 256 64\nendian: little\nencoding: raw\n\n"


@dataclass
class Run:
    """A command that reads a file of a server."""

    file: str
    words: tuple[object, ...]
    output: str
    source: Callable[[str], str]


RUNS = {
    "render": Run("a.nrrd", ("--size", "48x48", "--memory-limit", "6MiB"), "p.png", lambda root: f"{root}/a.nrrd"),
    "trace": Run(
        "f.q",
        ("--seeds", "random:60:1", "--max-steps", 300, "--memory-limit", "24MiB"),
        "l.npz",
        lambda root: f"{root}/f.xyz+q={root}/f.q",
    ),
    "convert": Run("a.nrrd", ("--memory-limit", "6MiB"), "s.zarr", lambda root: f"{root}/a.nrrd"),
}
CHANGES: dict[str, Callable[[Path], None]] = {}


def change(made: Callable[[Path], None]) -> Callable[[Path], None]:
    CHANGES[made.__name__] = made
    return made


@change
def replaced(file: Path) -> None:
    new = file.with_suffix(".new")
    new.write_bytes(file.read_bytes()[:-40_000] + bytes(40_000))
    os.replace(new, file)


@change
def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 3)


@change
def deleted(file: Path) -> None:
    file.unlink()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Volumes and a flow of some megabytes, by name."""
    made = tmp_path_factory.mktemp("runs")
    write(made, cut(box(81, 61, 41), 2), stem="f")
    (made / "a.nrrd").write_bytes(HEAD + VALUES.tobytes())
    return {path.name: path.read_bytes() for path in made.iterdir()}


@pytest.fixture
def root(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_CACHE="0", FARFIELD_NETWORK_TIMEOUT=str(DEADLINE_S))
    made = tmp_path / "root"
    made.mkdir()
    for name, content in files.items():
        (made / name).write_bytes(content)
    return made


@contextmanager
def served(server: str, root: Path, tmp_path: Path) -> Iterator[tuple[Line, str]]:
    """A line to a server of the folder, and the folder's address over it."""
    with ExitStack() as stack:
        if server == "http":
            web = stack.enter_context(web_server(root))
            line = stack.enter_context(line_to(web.server))
            yield line, f"http://{line.address}"
        else:
            pages = stack.enter_context(page_server(root, tmp_path / "state"))
            line = stack.enter_context(line_to(pages.address))
            yield line, f"farfield://{line.address}/root"


def result(path: Path) -> dict[str, bytes]:
    """The bytes of an output, but for the names of its sources."""
    if path.suffix == ".npz":
        with np.load(path) as found:
            return {key: found[key].tobytes() for key in ("points", "offsets")}
    files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file() and p.name != "zarr.json"]
    return {str(p.relative_to(path.parent)): p.read_bytes() for p in files}


def go(ff: Command, kind: str, folder: str, target: Path, ok: tuple[int, ...]) -> tuple[int, str]:
    """Runs; the exit code, and what was said."""
    run = RUNS[kind]
    out = (target,) if kind == "convert" else ("-o", target)
    done = ff(
        kind,
        run.source(folder),
        *(out if kind == "convert" else ()),
        *run.words,
        *(() if kind == "convert" else out),
        ok=ok,
    )
    return done.returncode, done.stderr


@pytest.fixture
def wanted(root: Path, ff: Command, tmp_path: Path) -> Callable[[str], dict[str, bytes]]:
    """The result of a run over local files."""

    def of(kind: str) -> dict[str, bytes]:
        target = tmp_path / f"wanted-{RUNS[kind].output}"
        go(ff, kind, str(root), target, (0,))
        return {key.replace("wanted-", ""): value for key, value in result(target).items()}

    return of


def bytes_of_run(ff: Command, kind: str, line: Line, address: str, target: Path) -> int:
    """Bytes from the server in a run without faults."""
    line.passed = 0
    go(ff, kind, address, target, (0,))
    return line.passed


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_file_changes_during_a_run(
    server: str,
    kind: str,
    what: str,
    root: Path,
    files: dict[str, bytes],
    ff: Command,
    tmp_path: Path,
    wanted: Callable[[str], dict[str, bytes]],
) -> None:
    """Both versions are named, and nothing is written; or nothing of the other version was needed any more."""
    right, file = wanted(kind), root / RUNS[kind].file
    ended = 0
    with served(server, root, tmp_path) as (line, address):
        all_bytes = bytes_of_run(ff, kind, line, address, tmp_path / RUNS[kind].output)
        assert result(tmp_path / RUNS[kind].output) == right
        rng = random.Random(f"{server}{kind}{what}")
        # The middle, and in a soak any moment after the opening.
        moments = [0.5, *(rng.uniform(0.05, 1) for _ in range(30 if SOAK else 0))]
        for n, moment in enumerate(moments):
            target = tmp_path / str(n) / RUNS[kind].output
            target.parent.mkdir()
            line.at(int(all_bytes * moment), lambda: CHANGES[what](file))
            code, said = go(ff, kind, address, target, (0, 1))
            if code == 0:
                assert moment > 0.5 and result(target) == right, moment
            else:
                ended += 1
                assert not target.exists()
                assert re.search(r"changed while it was read: it was .+ and is .+; open the dataset again", said), said
                assert file.name in said and ("deleted" in said) == (what == "deleted"), said
            file.write_bytes(files[file.name])
            time.sleep(0.02)  # for the clock that gives files their times
    assert ended > 0


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("server", SERVERS)
def test_the_only_server_is_gone_for_a_while(
    server: str,
    kind: str,
    root: Path,
    ff: Command,
    tmp_path: Path,
    wanted: Callable[[str], dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gone_s = 10.0 if SOAK else 1.0
    monkeypatch.setenv("FARFIELD_NETWORK_TIMEOUT", "30")
    right = wanted(kind)
    with served(server, root, tmp_path) as (line, address):
        all_bytes = bytes_of_run(ff, kind, line, address, tmp_path / RUNS[kind].output)
        timers = []

        def gone() -> None:
            line.cut()
            timers.append(threading.Timer(gone_s, line.listen))
            timers[0].start()

        line.at(all_bytes // 3, gone)
        target = tmp_path / "again" / RUNS[kind].output
        target.parent.mkdir()
        begun = time.monotonic()
        go(ff, kind, address, target, (0,))
        took = time.monotonic() - begun
        assert timers and gone_s < took < gone_s + 8, took
        assert result(target) == right


@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.parametrize("server", SERVERS)
def test_the_only_server_is_gone_for_good(server: str, kind: str, root: Path, ff: Command, tmp_path: Path) -> None:
    with served(server, root, tmp_path) as (line, address):
        all_bytes = bytes_of_run(ff, kind, line, address, tmp_path / RUNS[kind].output)
        moments: list[float] = []

        def gone() -> None:
            line.cut()
            moments.append(time.monotonic())

        line.at(all_bytes // 3, gone)
        target = tmp_path / "again" / RUNS[kind].output
        target.parent.mkdir()
        _, said = go(ff, kind, address, target, (5,))
        took = time.monotonic() - moments[0]
        assert took < DEADLINE_S + 1, took
        assert line.address in said and re.search("(once|times) in", said) and not target.exists(), said


@pytest.mark.parametrize("server", SERVERS)
def test_flipped_bits(server: str, root: Path, tmp_path: Path) -> None:
    """A store has a checksum of each page and document, and each reply of a page server has one."""
    farfield.convert(str(root / "a.nrrd"), root / "a.zarr", progress=False, levels=1)
    rng = random.Random(7)
    seen = 0
    with served(server, root, tmp_path) as (line, address):
        line.passed = 0
        with farfield.open(f"{address}/a.zarr") as ds:
            assert np.array_equal(ds[0:40], VALUES[0:40])
        all_bits = 8 * line.passed
        for _ in range(1000 if SOAK else 25):
            line.passed, line.flip = 0, rng.randrange(all_bits)
            try:
                with farfield.open(f"{address}/a.zarr") as ds:
                    assert np.array_equal(ds[0:40], VALUES[0:40]), f"bit {line.flip} was believed"
            except FarfieldError:
                seen += 1
    if server == "farfield":
        assert seen == 0, "a bit that flips once is healed"
