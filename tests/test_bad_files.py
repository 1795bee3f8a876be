"""Files that are damaged, forged or nonsense, through the real command line: a clear error that names the file, or the truth."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from farfield.cli import run
from plot3d_files import Block, box, source_of, write
from running import Command, Done, Json, command

KILOBYTE = 1024
MEGABYTE = 1 << 20


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A grid and a q file of two zones, 64-bit."""
    return write(tmp_path, [box(9, 8, 7), box(5, 6, 4, (2, 0, 0))])


def refused(done: Done, name: str, *words: str) -> None:
    """One error that names the file and says what is wrong."""
    assert done.stderr.startswith("farfield: error: ") and name in done.stderr, done.stderr
    assert all(w in done.stderr for w in words), done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "content", "said"), [("e.h5", b"", "the file is empty"), ("e.txt", b"hello", "no format whose files hold")]
)
def test_a_variable_of_a_file_that_has_none(
    name: str, content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for words in (["info"], ["extract", "slice", "--normal", "z", "-o", str(tmp_path / "o.png")]):
        assert run([*words, f"{path}::x"]) == 1
        error = capsys.readouterr().err
        assert f"{path}: " in error and said in error and "no such file" not in error


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("half", "truncated?"),
        ("one byte less", "truncated?"),
        ("one byte more", "padded?"),
        ("a block more", "padded?"),
    ],
)
@pytest.mark.parametrize("which", [0, 1])
def test_plot3d_of_another_length(what: str, word: str, which: int, pair: tuple[Path, Path], ff: Command) -> None:
    whole = pair[which].read_bytes()
    changed = {
        "half": whole[: len(whole) // 2],
        "one byte less": whole[:-1],
        "one byte more": whole + b"\0",
        "a block more": whole + bytes(KILOBYTE),
    }
    pair[which].write_bytes(changed[what])
    source = source_of(*pair)
    for words in (("info", source), ("convert", source, pair[0].with_name("s.zarr")), ("probe", source, 0.5, 0.5, 0.5)):
        refused(ff(*words, ok=(1,)), pair[which].name, word, "adds up", "Tried")
    assert not pair[0].with_name("s.zarr").exists()


def test_plot3d_in_the_other_byte_order_is_the_same_data(tmp_path: Path, ff_json: Json) -> None:
    grid, solution = write(tmp_path, [box(9, 8, 7)], real=4)
    (tmp_path / "swapped").mkdir()
    for path in (grid, solution):
        swapped = np.frombuffer(path.read_bytes(), "<u4").byteswap().tobytes()
        (tmp_path / "swapped" / path.name).write_bytes(swapped)
    there = tmp_path / "swapped"
    one, other = (ff_json("probe", source_of(d / "flow.xyz", d / "flow.q"), 0.5, 0.4, 0.3) for d in (tmp_path, there))
    assert one["values"] == other["values"] and one["ijk"] == other["ijk"]


def test_plot3d_with_its_words_swapped_is_remarked_upon(pair: tuple[Path, Path], ff_json: Json) -> None:
    # Of 64-bit numbers the halves now stand in the wrong order: sizes still add up, values make no sense.
    pair[0].write_bytes(np.frombuffer(pair[0].read_bytes(), "<u4").byteswap().tobytes())
    info = ff_json("info", source_of(*pair))
    assert any("do not look like coordinates" in line for line in info["guessed"]), info["guessed"]


def test_nothing_but_not_a_number(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    good = box(9, 8, 7)
    nowhere = Block([np.full_like(c, np.nan) for c in good.xyz], good.q)
    still = Block(good.xyz, [np.full_like(c, np.nan) for c in good.q])
    seeds = ("--seeds", "line:0.2,0.2,0.2:0.8,0.8,0.8:5", "-o", tmp_path / "l.npz")
    for block, name in ((nowhere, "grid"), (still, "q")):
        (tmp_path / name).mkdir()
        files = source_of(*write(tmp_path / name, [block]))
        store = tmp_path / name / "s.zarr"
        assert "farfield: warning: flow." in ff("convert", files, store).stderr
        assert ff_json("validate", store)["ok"]
        for source in (files, store):
            traced = ff_json("trace", source, *seeds)
            lines = np.load(tmp_path / "l.npz")
            assert traced["lines"] == 5 and traced["outside"] == (5 if name == "grid" else 0)
            # What is no number is no place to go to: a line ends where it began.
            assert not np.isnan(lines["points"]).any() and len(lines["points"]) <= 5
            # Whoever traces, draws or converts it hears what `info` says.
            assert any("do not look like" in w for w in traced["warnings"]), traced["warnings"]
            drawn = ff("render", source, "--size", "64x48", "-o", tmp_path / "p.png")
            assert "farfield: warning: flow." in drawn.stderr and "do not look like" in drawn.stderr
            assert "no point has coordinates" in ff("info", source, "--ranges").stdout or name == "q"
    assert "do not look like coordinates" in ff("info", tmp_path / "grid" / "flow.xyz").stdout


def most_resident(*words: object) -> tuple[int, int, str]:
    """Exit code, VmHWM and errors of a command."""
    with open(os.devnull, "rb") as nothing, subprocess.Popen(
        command(*words),
        stdin=nothing, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        said = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss * 1024, said


def test_a_kilobyte_costs_no_more_than_a_megabyte(tmp_path: Path) -> None:
    def ints(*values: int) -> bytes:
        return b"".join(struct.pack("<i", v) for v in values).ljust(KILOBYTE, b"\0")

    good, _ = write(tmp_path, [box(3, 3, 3)])
    absurd = {
        "largest zone": ints(1, 1 << 30, 1 << 30, 1 << 30),
        "all ones": b"\xff" * KILOBYTE,
        "many zones": ints(1 << 17, *[1] * 255),
        "count of zones in a record": ints(4, 131_000, 4, 12 * 131_000, 1, 1, 1),
        "long record": ints(4, 1, 4, 12, 1024, 1024, 1024, 12, 0x7FFFFFFF),
        "split record": ints(4, 1, 4, 12, 8, 8, 1 << 30, 12, -0x7FFFFFF7),
        "text that repeats": b"1 1024 1024 1024 1000000*1.5 ".ljust(KILOBYTE, b"7"),
        "text of a number": b"7" * KILOBYTE,
    }
    # The least of a few runs: what the system lends at the start differs from run to run.
    base = min(most_resident("info", good)[1] for _ in range(3))
    for name, content in absurd.items():
        path = tmp_path / "absurd.xyz"
        path.write_bytes(content)
        for last in (False, True):
            code, resident, said = most_resident("info", path)
            assert code in (1, 2) and "absurd.xyz" in said and "Traceback" not in said, (name, code, said)
            if resident <= base + MEGABYTE:
                break
            assert not last, name


def documents(store: Path) -> list[Path]:
    """A metadata document of each kind."""
    found = sorted(store.rglob("zarr.json"), key=lambda p: (len(p.parts), str(p)))
    own = [p for p in found if "_farfield" not in p.parts]
    return [store / "zarr.json", own[1], own[-1], *[p for p in found if "_farfield" in p.parts][:3]]


def flip(path: Path, at: int, bit: int = 2) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(bytes(data))


@pytest.fixture
def mine(store: Path, tmp_path: Path) -> Path:
    """A store to damage."""
    return Path(shutil.copytree(store, tmp_path / "mine.zarr"))


def test_a_flipped_bit_in_any_document(mine: Path, ff: Command, tmp_path: Path) -> None:
    for path in documents(mine):
        whole = path.read_bytes()
        for at in (0, len(whole) // 3, len(whole) - 1):
            flip(path, at)
            refused(ff("info", mine, ok=(1,)), str(path.relative_to(mine)))
            path.write_bytes(whole)
        path.unlink()
        done = ff("validate", mine, ok=(1,))
        assert path.name in done.stderr, done.stderr
        path.write_bytes(whole)
    # Whoever opens it says the same.
    flip(mine / "zone1" / "zarr.json", 9)
    for words in (("validate", mine), ("probe", mine, 0.5, 0.5, 0.5), ("convert", mine, tmp_path / "n.zarr")):
        refused(ff(*words, ok=(1,)), "zone1/zarr.json")


def momentum(store: Path) -> Path:
    """A shard that every streamline reads."""
    return next(
        p for p in sorted(store.rglob("*")) if p.is_file() and p.parent.name == "momentum" and p.name != "zarr.json"
    )


@pytest.mark.parametrize("where", ["page", "index", "missing", "truncated"])
def test_a_damaged_shard(where: str, mine: Path, store: Path, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    shard = momentum(mine)
    match where:
        case "page":
            flip(shard, shard.stat().st_size - 100)
        case "index":
            flip(shard, 3)
        case "missing":
            shard.unlink()
        case "truncated":
            os.truncate(shard, shard.stat().st_size - 10)
    done = ff("validate", mine, "--json", ok=(1,))
    found = json.loads(done.stdout)
    word = {
        "page": "checksum mismatch",
        "index": "checksum mismatch",
        "missing": "missing",
        "truncated": "ends at byte",
    }
    assert not found["ok"] and found["failed"] == len(found["failures"]) == 1
    assert str(shard) in found["failures"][0]["what"] and word[where] in found["failures"][0]["error"], found
    if where == "page":
        assert ", page (i " in found["failures"][0]["what"]
        assert found["pages_checked"] == ff_json("validate", store)["pages_checked"]
    # Lines stop where their data do, and are those of the whole store up to there.
    seeds = ("--seeds", "line:0.55,0.5,0.3:0.95,0.5,0.3:9", "--max-length", 2, "--direction", "forward")
    ff("trace", store, *seeds, "-o", tmp_path / "good.npz")
    traced = ff("trace", mine, *seeds, "-o", tmp_path / "bad.npz", "--json", ok=(3,))
    answer = json.loads(traced.stdout)
    assert answer["partial"] and answer["reasons"]["failed"] > 0
    good, bad = np.load(tmp_path / "good.npz"), np.load(tmp_path / "bad.npz")
    failed = 0
    for n in range(9):
        old = good["points"][good["offsets"][n] : good["offsets"][n + 1]]
        new = bad["points"][bad["offsets"][n] : bad["offsets"][n + 1]]
        if bad["reason"][n] == "failed":
            failed += 1
            assert len(new) < len(old)
            here = {p.tobytes() for p in old}
            # The last point may lie where the first missing page begins.
            assert sum(p.tobytes() not in here for p in new) <= 2
        else:
            assert new.tobytes() == old.tobytes()
    assert failed == answer["reasons"]["failed"]
    # A picture of such lines says so, on the picture too.
    drawn = {}
    for source, code in ((store, 0), (mine, 3)):
        scene = {
            "source": str(source),
            "objects": [{"kind": "lines", "trace": {"seeds": seeds[1]}}],
            "size": [480, 270],
        }
        (tmp_path / "scene.json").write_text(json.dumps(scene))
        picture = tmp_path / f"{code}.png"
        drawn[code] = json.loads(ff("render", tmp_path / "scene.json", "-o", picture, "--json", ok=(code,)).stdout)
    assert drawn[3]["partial"] and not drawn[0]["partial"]
    assert str(shard) in drawn[3]["drawn"][0]["failure"]
    # What needs the page itself says which file it is.
    for words in (
        ("convert", mine, tmp_path / "n.zarr"),
        ("extract", "grid-surface", mine, "--surface", "zone1:k=7", "--scalars", "momentum", "-o", tmp_path / "s.vtp"),
    ):
        if where in ("page", "truncated") and words[0] == "extract":
            continue  # that page may not be among those of the surface
        refused(ff(*words, ok=(1,)), str(shard))
    assert not (tmp_path / "n.zarr").exists() and not (tmp_path / "s.vtp").exists()


def test_a_file_that_does_not_belong(mine: Path, ff: Command) -> None:
    (mine / "zone1" / "notes.txt").write_text("mine")
    assert "notes.txt: does not belong to the store" in ff("validate", mine, ok=(1,)).stderr


@pytest.mark.parametrize("source", ["flow", "store"])
def test_validation_is_a_run_like_any_other(
    source: str, request: pytest.FixtureRequest, ff: Command, tmp_path: Path
) -> None:
    """Events of reading and decoding, counts that agree with them, and memory in the ledger."""
    path, events = request.getfixturevalue(source), tmp_path / "e.json"
    answers = []
    for workers in (1, 2):
        done = ff("validate", path, "--events", events, "--workers", workers, "--memory-limit", "64MiB", "--json")
        answers.append(json.loads(done.stdout))
        rows = json.loads(events.read_text())
        reads = [r["args"]["bytes"] for r in rows if r["name"] == "read" and r["ph"] == "b"]
        decoded = [r for r in rows if r["name"] == "decode"]
        answer = answers[-1]
        assert len(decoded) == answer["pages_checked"] + answer["pages_unchecked"] == answer["pages"]["touched"]
        if source == "store":
            # Documents are read before anything is told.
            assert 0 < sum(reads) <= answer["bytes_read"] and 0 < len(reads) <= answer["reads"]
            assert answer["bytes_read"] == sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file())
        else:
            assert sum(reads) == answer["bytes_read"] and len(reads) == answer["reads"]
        assert answer["workers"] == workers and 0 < answer["peak_bytes"] <= answer["limit_bytes"] == 64 * MEGABYTE
    same = ("ok", "pages_checked", "pages_unchecked", "failures", "failed")
    assert [answers[0][k] for k in same] == [answers[1][k] for k in same]
    if source == "store":
        # Each worker has buffers of its own, and they are charged.
        assert answers[1]["peak_bytes"] > answers[0]["peak_bytes"]


def test_a_conversion_tells_what_its_threads_do(flow: str, ff: Command, tmp_path: Path) -> None:
    ff("convert", flow, tmp_path / "s.zarr", "--codec", "zstd", "--events", tmp_path / "e.json")
    rows = json.loads((tmp_path / "e.json").read_text())
    spans = [r for r in rows if r["ph"] == "X"]
    assert {"read", "encode", "write", "sync", "ranges and boxes", "commit"} <= {r["name"] for r in spans}
    assert all(r["ts"] >= 0 and r["dur"] >= 0 for r in spans)
    assert len({r["tid"] for r in spans}) > 2
