"""What happens to runs: kills, Ctrl-C, full disks, files that shrink, company, too little memory. Through the real command line."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from farfield.errors import DataError
from plot3d_files import Block, box, cut, source_of, write
from running import Command, Json, begun, start

SOAK_S = float(os.environ.get("FARFIELD_SOAK_S", "0"))
KILLS = 100 if SOAK_S else 6
"""Moments at which a conversion is killed."""
PATIENCE_S = 2.0
"""How soon Ctrl-C is answered, on a machine that may be busy with other things."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A flow of about fifty megabytes: long enough to be hit in the middle."""
    return source_of(*write(tmp_path_factory.mktemp("large"), cut(box(161, 81, 61), 2)))


def digest(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_conversion_killed_at_any_moment(large: str, ff: Command, flow: str, tmp_path: Path) -> None:
    """Either the old store, whole, or what `--resume` completes to the bytes of a run that nobody disturbed."""
    sign, wanted = tmp_path / "events.json", tmp_path / "wanted.zarr"
    words = ("--codec", "lz4", "--page", 8, "--events", sign)
    child = start("convert", large, wanted, *words)
    begun(child, sign)
    before = time.monotonic()
    _, err = child.communicate(timeout=300)
    took = time.monotonic() - before
    assert child.returncode == 0, err
    new = digest(wanted)
    target = tmp_path / "s.zarr"
    moments = random.Random(1997)
    killed = 0
    for n in range(KILLS):
        old: dict[str, bytes] | None = None
        if n % 2:
            ff("convert", flow, target, "--overwrite")
            old = digest(target)
        elif target.exists():
            subprocess.run(["rm", "-r", target], check=True)
        # Killed, gone on with, killed again, up to three times; then to the end.
        for again in range(1 + n % 3):
            delay = moments.random() * took
            sign.unlink()
            more = ["--resume"] if again else []
            child = start("convert", large, target, *words, "--overwrite", *more)
            begun(child, sign)
            time.sleep(delay)
            child.kill()
            _, err = child.communicate(timeout=60)
            killed += child.returncode == -signal.SIGKILL
            assert child.returncode in (0, -signal.SIGKILL), err
            if target.exists():
                assert digest(target) in (old, new), f"round {n}, after {delay:.3f} s"
            else:
                assert old is None, f"round {n}, after {delay:.3f} s: the old store is gone"
        ff("convert", large, target, *words, "--overwrite", "--resume")
        assert digest(target) == new, f"round {n}"
        assert not Path(f"{target}.partial").exists()
    assert killed >= KILLS // 3, f"only {killed} of the kills hit a run"


def test_two_converters_on_one_target(large: str, ff: Command, tmp_path: Path) -> None:
    target = tmp_path / "s.zarr"
    first = start("convert", large, target, "--codec", "zstd", "--workers", 1)
    begun(first, Path(f"{target}.partial") / "plan.json")
    # Held, so that the second meets it however fast the machine is.
    first.send_signal(signal.SIGSTOP)
    try:
        assert first.poll() is None
        for more in ((), ("--overwrite",), ("--resume",)):
            second = ff("convert", large, target, "--codec", "zstd", *more, ok=(1,))
            assert str(target) in second.stderr and "another conversion" in second.stderr and "wait" in second.stderr
    finally:
        first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    ff("validate", target)
    # After that there is a store.
    assert "--overwrite" in ff("convert", large, target, ok=(1,)).stderr


def commands(large: str, store: Path, folder: Path) -> dict[str, tuple[object, ...]]:
    trace = ("--seeds", "random:30000:1", "--max-steps", 500)
    return {
        "convert": ("convert", large, folder / "s.zarr", "--codec", "zstd", "--workers", 1),
        "trace": ("trace", store, *trace, "-o", folder / "l.vtp"),
        "trace in place": ("trace", large, *trace, "-o", folder / "l.npz"),
        "render": ("render", store, "--size", "6000x4000", "-o", folder / "p.png"),
        "validate": ("validate", store, "--workers", 1),
    }


@pytest.fixture(scope="module")
def large_store(large: str, ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("large-store") / "s.zarr"
    ff("convert", large, target, "--codec", "zstd", "--page", 8)
    return target


@pytest.mark.parametrize("what", ["convert", "trace", "trace in place", "render", "validate"])
def test_ctrl_c(what: str, large: str, large_store: Path, ff: Command, tmp_path: Path) -> None:
    """Answered soon, whenever it comes: exit 130, one line, and nothing left that reads wrong."""
    hits = 0
    for n, delay in enumerate((0.0, 0.05, 0.2, 0.5, 1.0)):
        folder = tmp_path / str(n)
        folder.mkdir()
        sign = folder / "events.json"
        words = commands(large, large_store, folder)[what]
        child = start(*words, "--events", sign)
        begun(child, sign)
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        _, err = child.communicate(timeout=60)
        answered = time.monotonic() - sent
        left = sorted(p.name for p in folder.iterdir() if p != sign)
        if child.returncode == 0:
            break  # it was done before
        hits += 1
        assert child.returncode == 130, err
        assert err.startswith("farfield: interrupted") and err.count("\n") == 1, err
        assert answered < PATIENCE_S, (delay, answered, err)
        if left == ["s.zarr"]:
            # It came when the conversion was committed and had only to say so: the store is whole.
            assert what == "convert"
            ff("validate", folder / "s.zarr")
            continue
        assert set(left) <= ({"s.zarr.partial"} if what == "convert" else set()), left
        json.loads(sign.read_text())
        if left:
            # What is left of a conversion is taken for no store, and is gone on with, which is said where there is anything.
            assert ("--resume" in err) == (folder / "s.zarr.partial" / "plan.json").exists(), err
            assert ff("info", folder / "s.zarr.partial", ok=(1, 2)).stderr
            ff(*words, "--resume")
            ff("validate", folder / "s.zarr")
    assert hits, "every run was over before it could be interrupted"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of six megabytes."""
    where = tmp_path / "small"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "farfield-test", str(where)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def test_a_full_disk(large: str, large_store: Path, flow: str, small_disk: Path, ff: Command, tmp_path: Path) -> None:
    target = small_disk / "s.zarr"
    ff("convert", flow, target)
    old = digest(target)
    # Known beforehand, and found out on the way; the old store stays.
    for codec in ("none", "lz4"):
        done = ff("convert", large, target, "--overwrite", "--codec", codec, ok=(1,))
        assert (
            str(small_disk) in done.stderr and "no space left on device" in done.stderr and "make room" in done.stderr
        )
        assert digest(target) == old
    subprocess.run(["rm", "-rf", f"{target}.partial"], check=True)
    for name in ("l.vtp", "l.npz"):
        done = ff("trace", large_store, "--seeds", "random:3000:1", "-o", small_disk / name, ok=(1,))
        assert name in done.stderr and "no space left on device" in done.stderr, done.stderr
    # Results that do not fit in memory wait on a disk, too.
    spill = {"TMPDIR": str(small_disk)}
    words = ("trace", large_store, "--seeds", "random:6000:1", "--memory-limit", "24MiB", "-o", tmp_path / "l.npz")
    done = ff(*words, ok=(1,), env=spill)
    assert "no space left on device" in done.stderr and "TMPDIR" in done.stderr, done.stderr
    # A surface of this flow is small: the rest of the disk is taken first.
    rest = os.open(small_disk / "rest", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError, match="No space left"):
        while True:
            os.write(rest, bytes(4096))
    os.close(rest)
    done = ff("extract", "grid-surface", large_store, "--surface", "zone1:k=1", "-o", small_disk / "e.vtp", ok=(1,))
    assert "e.vtp" in done.stderr and "no space left on device" in done.stderr, done.stderr
    done = ff("render", large_store, "--size", "640x480", "-o", small_disk / "p.png", ok=(1,))
    assert "p.png" in done.stderr and "no space left on device" in done.stderr, done.stderr
    (small_disk / "rest").unlink()
    assert sorted(p.name for p in small_disk.iterdir()) == ["s.zarr"] and not (tmp_path / "l.npz").exists()


def test_a_file_that_shrinks_while_it_is_read(flow_blocks: list[Block], ff: Command, tmp_path: Path) -> None:
    """Lines that are complete are right; the others say so; or the run ends with an error that names the file."""
    grid, solution = write(tmp_path, flow_blocks)
    source, out = source_of(grid, solution), tmp_path / "l.npz"
    words = ("trace", source, "--seeds", "random:4000:3", "--max-steps", 60, "--direction", "forward", "-o", out)
    before = time.monotonic()
    ff(*words)
    took = time.monotonic() - before
    wanted = dict(np.load(out))
    whole = {p: p.read_bytes() for p in (grid, solution)}
    moments, seen = random.Random(2001), set()
    for n in range(40 if SOAK_S else 8):
        out.unlink(missing_ok=True)
        victim = (grid, solution)[n % 2]
        events = tmp_path / "e.json"
        events.unlink(missing_ok=True)
        child = start(*words, "--events", events)
        begun(child, events)
        time.sleep(moments.uniform(0, 0.3) * took)
        os.truncate(victim, int(len(whole[victim]) * moments.uniform(0.1, 0.9)))
        _, err = child.communicate(timeout=60)
        seen.add(child.returncode)
        assert "Traceback" not in err and "panicked" not in err, err
        if child.returncode in (0, 3):
            got = dict(np.load(out))
            starts, ends = got["offsets"][:-1], got["offsets"][1:]
            for line in range(len(starts)):
                old = wanted["points"][wanted["offsets"][line] : wanted["offsets"][line + 1]]
                new = got["points"][starts[line] : ends[line]]
                if got["reason"][line] != "failed":
                    assert new.tobytes() == old.tobytes(), f"round {n}, line {line}"
            assert ("failed" in got["reason"]) == (child.returncode == 3)
        else:
            assert child.returncode == 1 and err.count("\n") <= 12 and not out.exists(), err
            assert victim.name in err or "flow" in err, err
        victim.write_bytes(whole[victim])
    assert seen & {1, 3}, "every run was over before its file shrank"


def amount(done: subprocess.CompletedProcess[str]) -> str:
    """What a refusal says would do."""
    found = re.search(
        r"the memory limit of .* is too small: .* needs about ([0-9.]+) ([KMG]iB); raise --memory-limit to that",
        done.stderr,
    )
    assert found, done.stderr
    return found[1] + found[2]


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        *((w, "64KiB") for w in ("convert", "trace", "trace in place", "render", "extract", "validate", "info")),
        ("convert in large pages", "4MiB"), ("render large", "4MiB"), ("extract large", "4MiB"), ("info large", "4MiB"),
        ("trace large", "4MiB"), ("probe large", "4MiB"), ("trace zones", "4MiB"), ("convert large", "4MiB"),
    ],
)  # fmt: skip
def test_a_limit_too_small_says_what_would_do(
    what: str,
    limit: str,
    flow: str,
    store: Path,
    large: str,
    large_pages: Path,
    zones: Path,
    ff: Command,
    tmp_path: Path,
) -> None:
    surfaces = ("--surface", "zone1:k=1", "--surface", "zone1:i=1", "--scalars", "mach,velocity")
    words: dict[str, tuple[object, ...]] = {
        "convert": ("convert", flow, tmp_path / "s.zarr"),
        "trace": ("trace", store, "--seeds", "random:20:1", "-o", tmp_path / "o"),
        "trace in place": ("trace", flow, "--seeds", "random:20:1", "-o", tmp_path / "o.vtp"),
        "render": ("render", store, "--size", "320x200", "-o", tmp_path / "o.png"),
        "extract": ("extract", "grid-surface", store, *surfaces, "-o", tmp_path / "o.vtp"),
        "validate": ("validate", store),
        "info": ("info", store, "--ranges"),
        "convert in large pages": ("convert", large, tmp_path / "s.zarr", "--page", 64, "--codec", "zstd"),
        "render large": ("render", store, "--size", "9000x4000", "-o", tmp_path / "o.png"),
        "extract large": ("extract", "grid-surface", large_pages, *surfaces, "-o", tmp_path / "o.vtp"),
        "info large": ("info", large_pages, "--ranges"),
        "trace large": ("trace", large_pages, "--seeds", "random:100:1", "-o", tmp_path / "o.npz"),
        "probe large": ("probe", large_pages, 0.51, 0.4, 0.3),
        # A line that goes from zone to zone looks for itself in all of them.
        "trace zones": ("trace", zones, "--seeds", "random:2000:1", "--scalars", "mach", "-o", tmp_path / "o"),
        "convert large": ("convert", large_pages, tmp_path / "s.zarr"),
    }
    run = tuple(tmp_path / "o.npz" if w == tmp_path / "o" else w for w in words[what])
    done = ff(*run, "--memory-limit", limit, ok=(4,))
    enough = amount(done)
    assert list(tmp_path.iterdir()) == []
    ff(*run, "--memory-limit", enough)


def test_many_lines_on_small_pages_wait_for_each_other(ff: Command, tmp_path: Path) -> None:
    """The state of tasks is charged while all else is pinned: that waits for the pins instead of ending the run."""
    small = tmp_path / "small.zarr"
    ff("convert", "demo:taper", small, "--page", 4)
    outs = []
    for limit in ("8MiB", "32MiB", "1GiB"):
        out = tmp_path / f"{limit}.npz"
        ff("trace", small, "--seeds", "random:2000:1", "--memory-limit", limit, "-o", out)
        with np.load(out) as lines:
            outs.append(lines["points"].tobytes())
    assert outs[0] == outs[1] == outs[2]


@pytest.fixture(scope="module")
def large_pages(large: str, ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("large-pages") / "s.zarr"
    ff("convert", large, target, "--codec", "zstd", "--page", 64)
    return target


@pytest.fixture(scope="module")
def zones(ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six zones that overlap, in pages of which hardly more than one makes a zone."""
    target = tmp_path_factory.mktemp("zones") / "s.zarr"
    ff("convert", "demo:taper", target, "--codec", "zstd", "--page", 64)
    return target


def test_no_more_files_may_be_open(flow_blocks: list[Block], tmp_path: Path) -> None:
    """Nothing is damaged then, and one name of a file is enough."""
    grid, q = write(tmp_path, flow_blocks)
    code = f"""
import resource, farfield
farfield.open({str(grid)!r}, q={str(q)!r}).probe((0.5, 0.5, 0.3))  # everything is imported and indexed
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
held = []
try:
    while True:
        held.append(farfield.open({str(grid)!r}, q={str(q)!r}, memory_limit="8MiB"))
        held[-1].probe((0.5, 0.5, 0.3))
except farfield.DataError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120).stdout
    assert "no more files open" in said or "Too many open files" in said
    assert "damaged" not in said and "validate" not in said
    assert DataError("a.q: a.q: page 0: no").args and str(DataError("a.q: a.q: page 0: no")) == "a.q: page 0: no"


def test_events_that_cannot_be_written(large_store: Path, tmp_path: Path) -> None:
    """A trace of which the disk took a part must not pass for all of it."""
    short, elsewhere = tmp_path / "e.json", tmp_path / "nowhere" / "e.json"
    words = ("probe", large_store, 0.5, 0.5, 0.5, "--events")
    most = 4096
    child = start(*words, short, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1 and str(short) in err and "not whole" in err, err
    child = start(*words, elsewhere)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 2 and str(elsewhere) in err and "no folder" in err, err


def test_a_store_of_large_pages_is_converted_a_page_at_a_time(
    large: str, large_pages: Path, ff: Command, tmp_path: Path
) -> None:
    """Each page is read as often as pieces of the new store meet it, not once for each of its rows."""
    answers = {}
    for name, source in (("files", large), ("store", large_pages)):
        done = ff("convert", source, tmp_path / name, "--memory-limit", "24MiB", "--json")
        answers[name] = json.loads(done.stdout)
    assert answers["files"]["bytes_in"] <= answers["files"]["bytes_read"] < 3 * answers["files"]["bytes_in"]
    assert 0 < answers["store"]["reads"] < 2000, answers["store"]["reads"]
    here, there = (digest(tmp_path / name) for name in ("files", "store"))
    assert {k for k in here if here[k] != there.get(k)} <= {"zarr.json"} and here.keys() == there.keys()


@pytest.mark.parametrize("limit", [6, 8, 16])
def test_small_limits_hold(limit: int, ff: Command, process_json: Json, tmp_path: Path) -> None:
    """What the process has at most, less what it had before the first page."""
    small = tmp_path / "small.zarr"
    ff("convert", "demo:taper", small, "--page", 8)
    runs: dict[str, tuple[object, ...]] = {
        "trace": ("trace", small, "--seeds", "random:1000:1", "-o", tmp_path / "o.npz"),
        "in place": ("trace", "demo:taper", "--seeds", "random:1000:1", "-o", tmp_path / "o.vtp"),
        "extract": ("extract", "grid-surface", small, "--scalars", "mach", "-o", tmp_path / "s.vtp"),
        "convert": ("convert", "demo:taper", tmp_path / "s.zarr", "--overwrite"),
        "probe": ("probe", small, 2, 0.5, 4),
    }
    for name, words in runs.items():
        found = process_json(*words, "--memory-limit", f"{limit}MiB")
        over = found["resident_peak_bytes"] - found["base_bytes"] - found["limit_bytes"]
        assert over <= 0, f"{name}: {over} bytes above base and limit"
