"""No output goes over what the run reads, under whatever name, or into a folder that is not there."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import farfield
from farfield.errors import UsageError
from farfield.results import outputs
from farfield.scene import Outline, Scene
from farfield.sources.parsing import parse
from plot3d_files import Block, write
from running import Command

POINT = "point:0.7,0.5,0.3"


@pytest.fixture
def case(flow_blocks: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a flow, lines, seeds and a scene, whose names would do for outputs."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, flow_blocks, stem="a")
    shutil.copy("a.q", "q.vtp")
    Path("seeds.csv").write_text("x,y,z\n0.7,0.5,0.3\n")
    os.link("seeds.csv", "hard.npz")
    Path("link.vtp").symlink_to("q.vtp")
    Path("link.png").symlink_to("a.xyz")
    with farfield.open("a.xyz", q="a.q") as ds:
        ds.streamlines(seeds=[(0.7, 0.5, 0.3)], max_length=0.1).save("lines.vtp")
    Path("lines.png").symlink_to("lines.vtp")
    Path("run.p3d").write_text('{"filenames": [{"time": 1.0, "xyz": "a.xyz", "q" : "q.vtp"}]}')
    Path("a.p3d.json").write_text("{}")
    Path("sc.json").write_text(Scene(source="a.xyz+q=a.q", objects=[Outline()]).model_dump_json())
    return tmp_path


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        f"trace a.xyz+q=q.vtp --seeds {POINT} -o q.vtp",
        f"trace a.xyz+q=q.vtp --seeds {POINT} -o link.vtp",
        f"trace a.xyz+q=q.v?p --seeds {POINT} -o ../{{here}}/q.vtp",
        f"trace a.xyz+q=link.vtp --seeds {POINT} -o q.vtp",
        f"trace run.p3d --seeds {POINT} -o q.vtp",
        f"trace a.xyz+q=a.q --seeds {POINT} -o l.npz --events a.q",
        f"trace a.xyz+q=a.q --seeds {POINT} -o l.npz --events a.p3d.json",
        "trace a.xyz+q=a.q --seeds lines.vtp -o lines.vtp",
        "trace a.xyz+q=a.q --seeds seeds.csv -o l.npz --events seeds.csv",
        "trace a.xyz+q=a.q --seeds seeds.csv -o hard.npz",
        "extract grid-surface a.xyz+q=q.vtp --surface zone1:k=1 -o q.vtp",
        "extract grid-surface a.xyz+q=a.q --surface zone1:k=1 -o s.vtp --events a.xyz",
        "probe a.xyz+q=a.q 0.7 0.5 0.3 --events a.q",
        "validate a.xyz+q=a.q --events a.q",
        "convert a.xyz+q=a.q s.zarr --events a.q",
        "convert a.xyz+q=a.q a.q --overwrite",
        "render a.xyz+q=a.q -o link.png",
        "render a.xyz+q=a.q -o p.png --save-scene a.q",
        "render --lines lines.vtp -o lines.png",
        "render --lines lines.vtp -o p.png --save-scene lines.vtp",
        "render a.xyz+q=a.q --seeds seeds.csv -o p.png --events seeds.csv",
        "render sc.json -o p.png --save-scene sc.json",
        "render sc.json -o p.png --events sc.json",
        "render sc.json -o p.png --save-scene a.q",
    ],
)
def test_an_input_is_no_output(words: str, case: Path, ff: Command) -> None:
    before = bytes_of(case)
    said = ff(*words.format(here=case.name).split(), ok=(2,)).stderr
    assert "is an input of this run" in said and said.count("\n") == 1, said
    assert bytes_of(case) == before


@pytest.fixture
def stores(case: Path, store: Path) -> Path:
    """A store, and one that holds another."""
    shutil.copytree(store, "s.zarr")
    shutil.copytree(store, "outer.zarr")
    shutil.copytree(store, "outer.zarr/deep/s.zarr")
    shutil.copy("a.xyz", "outer.zarr/g.xyz")
    Path("other").symlink_to("s.zarr")
    return case


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("convert s.zarr s.zarr", "is an input"),
        ("convert s.zarr other/ --overwrite", "is an input"),
        ("convert s.zarr s.zarr/sub", "lies in"),
        ("convert s.zarr other/zone1/new", "lies in"),
        ("convert s.zarr s.zarr/zone1 --overwrite", "lies in"),
        ("convert outer.zarr/deep/s.zarr outer.zarr --overwrite", "holds"),
        ("convert outer.zarr/g.xyz outer.zarr --overwrite", "holds"),
        (f"trace s.zarr --seeds {POINT} -o l.npz --events s.zarr/zarr.json", "lies in"),
    ],
)
def test_stores_in_each_other(words: str, why: str, stores: Path, ff: Command) -> None:
    before = bytes_of(stores)
    said = ff(*words.split(), ok=(2,)).stderr
    assert why in said and "input of this run" in said and said.count("\n") == 1, said
    assert bytes_of(stores) == before


def test_from_python(case: Path) -> None:
    before = bytes_of(case)
    with farfield.open("a.xyz", q="q.vtp") as ds:
        for refused in (
            lambda: ds.trace("q.vtp", options={"seeds": POINT}),
            lambda: ds.trace("lines.vtp", options={"seeds": "lines.vtp"}),
            lambda: farfield.extract_surface(ds, "link.vtp", surfaces=["zone1:k=1"]),
            lambda: farfield.render(ds, "link.png"),
            lambda: farfield.open("a.xyz", q="a.q", events="a.q"),
            lambda: farfield.validate("a.xyz", q="a.q", events="a.q"),
            lambda: farfield.convert("a.xyz", "s.zarr", q="a.q", events="a.xyz"),
        ):
            with pytest.raises(UsageError, match="is an input of this run"):
                refused()
    assert bytes_of(case) == before


@pytest.mark.parametrize(
    "words",
    [
        f"trace a.xyz+q=a.q --seeds {POINT} -o none/l.vtp",
        f"trace a.xyz+q=a.q --seeds {POINT} -o l.vtp --events none/e.json",
        "extract grid-surface a.xyz+q=a.q --surface zone1:k=1 -o none/s.vtp",
        "render a.xyz+q=a.q -o none/p.png",
        "render a.xyz+q=a.q -o p.png --save-scene none/s.json",
        "convert a.xyz+q=a.q none/s.zarr",
        "convert a.xyz+q=a.q none/s.zarr/",
        "convert a.xyz+q=a.q seeds.csv/s.zarr",
    ],
)
def test_a_folder_that_is_not_there(words: str, case: Path, ff: Command) -> None:
    before = bytes_of(case)
    said = ff(*words.split(), ok=(2,)).stderr
    folder = "seeds.csv" if "seeds.csv" in words else "none"
    assert f"there is no folder {folder};" in said and said.count("\n") == 1, said
    assert bytes_of(case) == before and not Path("none").exists()


def test_two_outputs_of_one_name(case: Path, ff: Command) -> None:
    words = ("trace", "a.xyz+q=a.q", "--seeds", POINT, "-o", "l.vtp", "--events", "./l.vtp")
    assert "two outputs" in ff(*words, ok=(2,)).stderr
    outputs.check([os.devnull, os.devnull], [])


def test_what_a_source_reads(case: Path) -> None:
    Path("a.f").touch()
    Path("a.nam").touch()
    read = parse("a.xyz+q=q.v*+f=a.f").reads()
    assert {"a.xyz", "q.vtp", "a.f", "a.nam", "a.p3d.json"} <= set(read)
    sub = case / "sub"
    sub.mkdir()
    text = '{ // "q" : "\\q"\n "filenames": [{"xyz": "b \\u00fc.xyz", "q": "../a.q", "function": "/f.fun"}]}'
    for head in ("", "\ufeff  "):
        Path("sub/any.json").write_text(head + text)
        assert {"sub/b \u00fc.xyz", "sub/../a.q", "/f.fun"} <= set(parse("sub/any.json").reads())


def test_outputs_beside_what_is_read_are_fine(stores: Path, ff: Command) -> None:
    ff("convert", "s.zarr", "s.zarr2", "--page", 4, "-q")
    ff("trace", "s.zarr", "--seeds", "lines.vtp", "-o", "link.vtp", "--events", "e.json", "-q")
    assert json.loads(Path("e.json").read_text())
    found: dict[str, Any] = json.loads(ff("convert", "s.zarr", "s.zarr2", "--overwrite", "--json").stdout)
    assert found["pages_written"] > 0
    # A store cut anew, in its own place.
    whole = ff("probe", "s.zarr", "--ijk", "zone1", 1, 1, 1).stdout
    ff("convert", "s.zarr", "s.zarr", "--page", 8, "--overwrite", "-q")
    ff("validate", "s.zarr", "-q")
    assert ff("probe", "s.zarr", "--ijk", "zone1", 1, 1, 1).stdout == whole
