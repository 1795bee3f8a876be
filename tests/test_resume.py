"""Particles that go on from a state when the dataset has got longer: the bytes of one run. States that do not fit are refused."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield.errors import UsageError
from plot3d_files import write
from running import Command
from test_pathlines import TIMES
from test_tracks import swirling, written

KINDS = {
    "pathline": ("--kind", "pathline"),
    "streakline": ("--kind", "streakline", "--release-every", 0.25),
    "streaklines at times": ("--kind", "streakline", "--release-every", 0.125, "--output-times", "steps"),
}
SEEDS = ("--seeds", "random:50:4", "--scalars", "velocity,pressure")
LIMITS = ("4MiB", "16MiB", "1GiB")


def tree(path: Path) -> dict[str, bytes]:
    """A file, or a list of files with its folder."""
    folder = path.with_suffix("")
    return {p.name: p.read_bytes() for p in [path, *(folder.iterdir() if folder.is_dir() else ())]}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["npz", "parquet", "vtp", "pvd"])
def test_the_bytes_of_one_run(kind: str, form: str, ff: Command, tmp_path: Path) -> None:
    chance = random.Random(f"{kind} {form}")
    ends = sorted(chance.sample(range(2, len(TIMES)), 2))
    state, words = tmp_path / "a.state", ("trace", *KINDS[kind], *SEEDS)
    steps, at = 0, []
    # As a simulation writes them; the last run goes on from the state that the one before went on with.
    for n, last in enumerate([*ends, len(TIMES)]):
        source = written(tmp_path, range(steps, last))
        steps = last
        more = ["--save-state", tmp_path / f"{n}.state"] if last < len(TIMES) else []
        more += ["--resume", tmp_path / f"{n - 1}.state"] if n else []
        at.append(tmp_path / f"{n}.{form}")
        limit = chance.choice(LIMITS)
        ff(
            words[0],
            source,
            *words[1:],
            *more,
            "-o",
            at[-1],
            "--memory-limit",
            limit,
            "--workers",
            chance.choice((1, 2)),
        )
    whole = tmp_path / f"2-whole.{form}"
    ff(words[0], source, *words[1:], "-o", whole, "--memory-limit", chance.choice(LIMITS))
    renamed = {name.replace("2-whole", "2"): data.replace(b"2-whole", b"2") for name, data in tree(whole).items()}
    assert renamed == tree(at[-1]), f"{kind} {form}, ends {ends}"
    assert tree(at[0]) != tree(at[-1]) and not state.exists()


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_from_any_step_of_a_series(direction: str, tmp_path: Path) -> None:
    source = written(tmp_path, range(len(TIMES)))
    chance = np.random.default_rng(7)
    back = direction == "backward"
    with farfield.open(source, memory_limit="8MiB") as ds:
        for method in ("pathlines", "streaklines"):
            for _ in range(6):
                t0 = 2.7 if back else 0.6
                steps = sorted((t for t in TIMES if 0.6 < t < 2.7), reverse=back)
                first, then = sorted(chance.choice(len(steps), 2, replace=False))
                trace = getattr(ds, method)
                how = {
                    "seeds": "random:30:2",
                    "t0": t0,
                    "scalars": ["pressure"],
                    "max_steps": int(chance.integers(5, 60)),
                }
                trace(**how, t1=steps[first], save_state=tmp_path / "a")
                end = float(chance.uniform(*sorted((steps[then], 0.55 if back else 2.9))))
                one, two = trace(**how, t1=end), trace(**how, t1=end, resume=tmp_path / "a")
                for name in ("points", "time", "zone", "offsets"):
                    assert getattr(one, name).tobytes() == getattr(two, name).tobytes(), (
                        method,
                        how,
                        steps[first],
                        end,
                    )
                assert one["pressure"].tobytes() == two["pressure"].tobytes() and (one.reason == two.reason).all()


def test_a_store_that_got_longer(ff: Command, tmp_path: Path) -> None:
    for steps in (3, len(TIMES)):
        folder = tmp_path / f"files{steps}"
        folder.mkdir()
        ff("convert", written(folder, range(steps)), tmp_path / f"{steps}.zarr", "--page", 8)
    words = ("--kind", "pathline", *SEEDS)
    ff("trace", tmp_path / "3.zarr", *words, "--save-state", tmp_path / "a", "-o", tmp_path / "a.npz")
    ff("trace", tmp_path / "5.zarr", *words, "--resume", tmp_path / "a", "-o", tmp_path / "b.npz")
    ff("trace", tmp_path / "5.zarr", *words, "-o", tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()


def test_a_store_of_other_numbers_is_refused(ff: Command, tmp_path: Path) -> None:
    """Known is what a run came by: the same numbers in other pages are the same store, other numbers in a later step are none of
    its business, and other numbers in one of its steps, be it in one point, are another store."""
    source = written(tmp_path, range(len(TIMES)))
    ff("convert", source, tmp_path / "one.zarr", "--page", 8)
    words = ("--kind", "pathline", *SEEDS)
    state = ("--save-state", tmp_path / "a")
    ff("trace", tmp_path / "one.zarr", *words, "--t1", TIMES[2], *state, "-o", tmp_path / "a.npz")

    def changed(step: int, name: str, page: int = 8) -> Path:
        whole = swirling(TIMES[step])
        density = whole.q[0].copy()
        density.flat[density.argmax()] *= 1.5
        write(tmp_path, [replace(whole, q=[density, *whole.q[1:]])], stem=f"s_{step}", time=TIMES[step])
        ff("convert", source, tmp_path / name, "--page", page)
        written(tmp_path, range(step, step + 1))
        return tmp_path / name

    later, earlier = changed(4, "later.zarr", page=16), changed(1, "earlier.zarr")
    ff("trace", later, *words, "--resume", tmp_path / "a", "--t1", TIMES[3], "-o", tmp_path / "b.npz")
    ff("trace", tmp_path / "one.zarr", *words, "--t1", TIMES[3], "-o", tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    said = ff("trace", earlier, *words, "--resume", tmp_path / "a", "-o", tmp_path / "d.npz", ok=(2,)).stderr
    assert "time step 1 does not hold what it held" in said and "another store" in said


def test_what_does_not_fit_is_refused(ff: Command, tmp_path: Path) -> None:
    source, out, state = written(tmp_path, range(len(TIMES))), tmp_path / "l.npz", tmp_path / "a.state"
    words = ("trace", source, "--kind", "pathline", "--seeds", "random:9:4", "-o", out)
    ff(*words, "--t1", 2.0, "--save-state", state)

    def refused(*more: object, source: str = source, kind: str = "pathline", seeds: str = "random:9:4") -> str:
        given = ("trace", source, "--kind", kind, "--seeds", seeds, "-o", tmp_path / "no.npz", "--resume", state, *more)
        said = ff(*given, ok=(2,)).stderr
        assert not (tmp_path / "no.npz").exists()
        return said

    assert "state of pathlines, not of streaklines" in refused(kind="streakline")
    assert "of 9 other seeds" in refused(seeds="random:9:5")
    assert 'scalars [], and now it is ["pressure"]' in refused("--scalars", "pressure")
    assert "tolerance 1e-6, and now it is 1e-7" in refused("--tolerance", "1e-7")
    assert "t0 0.5, and now it is 1.0" in refused("--t0", 1.0)
    assert "choose a later end time" in refused("--t1", 1.25)
    assert "time step 0 was at 0.5 when the state was saved and is at 0.0 now" in refused("--dt", 0.25, "--t0", 0.5)
    assert "trace from the beginning" in ff(*words, "--resume", tmp_path / "none", ok=(1,)).stderr
    other = tmp_path / "other"
    other.mkdir()
    assert "time step 0 does not hold what it held" in refused(source=written(other, range(len(TIMES))))
    assert "lies between two time steps" in ff(*words, "--t1", 1.7, "--save-state", tmp_path / "b", ok=(2,)).stderr
    assert not (tmp_path / "b").exists()
    for n, damage in enumerate(
        (b"", b"FFSTATE2", state.read_bytes()[:-1], state.read_bytes().replace(b"velocity", b"velocitz"))
    ):
        (tmp_path / "damaged").write_bytes(damage)
        said = ff(*words, "--resume", tmp_path / "damaged", ok=(2,)).stderr
        assert ("no state of particles" in said) if n < 2 else ("damaged" in said), said
    os.utime(tmp_path / "s_1.q")
    assert "time step 1 does not hold" in refused()


def test_no_state_of_lines_that_met_a_page_that_cannot_be_read(ff: Command, tmp_path: Path) -> None:
    """They would have failed for good, also when the page is there again."""
    ff("convert", written(tmp_path, range(len(TIMES))), tmp_path / "s.zarr", "--page", 8)
    words = ("trace", tmp_path / "s.zarr", "--kind", "pathline", "--seeds", "random:20:4")
    state, new = tmp_path / "a.state", tmp_path / "new.state"
    ff(*words, "--t1", TIMES[2], "--save-state", state, "-o", tmp_path / "a.npz")
    before = state.read_bytes()
    (shard,) = (tmp_path / "s.zarr" / "zone1" / "momentum").glob("c.1.*")
    whole = shard.read_bytes()
    shard.unlink()
    done = ff(*words, "--t1", TIMES[3], "--save-state", state, "-o", tmp_path / "b.npz", ok=(3,))
    assert "the state is not saved" in done.stderr and str(shard) in done.stderr
    assert state.read_bytes() == before
    with farfield.open(tmp_path / "s.zarr") as ds:
        with pytest.warns(RuntimeWarning, match="the state is not saved"):
            lines = ds.pathlines(seeds="random:20:4", t1=TIMES[3], save_state=new)
        assert lines.summary["partial"] and lines.summary["state_saved"] is False
    assert not [p for p in tmp_path.iterdir() if "state" in p.name and p != state]
    shard.write_bytes(whole)
    ff(*words, "--resume", state, "-o", tmp_path / "b.npz")
    ff(*words, "-o", tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()


def test_one_state_rolls_forward(ff: Command, tmp_path: Path) -> None:
    """The file that a run goes on from is the one that it keeps, once it is done."""
    words, state = ("--kind", "pathline", *SEEDS), tmp_path / "b.state"
    have = 0
    for last in (2, 3, len(TIMES)):
        source = written(tmp_path, range(have, last))
        more = ["--resume", state] if have else []
        have = last
        ff("trace", source, *words, "--save-state", state, *more, "-o", tmp_path / "b.npz")
    ff("trace", source, *words, "-o", tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    ff("trace", source, *words, "--t1", TIMES[1], "--save-state", state, "-o", tmp_path / "b.npz")
    before = state.read_bytes()
    with farfield.open(source) as ds, pytest.raises(farfield.Interrupted):
        ds.pathlines(
            seeds="random:50:4",
            scalars=["velocity", "pressure"],
            save_state=state,
            resume=state,
            progress=lambda *_: False,
        )
    assert state.read_bytes() == before and not [p for p in tmp_path.iterdir() if ".part" in p.name]


@pytest.mark.parametrize("kind", ["pathline", "streakline"])
def test_given_times_go_on_behind_the_end(kind: str, ff: Command, tmp_path: Path) -> None:
    """One list for all runs: each takes what lies before its end, and the last has the bytes of one run."""
    outputs = ("--output-times", "0.75,1.25,2.2,3")
    releases = ("--release-times", "2.5,0.6,1.0,1.25,1.9")
    given: tuple[object, ...] = ("--kind", kind, *SEEDS, *outputs, *(releases if kind == "streakline" else ()))
    state = tmp_path / "a.state"
    source = written(tmp_path, range(3))
    said = ff("trace", source, *given, "-o", tmp_path / "a.npz", ok=(2,)).stderr
    assert "does not lie between 0.5 and 1.25" in said and "--save-state" in said
    ff("trace", source, *given, "--save-state", state, "-o", tmp_path / "a.npz")
    source = written(tmp_path, range(3, len(TIMES)))
    ff("trace", source, *given, "--resume", state, "-o", tmp_path / "b.npz")
    ff("trace", source, *given, "-o", tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    # What comes later may be said later, what was before the end may not be another.
    later = [
        word.replace(",2.2,3", ",2.9").replace("2.5,", "2.75,") if isinstance(word, str) else word for word in given
    ]
    ff("trace", source, *later, "--resume", state, "-o", tmp_path / "b.npz")
    ff("trace", source, *later, "-o", tmp_path / "c.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    earlier = [word.replace("0.75,", "").replace("0.6,", "") if isinstance(word, str) else word for word in given]
    said = ff("trace", source, *earlier, "--resume", state, "-o", tmp_path / "d.npz", ok=(2,)).stderr
    assert "the state was saved with" in said and "say the same again" in said
    early = ["0.4,0.75" if word == outputs[1] else word for word in given]
    assert (
        "0.4 does not lie"
        in ff("trace", source, *early, "--save-state", tmp_path / "n", "-o", tmp_path / "d.npz", ok=(2,)).stderr
    )


def test_a_state_that_cannot_be_written_ends_the_run_at_its_start(ff: Command, tmp_path: Path) -> None:
    source = written(tmp_path, range(2))
    words = ("trace", source, "--kind", "pathline", "--seeds", "random:9:4", "-o", tmp_path / "l.npz")
    assert "there is no folder" in ff(*words, "--save-state", tmp_path / "none" / "a", ok=(2,)).stderr
    assert "is an input" in ff(*words, "--save-state", tmp_path / "s_0.q", ok=(2,)).stderr
    assert not (tmp_path / "l.npz").exists()
    shutil.rmtree(tmp_path)
    with farfield.open("demo:box") as ds, pytest.raises(UsageError, match="one time step"):
        ds.pathlines(seeds=[(0.7, 0.5, 0.3)], t0=0.0, t1=1.0, save_state="state")
