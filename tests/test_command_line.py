"""The command line's own part: parsing, exit codes, streams, what is asked of the extension."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fake_native import INFO, Calls
from farfield import cli
from farfield.cli.app import build
from farfield.cli.table import COMMANDS, help_text
from farfield.errors import (
    AccessError,
    AmbiguousError,
    DataError,
    FarfieldError,
    Interrupted,
    MemoryLimitError,
    UnknownName,
    UsageError,
)


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in ("g.xyz", "g.q"):
        (tmp_path / name).touch()
    return "g.xyz+q=g.q"


def test_help_names_every_command_as_it_names_itself() -> None:
    app = build(list(COMMANDS))
    own = {c.name: c.callback.__doc__ or "" for c in app.registered_commands if c.callback}
    own |= {g.name: g.help or "" for g in app.registered_groups}  # type: ignore[dict-item]
    assert {name: doc.strip().splitlines()[0] for name, doc in own.items()} == COMMANDS
    assert all(f"  {name} " in help_text() for name in COMMANDS)


def test_help_and_version_import_nothing_heavy() -> None:
    code = (
        "import sys; from farfield.cli import run; run(['--help']); run(['--version']);"
        "heavy = {'typer', 'rich', 'numpy', 'pydantic', 'cmap', 'farfield._native', 'inspect', 'asyncio'} & set(sys.modules);"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, farfield; heavy = {'numpy', 'pydantic', 'farfield._native'} & set(sys.modules);"
        "assert set(farfield.__all__) <= set(dir(farfield)); sys.exit(repr(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nonsense", "no command 'nonsense'"),
        ("trce", "did you mean 'trace'"),
        ("-q", "no such option: -q"),
        ("trace", "missing"),
        ("trace g.xyz --seeds random:1:1", "--output"),
        ("trace g.xyz --seeds random:1:1 -o out.txt", "out.txt"),
        ("trace g.xyz --seeds rndom:1:1 -o out.vtp", "rndom"),
        ("trace g.xyz --seeds random:1:1 -o out.vtp --max-steps 0", "--max-steps"),
        ("trace g.xyz --seeds random:1:1 -o out.vtp --memory-limit lots", "--memory-limit"),
        ("info g.xyz --plot3d-precision 16", "--plot3d-precision"),
        ("info g.xyz --no-such", "--no-such"),
        ("probe g.xyz 1", "X Y Z"),
        ("probe g.xyz 1 2 --no-such", "--no-such"),
        ("probe g.xyz --ijk zone1 1 x 3", "ZONE I J K"),
        ("render", "--output"),
        ("render -o a.png", "nothing to draw"),
        ("render g.xyz g.xyz -o a.png", "in quotes, such as 'name_*.xyz'"),
        ("render g.xyz -o a.gif", "a.gif"),
        ("render --lines l.vtp -o a.png --size 3", "--size"),
        ("render --lines l.vtp -o a.png --samples 9", "--samples"),
        ("render --lines l.vtp -o a.png --range 2:1 --color mach", "range"),
        ("convert g.xyz d.zarr --page 5", "--page"),
        ("convert g.xyz d.zarr --codec gzip", "--codec"),
        ("config get no_such", "no_such"),
        ("config set workers many", "many"),
        ("config set cmap nosuch", "nosuch"),
        ("trace g.xyz --seeds random:1:1 -o out.vtp --scalars mach,mach", "mach"),
        ("extract grid-surface g.xyz -o out.vtp --scalars mach,mach", "mach"),
        ("info g.xyz -q -v", "-q"),
        ("config list -vq", "-v"),
        ("cache clear nothing", "nothing"),
        ("bench run no_such", "farfield-bench"),
        ("extract", "command"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(words: str, said: str, fake: Calls, grid: str, capsys: Any) -> None:
    assert cli.run(words.split()) == 2
    out, err = capsys.readouterr()
    assert err.startswith("farfield: error: ") and err.count("\n") == 1 and said.lower() in err.lower(), err
    assert out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DataError("x.q: ends early"), 1),
        (FarfieldError("x"), 1),
        (UsageError("x"), 2),
        (UnknownName("x"), 2),
        (AmbiguousError("x.q: 2 readings fit this file"), 2),
        (MemoryLimitError("x"), 4),
        (MemoryError("x"), 4),
        (AccessError("x"), 5),
        (PermissionError(13, "denied", "x"), 5),
        (OSError(28, "no space left on device", "x"), 1),
        (Interrupted("x"), 130),
        (KeyboardInterrupt(), 130),
        (RuntimeError("x"), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int, fake: Calls, grid: str, capsys: Any) -> None:
    fake.answers["trace"] = error
    assert cli.run(["trace", grid, "--seeds", "random:3:1", "-o", "o.vtp"]) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("farfield: ") and "Traceback" not in err
    assert fake.made[-1][0] == "close"


def test_a_defect_is_called_one_and_shows_its_traceback_on_demand(
    fake: Calls, grid: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["trace", grid, "--seeds", "random:3:1", "-o", "o.vtp"]
    fake.answers["trace"] = RuntimeError("boom")
    assert cli.run(words) == 1 and "internal: RuntimeError: boom" in capsys.readouterr().err
    for more in (["-v", "-v"], ["-vv"], ["--verbose", "-v"]):
        with pytest.raises(RuntimeError):
            cli.run([*words, *more])
    monkeypatch.setenv("FARFIELD_DEBUG", "1")
    with pytest.raises(RuntimeError):
        cli.run(words)


def test_trace_asks_for_what_the_flags_say(fake: Calls, grid: str, capsys: Any) -> None:
    words = (
        f"trace {grid} --seeds random:3:1 -o o.npz --direction backward --integrator rk4 --tolerance 1e-4 --max-length 2 "
        "--max-steps 7 --max-time 3 --initial-step .1 --max-step .2 --terminal-speed .01 --scalars mach,density --field momentum "
        "--step 2 --memory-limit 64KiB --workers 2 --readers 5 --replacement lru --events e.json --plot3d-precision 64 "
        "--plot3d-iblank no --zone-order zone2,zone1 --stop mach>1 --json"
    )
    assert cli.run(words.split()) == 0
    opened, traced = fake.last("open"), fake.last("trace")
    assert (opened["source"], opened["q"]) == ("g.xyz", ["g.q"])
    assert (opened["memory_limit"], opened["workers"], opened["readers"]) == (65536, 2, 5)
    assert (opened["replacement"], opened["events"]) == ("lru", "e.json")
    assert opened["options"]["plot3d"] == {"precision": "64", "iblank": "no"}
    assert opened["options"]["zone_order"] == ["zone2", "zone1"] and opened["options"]["cache_dir"]
    assert traced["options"] == {
        "seeds": "random:3:1", "field": "momentum", "step": 2, "direction": "backward", "integrator": "rk4",
        "tolerance": 1e-4, "initial_step": 0.1, "max_step": 0.2, "max_length": 2.0, "max_time": 3.0, "max_steps": 7,
        "terminal_speed": 0.01, "scalars": ["mach", "density"], "kind": "streamline",
        "stop": "mach>1",
    }  # fmt: skip
    out, err = capsys.readouterr()
    printed = json.loads(out)
    assert printed["lines"] == 2 and printed["pages"]["touched"] == 2 and printed["wall_s"] == 0.5 and err == ""


def test_partial_results_exit_3(fake: Calls, grid: str, capsys: Any) -> None:
    from fake_native import STATS

    fake.answers["trace"] = {
        "lines": 2, "points": 9, "reasons": {"left": 1, "failed": 1}, "outside": 0, "partial": True, "output": "o.vtp",
        "bytes_written": 5, "stats": STATS,
    }  # fmt: skip
    assert cli.run(["trace", grid, "--seeds", "random:2:1", "-o", "o.vtp"]) == 3
    assert "partial" in capsys.readouterr().out


def test_probe(fake: Calls, grid: str, capsys: Any) -> None:
    assert cli.run(["probe", grid, "-1.5", "-.5", "-1e-5", "--json"]) == 0
    assert fake.last("probe")["at"] == (-1.5, -0.5, -1e-5)
    assert json.loads(capsys.readouterr().out)["values"] == {"density": 1.2}
    assert cli.run(["probe", grid, "--ijk", "zone1", "2", "3", "1.5"]) == 0
    assert fake.last("probe_ijk")["at"] == (2.0, 3.0, 1.5)
    assert cli.run(["probe", grid, "1", "2"]) == 2 == cli.run(["probe", grid, "--ijk", "zone1", "1", "2"])
    assert "3-D" in capsys.readouterr().err
    fake.answers["info"] = {**INFO, "dimension": 2}
    assert cli.run(["probe", grid, "1", "2"]) == 0 and fake.last("probe")["at"] == (1.0, 2.0, 0.0)
    capsys.readouterr()
    fake.answers["probe"] = {"outside": True}
    assert cli.run(["probe", grid, "9", "9", "9", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["outside"] is True
    assert cli.run(["probe", grid, "9", "9", "9"]) == 1 and "no zone" in capsys.readouterr().err


def test_validate_lists_failures(fake: Calls, grid: str, capsys: Any) -> None:
    from fake_native import STATS

    bad = {"what": "zone1/density page 3", "error": "checksum mismatch"}
    fake.answers["validate"] = {
        "ok": False, "pages_checked": 3, "pages_unchecked": 0, "failures": [bad], "failed": 1, "stats": STATS,
    }  # fmt: skip
    assert cli.run(["validate", grid]) == 1
    assert "zone1/density page 3" in capsys.readouterr().err


def test_info_says_how_bounds_that_are_not_known_are_found(fake: Calls, grid: str, capsys: Any) -> None:
    hint = "ranges   not known yet, nor where the zones lie; --ranges finds both, in one pass over the data"
    assert cli.run(["info", grid]) == 0 and hint not in capsys.readouterr().out
    fake.answers["info"] = {**INFO, "zones": [{**zone, "box": None} for zone in INFO["zones"]]}  # type: ignore[union-attr]
    assert cli.run(["info", grid]) == 0 and hint in capsys.readouterr().out


def test_info_for_people_and_machines(fake: Calls, grid: str, capsys: Any) -> None:
    assert cli.run(["info", grid, "--ranges"]) == 0 and fake.last("info")["ranges"] is True
    text = capsys.readouterr().out
    assert "zone1  5 x 4 x 3  iblank" in text and "-3: 1" in text and "zone1:j=1" in text
    assert cli.run(["info", grid, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["pages"] == {"total": 10, "bytes": 4096} and printed["zones"][0]["dims"] == [5, 4, 3]


def test_render_draws_what_it_saved(fake: Calls, grid: str, capsys: Any, tmp_path: Path) -> None:
    assert cli.run(["render", grid, "-o", "a.png", "--size", "64x32", "--save-scene", "s.json", "-q"]) == 0
    first = fake.last("render")["scene"]
    assert first["size"] == [64, 32]
    assert cli.run(["render", "s.json", "-o", "b.png", "-q"]) == 0
    assert fake.last("render")["scene"] == first
    assert capsys.readouterr().out == ""


def test_environment_and_files(fake: Calls, grid: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    Path("farfield.toml").write_text("memory_limit = '3MiB'\nreaders = 9\n")
    monkeypatch.setenv("FARFIELD_READERS", "8")
    assert cli.run(["info", grid, "-v"]) == 0
    opened = fake.last("open")
    assert (opened["memory_limit"], opened["readers"]) == (3 * 2**20, 8)
    assert "readers = 8 (FARFIELD_READERS)" in capsys.readouterr().err
    assert (
        cli.run(["config", "set", "workers", "3"]) == 0 and cli.run(["config", "set", "codec", "lz4", "--project"]) == 0
    )
    capsys.readouterr()
    assert cli.run(["config", "get", "workers"]) == 0 and capsys.readouterr().out == "3\n"
    assert cli.run(["config", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["codec"]["value"] == "lz4" and listed["codec"]["origin"] == "farfield.toml"


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path))
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "data" / "x").mkdir(parents=True)
    (tmp_path / "data" / "x" / "f").write_bytes(bytes(1000))
    assert cli.run(["cache", "info", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bytes"] == 1000
    assert cli.run(["cache", "clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"bytes": 1000}
    assert (tmp_path / "precious").exists() and not (tmp_path / "data").exists()


def test_fields_are_indexed_as_numpy_does(fake: Calls, grid: str) -> None:
    import farfield as ff

    ds = ff.open(grid)
    whole = np.arange(60, dtype="f4").reshape(3, 4, 5)
    density = ds["density"]
    assert density.shape == (3, 4, 5) and density.ndim == 3
    indices: list[Any] = [
        (1, 2, 3), (slice(None), 1), (Ellipsis, 2), (slice(0, 2), Ellipsis), (slice(None, None, -1), slice(3, 0, -2)), -1,
        (slice(1, 1),), (slice(None), slice(5, 9)), slice(None, None, 2), (Ellipsis,), (0, slice(None), slice(-2, None)),
    ]  # fmt: skip
    for index in indices:
        assert np.array_equal(density[index], whole[index]), index
        assert density[index].shape == whole[index].shape, index
    assert np.array_equal(np.asarray(density), whole)
    vectors = np.arange(180, dtype="f4").reshape(3, 3, 4, 5)
    assert np.array_equal(ds["velocity"][1, ..., 2], vectors[1, ..., 2])
    fake.made.clear()
    assert density[1:2, 2, 3:5].shape == (1, 2)
    asked = fake.last("read")
    assert (asked["lo"], asked["hi"]) == ((3, 2, 1), (5, 3, 2))
    for bad in ((3, 0, 0), (0, 0, 0, 0), (Ellipsis, Ellipsis), ([0, 1],), (True,)):
        with pytest.raises(IndexError):
            density[bad]  # type: ignore[index]
    with pytest.raises(KeyError, match="density"):
        ds["no_such"]


def test_time_steps(fake: Calls, grid: str) -> None:
    import farfield as ff

    ds = ff.open(grid)
    assert ds.sel(time=0.6, method="nearest")._step == 1 and ds.sel(time=1.5)._step == 2 and ds.isel(time=-1)._step == 2
    with pytest.raises(ValueError, match="nearest"):
        ds.sel(time=0.6)
    with pytest.raises(ValueError):
        ds.isel(time=3)
    for none in (float("nan"), float("inf"), np.float64("nan")):
        for method in (None, "nearest"):
            with pytest.raises(ValueError, match="finite"):
                ds.sel(time=none, method=method)
    ds.sel(time=1.5)["density"][0, 0, 0]
    assert fake.last("read")["step"] == 2
    assert "zones (1, 60 points)" in repr(ds) and "derived: velocity" in repr(ds)
