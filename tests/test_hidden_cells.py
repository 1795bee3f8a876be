"""Cells that VTK hides: what is one layer thick stays hidden, in files, stores and pieces, for lines, probes and surfaces."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield as ff
from farfield.errors import DataError
from farfield.volume.formats.vtk.hidden_cells import OF_CELLS, of_cells
from farfield.volume.formats.vtk.zones import is_zone
from running import Json

DIMS = (9, 8, 7)


def _block(extent: tuple[int, ...], points: NDArray[Any], arrays: dict[str, dict[str, NDArray[Any]]]) -> str:
    """A piece of a structured grid as text; arrays [k, j, i(, component)] of points and of cells."""

    def array(name: str, of: NDArray[Any]) -> str:
        kind = "UInt8" if of.dtype == np.uint8 else "Float64"
        width = f' NumberOfComponents="{of.shape[3]}"' if of.ndim == 4 else ""
        numbers = " ".join(f"{v:.17g}" if kind == "Float64" else str(v) for v in of.reshape(-1))
        return f'<DataArray type="{kind}" Name="{name}"{width} format="ascii">{numbers}</DataArray>'

    sections = "".join(
        f"<{where}>{''.join(array(n, v) for n, v in of.items())}</{where}>" for where, of in arrays.items()
    )
    return f'<Piece Extent="{" ".join(map(str, extent))}">{sections}<Points>{array("Points", points)}</Points></Piece>'


def _file(path: Path, extent: tuple[int, ...], piece: str) -> None:
    whole = " ".join(map(str, extent))
    path.write_text(
        '<VTKFile type="StructuredGrid" version="1.0" byte_order="LittleEndian">'
        f'<StructuredGrid WholeExtent="{whole}">{piece}</StructuredGrid></VTKFile>'
    )


def _points(dims: tuple[int, int, int] = DIMS) -> NDArray[np.float64]:
    i, j, k = (np.arange(n, dtype=float) for n in dims)
    z, y, x = np.meshgrid(k, j, i, indexing="ij")
    return np.stack([x + 0.04 * np.sin(y), y, z], axis=-1)


def _flow(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.broadcast_to([1.0, 0.0, 0.0], points.shape).copy()


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, NDArray[np.uint8]]:
    """A grid of which cells here and there are hidden, and which."""
    folder = tmp_path_factory.mktemp("hidden")
    points = _points()
    ghosts = np.zeros(tuple(n - 1 for n in reversed(DIMS)), np.uint8)
    ghosts[np.random.default_rng(32).random(ghosts.shape) < 0.25] = 32
    ghosts[1, 2, :3] = 1
    extent = tuple(v for n in DIMS for v in (0, n - 1))
    arrays = {
        "PointData": {"velocity": _flow(points), "s": points[..., 2].copy()},
        "CellData": {"vtkGhostType": ghosts},
    }
    _file(folder / "some.vts", extent, _block(extent, points, arrays))
    return folder / "some.vts", ghosts


@pytest.mark.parametrize("nodes", [(4, 3, 5), (2, 6, 3), (5, 4, 1), (1, 3, 4)])
@pytest.mark.parametrize("rows", [1, 2, 9])
def test_points_say_what_is_hidden(nodes: tuple[int, int, int], rows: int) -> None:
    cells = tuple(max(n - 1, 1) for n in nodes)
    hidden = np.random.default_rng(sum(nodes)).random(cells[::-1]) < 0.6
    flat = hidden.reshape(-1, 1)
    blank = np.concatenate(list(of_cells(nodes, cells, lambda at, n: flat[at : at + n], rows)))
    blank = blank.reshape(nodes[::-1])

    def around(node: tuple[int, ...], reach: list[tuple[int, ...]]) -> list[bool]:
        found = []
        for at in itertools.product(*[[n + o for o in r] for n, r in zip(node, reach, strict=True)]):
            if all(0 <= a < m for a, m in zip(at, cells, strict=True)):
                found.append(bool(hidden[at[::-1]]))
        return found

    own, both = (0,), (-1, 0)
    reaches = {
        1: [own, own, own], 2: [own, both, both], 4: [both, own, both], 8: [both, both, own],
        16: [both, own, own], 32: [own, both, own], 64: [own, own, both],
    }  # fmt: skip
    for node in itertools.product(*map(range, nodes)):
        value = int(blank[node[::-1]])
        if all(around(node, [both] * 3)):
            assert value == 0
            continue
        bits = value & 127 if value >= OF_CELLS else 0
        for bit, reach in reaches.items():
            begins = all(n < m for n, m, r in zip(node, cells, reach, strict=True) if r is own)
            assert bool(bits & bit) == (begins and all(around(node, reach))), (node, bit)


def test_a_probe_is_in_no_zone_where_the_cell_is_hidden(some: tuple[Path, NDArray[np.uint8]], ff_json: Json) -> None:
    path, ghosts = some
    with ff.open(path) as ds:
        assert ds.info(ranges=True)["zones"][0]["hidden_cells"] <= (ghosts == 32).sum()
        for k, j, i in itertools.product(*map(range, ghosts.shape)):
            centre = (i + 0.5 + 0.04 * np.sin(j + 0.5), j + 0.5, k + 0.5)
            assert (ds.probe(centre) is not None) == (ghosts[k, j, i] != 32), (i, j, k)


@pytest.mark.parametrize("page", [4, 8, 16])
def test_stores_hide_the_same(some: tuple[Path, NDArray[np.uint8]], page: int, tmp_path: Path, ff: Any) -> None:
    """Lines, isosurfaces and faces of a store in small pages are those of the file, to the last bit."""
    path, ghosts = some
    ff("convert", path, tmp_path / "s.zarr", "--page", page)
    made: dict[str, list[bytes]] = {}
    for name, source in (("file", path), ("store", tmp_path / "s.zarr")):
        seeds = "box:0.1,0.1,0.1:7.9,6.9,5.9:6:6:6"
        ff("trace", source, "--seeds", seeds, "-o", tmp_path / "l.npz")
        ff("extract", "isosurface", source, "--field", "s", "--value", "2.5", "-o", tmp_path / "i.npz")
        ff("extract", "grid-surface", source, "--surface", "zone1:k=3", "-o", tmp_path / "g.npz")
        made[name] = []
        for file in ("l.npz", "i.npz", "g.npz"):
            with np.load(tmp_path / file) as found:
                made[name] += [found[key].tobytes() for key in sorted(found.files) if found[key].dtype.kind in "fiu"]
    assert made["file"] == made["store"]
    with np.load(tmp_path / "g.npz") as found:
        quads = next(found[key] for key in found.files if key in ("quads", "cells"))
    seen = ~((ghosts[1] == 32) & (ghosts[2] == 32))
    assert len(quads) == seen.sum()


def test_what_stands_in_hidden_cells_is_of_no_account(tmp_path: Path) -> None:
    points = _points((6, 4, 4))
    values = np.full((3, 3, 5), 2.0)
    ghosts = np.zeros((3, 3, 5), np.uint8)
    values[:, :, 2], ghosts[:, :, 2] = 1e30, 32
    extent = (0, 5, 0, 3, 0, 3)
    arrays = {"PointData": {}, "CellData": {"p": values, "vtkGhostType": ghosts}}
    _file(tmp_path / "c.vts", extent, _block(extent, points, arrays))
    with ff.open(tmp_path / "c.vts") as ds:
        assert (ds["p"][...] == 2.0).all()


def test_of_duplicates_the_owner_is_taken(tmp_path: Path) -> None:
    """Two pieces with a layer of ghosts each, in which nonsense stands."""
    points = _points((9, 4, 4))
    truth = np.arange(3 * 3 * 8, dtype=float).reshape(3, 3, 8)
    hidden = np.zeros((3, 3, 8), np.uint8)
    hidden[1, 1, 4] = 32
    names = []
    for n, (first, last, own) in enumerate([(0, 5, range(4)), (3, 8, range(4, 8))]):
        mine = np.isin(np.arange(first, last), own)
        ghosts = np.where(mine, hidden[:, :, first:last], 1).astype(np.uint8)
        values = np.where(mine, truth[:, :, first:last], -1e6)
        extent = (first, last, 0, 3, 0, 3)
        arrays = {"PointData": {}, "CellData": {"p": values, "vtkGhostType": ghosts}}
        _file(tmp_path / f"p{n}.vts", extent, _block(extent, points[:, :, first : last + 1], arrays))
        names.append(f'<Piece Extent="{" ".join(map(str, extent))}" Source="p{n}.vts"/>')
    (tmp_path / "p.pvts").write_text(
        '<VTKFile type="PStructuredGrid" version="1.0" byte_order="LittleEndian">'
        '<PStructuredGrid WholeExtent="0 8 0 3 0 3" GhostLevel="1">'
        '<PPoints><PDataArray type="Float64" Name="Points" NumberOfComponents="3"/></PPoints>'
        f"{''.join(names)}</PStructuredGrid></VTKFile>"
    )
    with ff.open(tmp_path / "p.pvts") as ds:
        values = ds["p"][...]
        assert values.min() >= 0 and values.max() <= truth.max()
        assert ds.probe((2.5, 0.5, 0.5)) is not None
        assert ds.probe((4.5 + 0.04 * np.sin(1.5), 1.5, 1.5)) is None


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))


def _image(path: Path, hidden: int, *, rgb: bool = False, name: str = "s") -> Path:
    """A uniform grid of 3 x 3 x 2 points; `hidden`: what the first one is by its ghosts."""
    ghosts = np.zeros(18, np.uint8)
    ghosts[0] = hidden
    numbers = " ".join(map(str, range(54 if rgb else 18)))
    path.write_text(
        '<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian">'
        '<ImageData WholeExtent="0 2 0 2 0 1" Origin="0 0 0" Spacing="1 1 1"><Piece Extent="0 2 0 2 0 1"><PointData>'
        f'<DataArray type="UInt8" Name="{name}" NumberOfComponents="{3 if rgb else 1}" format="ascii">{numbers}</DataArray>'
        f'<DataArray type="UInt8" Name="vtkGhostType" format="ascii">{" ".join(map(str, ghosts))}</DataArray>'
        "</PointData></Piece></ImageData></VTKFile>"
    )
    return path


def test_a_piece_that_changes_makes_a_parallel_file_a_zone(tmp_path: Path) -> None:
    _image(tmp_path / "a.vti", 0)
    outline = tmp_path / "a.pvti"
    outline.write_text(
        '<VTKFile type="PImageData" version="1.0" byte_order="LittleEndian">'
        '<PImageData WholeExtent="0 2 0 2 0 1" GhostLevel="0" Origin="0 0 0" Spacing="1 1 1"><PPointData>'
        '<PDataArray type="UInt8" Name="s"/><PDataArray type="UInt8" Name="vtkGhostType"/></PPointData>'
        '<Piece Extent="0 2 0 2 0 1" Source="a.vti"/></PImageData></VTKFile>'
    )
    assert not is_zone(str(outline)) and not is_zone(str(tmp_path / "a.vti"))
    _image(tmp_path / "a.vti", 2, name="t")
    assert is_zone(str(tmp_path / "a.vti")) and is_zone(str(outline))


def test_colours_with_a_hidden_point_are_no_flow(tmp_path: Path, cache: None) -> None:
    with ff.open(_image(tmp_path / "a.vti", 2, rgb=True)) as ds:
        said = " ".join(ds.info()["guessed"])
    assert "Points or cells of it are hidden, and it opens as a zone: a.vti::NAME" in said and "flow" not in said


def test_what_needs_no_room_is_said(tmp_path: Path, cache: None, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _image(tmp_path / "a.vti", 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(
        DataError, match=r"0 bytes free; make room, set cache_dir .*, or open .*a\.vti::NAME, which reads"
    ):
        ff.open(path)
    _file(tmp_path / "b.vts", (0, 8, 0, 7, 0, 6), _block((0, 8, 0, 7, 0, 6), _points(), {}))
    with pytest.raises(DataError, match=r"free; make room, or set cache_dir to a folder with more$"):
        ff.open(tmp_path / "b.vts")


def test_what_made_hidden_points_a_volume_is_named(tmp_path: Path, cache: None) -> None:
    path = _image(tmp_path / "a.vti", 2)
    legacy = tmp_path / "a.vtk"
    legacy.write_text(
        "# vtk DataFile Version 2.0\na\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 2 2 2\nORIGIN 0 0 0\nSPACING 1 1 1\n"
        "BLANKING 8 unsigned_char\n0 1 1 1 1 1 1 1\nPOINT_DATA 8\nSCALARS s float 1\nLOOKUP_TABLE default\n1 2 3 4 5 6 7 8\n"
    )
    for file, name, options, said in (
        (path, "::s", {}, "its vtkGhostType hides is shown; opened without ::NAME it is"),
        (path, "", {"spacing": "1,1,2"}, "its vtkGhostType hides is shown; opened without options of volumes it is"),
        (legacy, "::s", {}, "its BLANKING hides is shown; opened without ::NAME it is"),
    ):
        with ff.open(f"{file}{name}", volume=options or None) as volume:
            assert said in " ".join(volume.info()["guessed"]), said
