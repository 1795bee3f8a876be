"""`convert --append`: steps are added as a simulation writes them, and the store is what one conversion makes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from plot3d_files import Block, box, write
from running import Command, Json, begun, start

SOAK_S = float(os.environ.get("FARFIELD_SOAK_S", "0"))
KILLS = 60 if SOAK_S else 8


def digest(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def step(
    folder: Path,
    number: int,
    *,
    when: float | None = None,
    shift: float = 0.0,
    dims: tuple[int, int, int] = (19, 15, 11),
) -> None:
    """Grid and q file of a step; density tells which it is."""
    block = box(*dims, origin=(shift, 0, 0))
    block.q[0] = block.q[0] + 0.01 * number
    write(
        folder, [block, box(7, 9, 5, origin=(3, 0, 0))], stem=f"s_{number}", time=0.5 * number if when is None else when
    )


def steady(folder: Path) -> str:
    """The source of a grid that does not move: that of the first step."""
    return f"{folder}/s_0.xyz+q={folder}/s_*.q"


def moving(folder: Path) -> str:
    return f"{folder}/s_*.xyz+q={folder}/s_*.q"


@pytest.mark.parametrize(
    "words", [(), ("--layout", "flat"), ("--codec", "zstd", "--page", "8")], ids=lambda w: "-".join(w) or "as is"
)
@pytest.mark.parametrize("source", [steady, moving])
def test_the_bytes_of_one_conversion(
    source: Callable[[Path], str], words: tuple[str, ...], ff: Command, ff_json: Json, tmp_path: Path
) -> None:
    target = tmp_path / "s.zarr"
    shift = 0.0 if source is steady else 0.25
    counts = (1, 2, 5)
    for first, last in zip((0, *counts), counts, strict=False):
        for n in range(first, last):
            step(tmp_path, n, shift=n * shift)
        asked = words if first == 0 else ()
        found = ff_json("convert", "--append", source(tmp_path), target, *asked)
        assert (found["appended"]["first"], found["appended"]["steps"]) == (first, last - first)
        assert found["appended"]["times"] == [0.5 * n for n in range(first, last)]
        whole = tmp_path / f"whole{last}.zarr"
        ff("convert", source(tmp_path), whole, *words)
        assert digest(target) == digest(whole)
        assert ff_json("info", target)["times"] == [0.5 * n for n in range(last)]
    ff("validate", target)
    assert not Path(f"{target}.partial").exists()
    before = digest(target)
    assert "nothing to append" in ff("convert", "--append", source(tmp_path), target).stdout
    assert digest(target) == before
    for n in range(5):
        here = (n * shift + 0.31, 0.4, 0.6)
        density = ff_json("probe", target, *here, "--step", n)["values"]["density"]
        assert density == pytest.approx(1.2 + 0.01 * n, abs=1e-12)


@pytest.mark.parametrize("source", ["steady", "moving"])
def test_only_the_new_files_are_given(source: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """Pages are those of one conversion; the root says of the source what was known when each part was added."""
    target, whole = tmp_path / "s.zarr", tmp_path / "w.zarr"
    shift = 0.0 if source == "steady" else 0.25
    for n in range(4):
        step(tmp_path, n, shift=n * shift)

    def some(*numbers: int) -> list[object]:
        grid = f"{tmp_path}/s_{numbers[0]}.xyz" if source == "moving" else f"{tmp_path}/s_0.xyz"
        if source == "moving" and len(numbers) > 1:
            grid = f"{tmp_path}/s_[{''.join(map(str, numbers))}].xyz"
        return [f"{grid}+q={tmp_path}/s_[{''.join(map(str, numbers))}].q"]

    for numbers in ((0,), (1,), (2, 3)):
        ff("convert", "--append", *some(*numbers), target)
    ff("convert", *some(0, 1, 2, 3), whole)
    have, want = digest(target), digest(whole)
    assert have.keys() == want.keys()
    assert {name for name in have if have[name] != want[name]} <= {"zarr.json"}
    ff("validate", target)
    a, b = ff_json("info", target), ff_json("info", whole)
    assert a["times"] == b["times"] == [0.0, 0.5, 1.0, 1.5] and a["zones"] == b["zones"]
    # The whole series finds all of them there.
    assert "nothing to append" in ff("convert", "--append", *some(0, 1, 2, 3), target).stdout


def test_what_does_not_go_together(ff: Command, tmp_path: Path) -> None:
    target = tmp_path / "s.zarr"
    for n in (0, 1):
        step(tmp_path, n)
    ff("convert", steady(tmp_path), target)
    before = digest(target)

    def refused(*words: object, code: int, says: tuple[str, ...]) -> None:
        said = ff("convert", "--append", *words, ok=(code,)).stderr
        assert all(text in said for text in says), said
        assert digest(target) == before and not Path(f"{target}.partial").exists()

    step(tmp_path, 2)
    for option, value in (("--page", "8"), ("--layout", "flat"), ("--codec", "zstd")):
        refused(steady(tmp_path), target, option, value, code=2, says=(str(target), option[2:], "leave"))
    refused(steady(tmp_path), target, "--overwrite", code=2, says=("--append", "--overwrite"))
    refused(steady(tmp_path), target, "--dry-run", code=2, says=("--append", "--dry-run"))
    # A step of its own, elsewhere: earlier, at the same time, in between.
    for when, says in ((0.25, "at the end only"), (-1.0, "at the end only"), (0.5, "time 0.5")):
        other = tmp_path / f"o{when}"
        other.mkdir()
        step(other, 7, when=when)
        refused(f"{tmp_path}/s_0.xyz+q={other}/s_7.q", target, code=1, says=("s_7.q", says))
    # Other points, other zones, another precision, fields beside.
    other = tmp_path / "other"
    other.mkdir()
    step(other, 3, dims=(19, 15, 12))
    refused(f"{other}/s_3.xyz+q={other}/s_3.q", target, code=1, says=(str(target), "19, 15, 11", "19, 15, 12"))
    write(other, [box(19, 15, 11)], stem="s_4", time=9)
    refused(f"{other}/s_4.xyz+q={other}/s_4.q", target, code=1, says=("zones 2", "1 (zone1"))
    blocks = [box(19, 15, 11), box(7, 9, 5, origin=(3, 0, 0))]
    write(other, blocks, stem="s_5", time=9, real=4)
    refused(f"{other}/s_5.xyz+q={other}/s_5.q", target, code=1, says=("float64", "float32"))
    refused(f"{tmp_path}/s_0.xyz", target, code=1, says=("density", "arrays"))
    # Another grid under a store whose grid does not move.
    step(other, 6, when=9)
    refused(f"{other}/s_6.xyz+q={other}/s_6.q", target, code=1, says=("s_6.xyz", "xyz"))
    # Reference values that make other numbers of it.
    (tmp_path / "s_0.p3d.json").write_text('{"reference": {"length": 2, "density": 1.2, "sound_speed": 340}}')
    refused(steady(tmp_path), target, code=1, says=(str(target), "'1'", "'m'"))
    (tmp_path / "s_0.p3d.json").unlink()
    # A store as a source, and what is no store as a target.
    copy = tmp_path / "copy.zarr"
    ff("convert", target, copy)
    refused(copy, target, code=2, says=("--append adds steps of files", "convert again"))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    assert "no store" in ff("convert", "--append", steady(tmp_path), tmp_path / "mine", ok=(1,)).stderr
    # A file of a step that is there was written anew.
    step(tmp_path, 1)
    refused(steady(tmp_path), target, code=1, says=("s_1.q", "has changed", "--overwrite"))


def test_times_that_are_counted(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """Headers that are all alike: steps are numbered, or `--dt` apart; then the files of all steps say which are there."""
    for dt in ((), ("--dt", "0.25")):
        folder = tmp_path / f"dt{len(dt)}"
        folder.mkdir()
        target = folder / "s.zarr"
        for n in range(2):
            step(folder, n, when=3.0)
        ff("convert", "--append", steady(folder), target, *dt)
        step(folder, 2, when=3.0)
        ff("convert", "--append", steady(folder), target, *dt)
        ff("convert", steady(folder), folder / "w.zarr", *dt)
        assert digest(target) == digest(folder / "w.zarr")
        assert ff_json("info", target)["times"] == ([0.0, 0.25, 0.5] if dt else [0, 1, 2])
        step(folder, 3, when=3.0)
        said = ff("convert", "--append", f"{folder}/s_0.xyz+q={folder}/s_3.q", target, *dt, ok=(1,)).stderr
        assert "--dt" in said or "at the end only" in said
        # Other times for the steps that are there are not taken up without a word.
        said = ff("convert", "--append", steady(folder), target, "--dt", "0.5", ok=(1,)).stderr
        assert "s_1.q" in said and "0.5" in said


def test_the_new_file_whose_time_is_wrong_is_named(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """And not one that is there, whose time would be another only if the headers were not believed."""
    target = tmp_path / "s.zarr"
    for n in range(4):
        step(tmp_path, n, when=0.25 * n)
    ff("convert", steady(tmp_path), target)
    before = digest(target)
    for when, says in (
        (0.75, ("s_4.q: has the time 0.75 in its header", "s_3.q (step 3 of", "s.zarr, at 0.75)", "leave one")),
        (0.25, ("s_4.q: has the time 0.25 in its header", "s_1.q (step 1 of", "s.zarr, at 0.25)", "leave one")),
        (0.6, ("s_4.q: is at time 0.6", "has steps up to 0.75", "at the end only")),
        (float("nan"), ("s_4.q: the time in its header is no finite number but NaN", "leave it out", "--dt")),
        (float("inf"), ("s_4.q: the time in its header is no finite number but inf", "leave it out", "--dt")),
    ):
        step(tmp_path, 4, when=when)
        alone = f"{tmp_path}/s_0.xyz+q={tmp_path}/s_4.q"
        for source in (steady(tmp_path), *([] if np.isfinite(when) else [alone])):
            said = ff("convert", "--append", source, target, ok=(1,)).stderr
            assert all(text in said for text in says) and "s_1.q: was" not in said, said
            assert digest(target) == before
    # A counter in the headers of all steps: that of the store that has times is not gone on with by numbers.
    folder = tmp_path / "counter"
    folder.mkdir()
    for n in range(2):
        step(folder, n, when=n)
    ff("convert", steady(folder), folder / "c.zarr")
    step(folder, 2, when=2.0)
    said = ff("convert", "--append", steady(folder), folder / "c.zarr", ok=(1,)).stderr
    assert "only count the steps" in said and "--dt 1" in said, said
    ff("convert", "--append", steady(folder), folder / "c.zarr", "--dt", 1)
    assert ff_json("info", folder / "c.zarr")["times"] == [0, 1, 2]


def test_what_was_added_is_said(ff_json: Json, ff: Command, tmp_path: Path) -> None:
    """The bytes of the new steps, beside those that they were made of, and not those of the whole store."""
    target, size = tmp_path / "s.zarr", 0
    for n in range(4):
        step(tmp_path, n)
        found = ff_json("convert", "--append", steady(tmp_path), target)
        now = sum(len(data) for data in digest(target).values())
        assert found["bytes_out"] == now - size
        size = now
    assert ff_json("convert", "--append", steady(tmp_path), target)["bytes_out"] == 0


def test_gaps_are_allowed_and_said(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    for n in (0, 1, 2):
        step(tmp_path, n)
    ff("convert", steady(tmp_path), tmp_path / "s.zarr")
    step(tmp_path, 4)
    said = ff("convert", "--append", steady(tmp_path), tmp_path / "s.zarr").stdout
    assert "appended 1 time step to 3" in said and "after step 2" in said
    assert ff_json("info", tmp_path / "s.zarr")["times_gaps"] == [2]


def test_a_reader_that_was_there_before(ff: Command, tmp_path: Path) -> None:
    """It reads the steps that it has seen, to the end; who opens the store afterwards sees all."""
    import farfield

    target = tmp_path / "s.zarr"
    for n in (0, 1):
        step(tmp_path, n)
    ff("convert", steady(tmp_path), target)
    with farfield.open(target) as old:
        first = old.isel(time=0).zones["zone1"]["density"][:]
        for n in (2, 3):
            step(tmp_path, n)
            ff("convert", "--append", steady(tmp_path), target)
        assert len(old.times) == 2
        assert np.array_equal(old.isel(time=1).zones["zone1"]["density"][:], first + 0.01)
        with farfield.open(target) as new:
            assert len(new.times) == 4
            assert np.array_equal(new.isel(time=0).zones["zone1"]["density"][:], first)


def test_opening_while_steps_come(ff: Command, tmp_path: Path) -> None:
    """A store that is replaced while it is opened is opened as it was before or as it is then."""
    import farfield

    target = tmp_path / "s.zarr"
    step(tmp_path, 0)
    ff("convert", steady(tmp_path), target)
    seen = set()
    for n in range(1, 5):
        step(tmp_path, n)
        child = start("convert", "--append", steady(tmp_path), target)
        while child.poll() is None:
            with farfield.open(target) as dataset:
                seen.add(len(dataset.times))
                assert dataset.isel(time=-1).zones["zone1"]["density"][:].shape == (11, 15, 19)
        assert child.returncode == 0, child.communicate()[1]
        assert len(farfield.open(target).times) == n + 1
    assert seen <= {1, 2, 3, 4, 5} and len(seen) > 1


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two steps and five of a flow that takes a while."""
    folder = tmp_path_factory.mktemp("large")
    for n in range(5):
        block: Block = box(121, 81, 61)
        block.q[0] = block.q[0] + 0.01 * n
        write(folder, [block], stem=f"s_{n}", time=0.5 * n, real=4)
    return f"{folder}/s_0.xyz+q={folder}/s_[01].q", f"{folder}/s_0.xyz+q={folder}/s_*.q"


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_killed_at_any_moment(codec: str, large: tuple[str, str], ff: Command, tmp_path: Path) -> None:
    """The old store, readable, or the new one; and running it again completes it to the bytes of one conversion."""
    few, all_steps = large
    target, whole, sign = tmp_path / "s.zarr", tmp_path / "w.zarr", tmp_path / "events.json"
    ff("convert", all_steps, whole, "--codec", codec)
    new = digest(whole)
    ff("convert", few, tmp_path / "few.zarr", "--codec", codec)
    old = digest(tmp_path / "few.zarr")
    subprocess.run(["cp", "-r", tmp_path / "few.zarr", target], check=True)
    child = start("convert", "--append", all_steps, target, "--events", sign)
    begun(child, sign)
    before = time.monotonic()
    assert child.wait(timeout=120) == 0
    took = time.monotonic() - before
    assert digest(target) == new
    moments = random.Random(2026)
    killed = 0
    for n in range(KILLS):
        subprocess.run(["rm", "-rf", target], check=True)
        subprocess.run(["cp", "-r", tmp_path / "few.zarr", target], check=True)
        for _ in range(1 + n % 3):
            sign.unlink(missing_ok=True)
            child = start("convert", "--append", all_steps, target, "--events", sign)
            begun(child, sign)
            time.sleep(moments.random() * took)
            child.kill()
            _, err = child.communicate(timeout=60)
            killed += child.returncode == -signal.SIGKILL
            assert child.returncode in (0, -signal.SIGKILL), err
            assert digest(target) in (old, new), f"round {n}"
            ff("validate", target)
        ff("convert", "--append", all_steps, target)
        assert digest(target) == new and not Path(f"{target}.partial").exists()
    assert killed >= KILLS // 3


def test_through_a_link(ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """The store that a link leads to gets the steps, and the link stays one."""
    for n in range(3):
        step(tmp_path, n)
    ff("convert", steady(tmp_path), tmp_path / "whole.zarr")
    (tmp_path / "s_2.q").rename(tmp_path / "later.q")
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "s.zarr", tmp_path / "link.zarr"
    ff("convert", steady(tmp_path), real)
    link.symlink_to(real)
    (tmp_path / "later.q").rename(tmp_path / "s_2.q")
    ff("convert", "--append", steady(tmp_path), link)
    assert link.is_symlink() and ff_json("info", real)["times"] == [0, 0.5, 1]
    assert [p.name for p in real.parent.iterdir()] == ["s.zarr"]


@pytest.mark.parametrize("left", ["old", "store"])
def test_a_name_that_a_killed_run_took(left: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    """Where names cannot be exchanged at once a kill leaves the store in its folder: the next run gives it back its name."""
    step(tmp_path, 0)
    step(tmp_path, 1)
    target = tmp_path / "s.zarr"
    ff("convert", steady(tmp_path), target)
    before = digest(target)
    (tmp_path / "s.zarr.partial").mkdir()
    target.rename(tmp_path / "s.zarr.partial" / left)
    (tmp_path / "s_0.q").unlink()
    for n in (2, 3):
        step(tmp_path, n)
    source = f"{tmp_path}/s_0.xyz+q={tmp_path}/s_[23].q"
    assert ff_json("convert", "--append", source, target)["appended"]["first"] == 2
    assert ff_json("info", target)["times"] == [0, 0.5, 1, 1.5]
    kept = {name: data for name, data in digest(target).items() if name.endswith("density/c.0.0.0.0")}
    assert kept and all(before[name] == data for name, data in kept.items())
    assert not (tmp_path / "s.zarr.partial").exists()


def test_definitions_are_refused(tmp_path: Path) -> None:
    import farfield

    step(tmp_path, 0)
    for work, said in ((farfield.convert, "name all fields"), (farfield.validate, "names no fields")):
        words = (steady(tmp_path), tmp_path / "s.zarr")[: 2 if work is farfield.convert else 1]
        with pytest.raises(farfield.errors.UsageError, match=said):
            work(*words, plot3d={"define": ["a = 2 * density"]})
