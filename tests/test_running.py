"""A command in this process prints and ends as one in a process of its own, and leaves this process as it was."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings
from pathlib import Path

import pytest

from farfield.runtime import cache
from running import SIGNALS, farfield, process

LINES = (
    "",
    "--version",
    "trace --help",
    "config list",
    "config get codec",
    "info {flow}",
    "info {flow} --json",
    "info {flow} -v",
    "probe {flow} 0.5 0.5 0.5",
    "probe {flow} 9 9 9",
    "trace {flow} --seeds random:9:1 -o lines.npz -q",
    "trace {flow} --seeds point:9,9,9 -o lines.npz -q",
    "trace {flow} --seeds random:9:1 -o lines.npz --memory-limit 1KiB",
    "render {flow} --size 64x48 -o picture.png -q",
    "info none.xyz",
    "info {flow} --plot3d-precision 16",
    "nonsense",
)


@pytest.mark.parametrize("line", LINES)
def test_both_ways_give_the_same(line: str, flow: str, tmp_path: Path) -> None:
    ways = {}
    for way in (farfield, process):
        folder = tmp_path / way.__name__
        folder.mkdir()
        (folder / "farfield.toml").write_text("codec = 'lz4'\n")
        env = {"FARFIELD_PAGE": "8", "COLUMNS": "90"}
        done = way(*line.format(flow=flow).split(), ok=(0, 1, 2, 4), env=env, cwd=folder)
        files = {p.name: p.read_bytes() for p in folder.iterdir()}
        ways[way.__name__] = (done.returncode, done.stdout, done.stderr.replace(str(folder), "."), files)
    assert ways["farfield"] == ways["process"]
    assert any(ways["farfield"][1:3]) or "-q" in line


def state() -> tuple[object, ...]:
    """What a command may change of the process that it runs in."""
    return (
        dict(os.environ), Path.cwd(), [signal.getsignal(n) for n in (*SIGNALS, signal.SIGALRM)], signal.alarm(0),
        (sys.stdin, sys.stdout, sys.stderr), [os.fstat(n) for n in range(3)], logging.getLogger().handlers[:],
        warnings.filters[:], warnings.showwarning, dict(cache._BEGUN), dict(cache._LOOKED), len(os.listdir("/proc/self/fd")),
    )  # fmt: skip


def test_nothing_of_a_command_stays(flow: str, tmp_path: Path) -> None:
    before = state()
    cached = {"FARFIELD_CACHE_DIR": str(tmp_path / "cache")}
    farfield("trace", flow, "--seeds", "random:3:1", "-o", tmp_path / "lines.npz", env=cached, cwd=tmp_path)
    farfield("nonsense", ok=(2,))
    with pytest.raises(AssertionError, match="exit 2: farfield: error: no command 'nonsense'"):
        farfield("nonsense")
    assert list((tmp_path / "cache" / "data").iterdir()), "no cache was used"
    assert state() == before


def test_descriptors_warnings_and_logs_are_what_a_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    from farfield import cli

    def run(_: object) -> int:
        os.write(1, b"from the extension\n")
        print("from Python")
        warnings.warn("once", RuntimeWarning, stacklevel=1)
        warnings.warn("for programmers", DeprecationWarning, stacklevel=1)
        logging.getLogger("somebody").warning("a log")
        logging.getLogger("somebody").info("a detail")
        os.write(2, b"panic\n")
        assert sys.stdin.read() == "" and not sys.stderr.isatty()
        return 3

    monkeypatch.setattr(cli, "run", run)
    done = farfield(ok=(3,))
    assert done.stdout == "from the extension\nfrom Python\n"
    assert "RuntimeWarning: once\n" in done.stderr and "a log\n" in done.stderr and done.stderr.endswith("panic\n")
    assert "programmers" not in done.stderr and "detail" not in done.stderr
    with pytest.raises(AssertionError, match="exit 3"):
        farfield()


def test_interrupts_end_the_tests_and_hanging_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    import running
    from farfield import cli

    monkeypatch.setattr(cli, "_run", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        farfield()
    assert farfield(ok=(130,)).stderr == "farfield: interrupted\n"
    monkeypatch.setattr(running, "LONGEST_S", 1)
    monkeypatch.setattr(cli, "_run", lambda _: signal.pause())
    with pytest.raises(AssertionError, match="longer than 1 s"):
        farfield(ok=(130,))
