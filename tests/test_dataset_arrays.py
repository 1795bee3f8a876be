"""Datasets as xarray and PyVista have them, their bounds, keys and pictures, against the formulas that the files were made of."""

from __future__ import annotations

import base64
import itertools
import pickle
import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import farfield
from farfield import MemoryLimitError, UnknownName, UsageError
from plot3d_files import Block, box, cut, write

NI, NJ, NK = 11, 9, 7
TIMES = (0.5, 1.5, 4.0)
Array = NDArray[np.float64]


def place(shift: float = 0.0) -> list[Array]:
    """A curvilinear zone, [k, j, i]: no coordinate is that of one index."""
    k, j, i = np.meshgrid(np.arange(NK), np.arange(NJ), np.arange(NI), indexing="ij")
    return [0.25 * i + 0.125 * j + shift, 0.5 * j - 0.125 * k, 1.0 * k + 0.0625 * i]


def density(x: Array, y: Array, z: Array, time: float = 0.0) -> Array:
    return 2.0 + 0.5 * x - 0.25 * y + 0.125 * z + 0.5 * time


def momentum(x: Array, y: Array, z: Array, time: float = 0.0) -> list[Array]:
    return [x + 0.0 * time, y - z, 2.0 * z + time]


def block(time: float = 0.0, shift: float = 0.0) -> Block:
    xyz = place(shift)
    q = [density(*xyz, time), *momentum(*xyz, time), np.full(xyz[0].shape, 50.0)]
    iblank = np.ones(xyz[0].shape, "i4")
    iblank[2, 3, 4] = 0
    return Block(xyz, q, iblank)


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write(tmp_path_factory.mktemp("steady"), [block()])


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("series")
    for n, time in enumerate(TIMES):
        write(folder, [block(time)], stem=f"s_{n}", time=time)
    return f"{folder}/s_0.xyz+q={folder}/s_*.q"


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("moving")
    for n, time in enumerate(TIMES):
        write(folder, [block(time, shift=10.0 * n)], stem=f"m_{n}", time=time)
    return f"{folder}/m_*.xyz+q={folder}/m_*.q"


def value(x: Array, y: Array, z: Array, time: float = 0.0) -> Array:
    return 3.0 * x - 2.0 * y + z + 100.0 * time


SPACING, ORIGIN, DIMS = (0.5, 0.25, 2.0), (10.0, -4.0, 1.0), (6, 5, 4)


def centres() -> list[Array]:
    """Where voxels are, [z, y, x]."""
    axes = [o + s * np.arange(n) for o, s, n in zip(ORIGIN, SPACING, DIMS, strict=True)]
    z, y, x = np.meshgrid(*axes[::-1], indexing="ij")
    return [x, y, z]


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A uniform volume with spacing, origin, and a unit."""
    path = tmp_path_factory.mktemp("scan") / "scan.nrrd"
    head = [
        "NRRD0004", "type: float", "dimension: 3", "space dimension: 3", f"sizes: {' '.join(map(str, DIMS))}",
        f"space directions: ({SPACING[0]},0,0) (0,{SPACING[1]},0) (0,0,{SPACING[2]})",
        f"space origin: ({','.join(map(str, ORIGIN))})", 'space units: "mm" "mm" "mm"', "endian: little", "encoding: raw",
    ]  # fmt: skip
    path.write_bytes("\n".join(head).encode() + b"\n\n" + value(*centres()).astype("<f4").tobytes())
    return str(path)


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same at three times, with two channels, scaled, one number of which stands for no value."""
    zarr = pytest.importorskip("zarr")
    path = tmp_path_factory.mktemp("scans") / "scans.ome.zarr"
    axes = [{"name": n, "type": t} for n, t in (("t", "time"), ("c", "channel"), *((a, "space") for a in "zyx"))]
    scale = [1.0, 1.0, *SPACING[::-1]]
    root = zarr.create_group(path, zarr_format=2)
    root.attrs["multiscales"] = [
        {
            "version": "0.4",
            "axes": axes,
            "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": scale}]}],
        }
    ]
    root.attrs["omero"] = {"channels": [{"label": "one", "color": "FF0000"}, {"label": "two", "color": "00FF00"}]}
    array = root.create_array("0", shape=(3, 2, *DIMS[::-1]), chunks=(1, 1, 4, 5, 6), dtype="i2")
    array[...] = voxels()
    return str(path)


def voxels() -> NDArray[np.int16]:
    """[t, c, z, y, x]."""
    t, c, z, y, x = np.meshgrid(*(np.arange(n) for n in (3, 2, *DIMS[::-1])), indexing="ij")
    return (1000 * t + 400 * c + 40 * z + 6 * y + x).astype("i2")


def test_a_zone_in_xarray_is_what_its_formulas_say(steady: tuple[Path, Path]) -> None:
    pytest.importorskip("xarray")
    x, y, z = place()
    with farfield.open(steady[0], q=steady[1]) as ds:
        made = ds.to_xarray()
        # Nothing was read for it, and a part reads a part.
        assert ds.stats()["pages"]["touched"] == 0
        for name, truth in (("x", x), ("y", y), ("z", z)):
            assert made[name].dims == ("k", "j", "i") and np.array_equal(made[name].values, truth), name
            assert made[name].attrs["units"] == "grid unit" and name not in made.xindexes
        assert made.density.dims == ("k", "j", "i") and np.allclose(made.density, density(x, y, z), rtol=1e-15)
        assert made.momentum.dims == ("component", "k", "j", "i") and list(made.component.values) == ["x", "y", "z"]
        for n, name in enumerate("xyz"):
            assert np.allclose(made.momentum.sel(component=name), momentum(x, y, z)[n], atol=1e-14)
        assert made.iblank.values[2, 3, 4] == 0 and made.iblank.values.sum() == x.size - 1
        assert float(made.time) == 3.25 and made.attrs["zone"] == "zone1"
        part = made.density.isel(k=slice(1, 6, 2), j=-1, i=slice(None, None, -3))
        assert np.array_equal(part.values, density(x, y, z)[1:6:2, -1, ::-3])
        assert np.array_equal(made.x.isel(k=slice(None, None, -2), i=3).values, x[::-2, :, 3])
        few = ds.to_xarray(fields=["velocity", "2 * density"])
        assert set(few.data_vars) == {"velocity", "2 * density"}
        assert np.allclose(few["2 * density"], 2 * density(x, y, z))
        assert np.allclose(few.velocity[0], momentum(x, y, z)[0] / density(x, y, z), rtol=1e-12)
        with pytest.raises(UnknownName, match="no_such"):
            ds.to_xarray(fields=["no_such"])
        ds.define("own", "density + 1")
        assert "own" in ds.to_xarray() and "mach" not in ds.to_xarray()


@pytest.mark.parametrize("how", ["in place", "store"])
def test_time_steps_in_xarray(series: str, how: str, tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    source = series
    if how == "store":
        farfield.convert(series, tmp_path / "s.zarr", page=4)
        source = str(tmp_path / "s.zarr")
    xyz = place()
    with farfield.open(source) as ds:
        made = ds.to_xarray()
        assert made.density.dims == ("time", "k", "j", "i") and np.array_equal(made.time.values, TIMES)
        assert made.time.attrs["units"] == ds.time_units and made.x.dims == ("k", "j", "i")
        truth = np.stack([density(*xyz, time) for time in TIMES])
        assert np.allclose(made.density, truth, rtol=1e-14)
        assert np.allclose(made.momentum[1:, 2, :, 0], np.stack([momentum(*xyz, t)[2][:, 0] for t in TIMES[1:]]))
        assert np.allclose(made.density.sel(time=1.5)[2], truth[1, 2])
        assert made.density[::-2, 3].values.shape == (2, NJ, NI) and np.allclose(made.density[::-2, 3], truth[::-2, 3])
        one = ds.sel(time=4.0).to_xarray()
        assert one.density.dims == ("k", "j", "i") and float(one.time) == 4.0 and np.allclose(one.density, truth[2])
        two = ds.isel(time=slice(1, 3)).to_xarray()
        assert np.array_equal(two.time.values, TIMES[1:]) and np.allclose(two.density, truth[1:])


@pytest.mark.parametrize("how", ["in place", "store"])
def test_a_grid_that_moves_has_places_at_each_time(moving: str, how: str, tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    source = moving
    if how == "store":
        farfield.convert(moving, tmp_path / "m.zarr", page=4)
        source = str(tmp_path / "m.zarr")
    with farfield.open(source) as ds:
        made = ds.to_xarray()
        assert made.x.dims == ("time", "k", "j", "i")
        for n in range(len(TIMES)):
            assert np.array_equal(made.x[n].values, place(10.0 * n)[0])
            low, high = ds.isel(time=n).bounds[:2]
            assert np.allclose((low, high), (place(10.0 * n)[0].min(), place(10.0 * n)[0].max()), rtol=0.01, atol=0.05)


def test_several_zones_are_a_tree(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    parts = cut(box(13, 7, 5), 2)
    grid, solution = write(tmp_path, parts)
    with farfield.open(grid, q=solution) as ds:
        made = ds.to_xarray()
        assert isinstance(made, xarray.DataTree) and list(made.children) == ["zone1", "zone2"]
        for name, part in zip(made.children, parts, strict=True):
            assert np.array_equal(made[name]["x"].values, part.xyz[0])
            assert np.allclose(made[name]["density"], part.q[0])
        assert ds.n_points == sum(p.xyz[0].size for p in parts)
        assert np.array_equal(ds["zone2/density"][...], ds.zones["zone2"]["density"][...])
        assert "zone2/density" in ds and next(iter(ds)) == "zone1/density" and len(ds) == len(list(ds))
        with pytest.raises(UsageError, match="2 zones"):
            ds["density"]
        with pytest.raises(UsageError, match="2 zones"):
            ds.probe_ijk((1, 2, 3))


def test_a_volume_in_xarray_is_what_its_formula_says(scan: str, scans: str) -> None:
    pytest.importorskip("xarray")
    x, y, z = centres()
    with farfield.open(scan) as volume:
        made = volume.to_xarray()
        assert volume.stats()["pages"]["touched"] == 0 and made.dims == ("z", "y", "x")
        assert np.array_equal(made.values, value(x, y, z).astype("f4"))
        for n, name in enumerate("xyz"):
            assert np.allclose(made[name].values, ORIGIN[n] + SPACING[n] * np.arange(DIMS[n]))
            assert made[name].attrs["units"] == "mm"
        at = made.sel(x=11.5, y=-3.5, z=5.0)
        assert float(at) == value(*map(np.float64, (11.5, -3.5, 5.0)))
    with farfield.open(scans) as volume:
        made = volume.to_xarray()
        assert made.dims == ("time", "channel", "z", "y", "x") and np.array_equal(made.values, voxels())
        assert list(made.channel.values) == ["one", "two"] and np.allclose(made.y[1] - made.y[0], SPACING[1])
        two = volume.to_xarray(fields=["two"])
        assert np.array_equal(two.values, voxels()[:, 1]) and two.name == "two"
        assert np.array_equal(volume["two"].to_xarray()[2].values, voxels()[2, 1])
        assert volume.to_xarray(fields=["one", "two"]).dims == made.dims
        with pytest.raises(UsageError, match="name one"):
            volume["two"].to_xarray(fields=["one", "two"])


def test_a_zone_in_pyvista_has_the_points_and_cells_of_its_grid(steady: tuple[Path, Path], series: str) -> None:
    pytest.importorskip("pyvista")
    x, y, z = place()
    with farfield.open(steady[0], q=steady[1]) as ds:
        grid = ds.to_pyvista()
        assert grid.dimensions == (NI, NJ, NK) and grid.n_points == ds.n_points == x.size
        assert grid.n_cells == (NI - 1) * (NJ - 1) * (NK - 1)
        assert np.array_equal(grid.points, np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1))
        assert np.allclose(grid.point_data["density"], density(x, y, z).ravel(), rtol=1e-15)
        assert np.allclose(grid.point_data["momentum"], np.stack([m.ravel() for m in momentum(x, y, z)], axis=1))
        # The first cell has the corners of the first indices along each axis.
        corners = {tuple(p) for p in grid.get_cell(0).points}
        assert corners == {
            tuple(c[k, j, i] for c in (x, y, z)) for k, j, i in itertools.product((0, 1), (0, 1), (0, 1))
        }
        hidden = np.flatnonzero(grid.point_data["iblank"] == 0)
        assert hidden.tolist() == [np.ravel_multi_index((2, 3, 4), x.shape)]
        assert np.flatnonzero(grid.point_data["vtkGhostType"]).tolist() == hidden.tolist()
        assert float(grid.field_data["TimeValue"][0]) == 3.25
        assert "density" not in ds.to_pyvista(fields=["mach"]).point_data
        with pytest.raises(UnknownName):
            ds.to_pyvista(fields=["no_such"])
    with farfield.open(series) as ds:
        late = ds.sel(time=4.0).to_pyvista(fields="density")
        assert np.allclose(late.point_data["density"], density(*place(), 4.0).ravel())
        assert float(late.field_data["TimeValue"][0]) == 4.0


def test_a_volume_in_pyvista_lies_where_it_is(scan: str, scans: str, tmp_path: Path) -> None:
    pytest.importorskip("pyvista")
    x, y, z = centres()
    with farfield.open(scan) as volume:
        image = volume.to_pyvista()
        assert image.dimensions == DIMS and image.n_cells == np.prod([n - 1 for n in DIMS])
        assert np.allclose(image.points, np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1))
        assert np.array_equal(image.point_data["scan"], value(x, y, z).ravel().astype("f4"))
        assert np.allclose(image.bounds, volume.bounds)
    with farfield.open(scans) as volume:
        image = volume.isel(time=2).to_pyvista()
        assert image.point_data.keys() == ["one", "two"]
        assert np.array_equal(image.point_data["two"], voxels()[2, 1].ravel())
        assert volume["one"].to_pyvista().point_data.keys() == ["one"]
    # Axes that are turned, scaled numbers, and one that stands for no value.
    nibabel = pytest.importorskip("nibabel")
    turned = np.array([[0, -2.0, 0, 5], [3.0, 0, 0, -1], [0, 0, 4.0, 2], [0, 0, 0, 1]])
    numbers = np.arange(2 * 3 * 4, dtype="i2").reshape(2, 3, 4)
    made = nibabel.Nifti1Image(numbers, turned)
    made.header.set_slope_inter(2, 10)
    nibabel.save(made, tmp_path / "turned.nii")
    with farfield.open(tmp_path / "turned.nii", volume={"missing": 7}) as volume:
        image = volume.to_pyvista()
        index = np.stack([c.ravel(order="F") for c in np.indices((2, 3, 4))] + [np.ones(24)])
        stored = numbers.ravel(order="F")
        slope, offset = volume.channels[0].scale or (1.0, 0.0)
        truth = np.where(stored == 7, np.nan, slope * stored + offset)
        assert np.allclose(image.points, np.array([volume.space.position_of(p) for p in index[:3].T]))
        assert np.allclose(image.points, (turned @ index)[:3].T)
        assert np.array_equal(next(iter(image.point_data.values())), truth, equal_nan=True)


def test_what_is_larger_than_the_limit_is_not_read(tmp_path: Path) -> None:
    pytest.importorskip("xarray")
    pytest.importorskip("pyvista")
    grid, solution = write(tmp_path, [box(81, 61, 61)])
    head = b"NRRD0004\ntype: double\ndimension: 3\nsizes: 100 100 100\nendian: little\nencoding: raw\n\n"
    (tmp_path / "v.nrrd").write_bytes(head + bytes(8 * 100**3))
    with farfield.open(grid, q=solution, memory_limit="6MiB") as ds:
        with pytest.raises(MemoryLimitError, match=r"zone zone1 as a grid.* MiB.* limit of 6\.0 MiB; take one zone"):
            ds.to_pyvista()
        made = ds.to_xarray()
        with pytest.raises(MemoryLimitError, match=r"what is asked for of zone zone1 takes .*isel\(k=slice"):
            made.momentum.values  # noqa: B018 # it reads
        assert ds.stats()["pages"]["touched"] == 0
        assert made.momentum[:, 3].values.shape == (3, 61, 81) and np.allclose(made.density[3], 1.2)
        assert ds.stats()["peak_bytes"] <= 6 << 20
    with farfield.open(tmp_path / "v.nrrd", memory_limit="6MiB") as volume:
        with pytest.raises(MemoryLimitError, match=r"as an image.*limit of 6\.0 MiB; take a coarser level"):
            volume.to_pyvista()
        with pytest.raises(MemoryLimitError, match=r"what is asked for takes 7\.6 MiB"):
            volume.to_xarray().values  # noqa: B018 # it reads
        assert volume.stats()["pages"]["touched"] == 0 and volume.to_xarray()[5].values.shape == (100, 100)


@pytest.mark.parametrize(("module", "call"), [("xarray", "to_xarray"), ("pyvista", "to_pyvista")])
def test_a_library_that_is_not_there_is_named_with_its_extra(
    module: str, call: str, scan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for source in ("demo:box", scan):
        with farfield.open(source) as data, pytest.raises(ImportError, match=rf"pip install 'farfield\[{module}\]'"):
            getattr(data, call)()


def test_bounds_hold_all_points(steady: tuple[Path, Path], scan: str) -> None:
    with farfield.open(steady[0], q=steady[1]) as ds:
        truth = [end for c in place() for end in (c.min(), c.max())]
        found = ds.bounds
        assert all(a <= b for a, b in zip(found[::2], truth[::2], strict=True))
        assert all(a >= b for a, b in zip(found[1::2], truth[1::2], strict=True))
        assert np.allclose(found, truth, rtol=0.01, atol=1e-12)
    with farfield.open(scan) as volume:
        truth = [end for o, s, n in zip(ORIGIN, SPACING, DIMS, strict=True) for end in (o, o + s * (n - 1))]
        assert np.allclose(volume.bounds, truth) and volume.n_points == np.prod(DIMS)


def test_keys_of_every_kind(steady: tuple[Path, Path], scans: str) -> None:
    with farfield.open(steady[0], q=steady[1]) as ds:
        keys = ds._ipython_key_completions_()
        assert keys[:3] == ["density", "momentum", "energy"] and {"mach", "xyz", "iblank"} <= {*keys}
        assert all(ds[key].name == key for key in keys) and ds.zones["zone1"]._ipython_key_completions_() == keys
        assert len(ds) == len(keys) and list(ds) == keys and "mach" in ds and "no_such" not in ds and ds
        assert ds["zone1/density"].shape == (NK, NJ, NI)
        with pytest.raises(UsageError, match="asked by names of fields"):
            ds[0]
        found = ds.probe_ijk((3, 4, 5), fields=["density"])
        assert found == ds.probe_ijk("zone1", (3, 4, 5), fields=["density"]) and found is not None
        assert found.values["density"] == pytest.approx(density(*(c[4, 3, 2] for c in place())))
    with farfield.open(scans) as volume:
        assert volume._ipython_key_completions_() == volume.fields == ["one", "two"]
        assert volume["two"].fields == ["two"] and "two" in volume and "three" not in volume
        assert len(volume) == 3 and len(volume.isel(time=1)) == 2 and len(volume.isel(time=1)["two"]) == DIMS[2]
        assert all(np.array_equal(part, truth) for part, truth in zip(volume, voxels(), strict=True))
        with pytest.raises(UnknownName, match="three"):
            volume["three"]
        assert list(volume.probe((0, 0, 0), fields=["two"]).values) == ["two"]


def pixels_of(html: str) -> tuple[int, int]:
    found = re.search(r'src="data:image/png;base64,([^"]+)"', html)
    assert found is not None
    data = base64.b64decode(found[1])
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_notebook_shows_text_and_a_small_picture(
    steady: tuple[Path, Path], scan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("farfield.dataset.notebook.PATIENCE_S", 60.0)
    with farfield.open(steady[0], q=steady[1], memory_limit="8MiB") as ds:
        html = ds._repr_html_()
        assert "&lt;farfield.Dataset" in html and "density" in html and max(pixels_of(html)) == 192
        assert len(html) < 200_000 and ds.stats()["peak_bytes"] <= 8 << 20
    with farfield.open(scan) as volume:
        width, height = pixels_of(volume._repr_html_())
        assert max(width, height) == 192 and min(width, height) >= 24


def test_a_notebook_is_told_what_is_wrong_without_an_error(
    steady: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = farfield.open(steady[0], q=steady[1])
    ds.close()
    assert "<img" not in ds._repr_html_() and "farfield.Dataset" in ds._repr_html_()
    # A picture that takes too long is left out.
    monkeypatch.setattr("farfield.dataset.notebook.PATIENCE_S", -1.0)
    with farfield.open(steady[0], q=steady[1]) as ds:
        assert "<img" not in ds._repr_html_() and "density" in ds._repr_html_()
    monkeypatch.undo()
    # A grid without fields, and files that were cut off since.
    with farfield.open(steady[0]) as bare:
        assert "farfield.Dataset" in bare._repr_html_()
    grid, solution = write(tmp_path, [box(41, 31, 21)])
    with farfield.open(grid, q=solution) as ds:
        solution.write_bytes(solution.read_bytes()[:2000])
        assert "farfield.Dataset" in ds._repr_html_()


def test_an_open_dataset_is_drawn_as_it_is(
    steady: tuple[Path, Path], scan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives the picture of its source, and Python opens nothing for it."""

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("opened again")

    flow = f"{steady[0]}+q={steady[1]}"
    for n, source in enumerate((flow, scan)):
        farfield.render(source, tmp_path / f"{n}.png", size=(64, 48))
        with farfield.open(source) as data, monkeypatch.context() as patch:
            for module in ("pictures.rendering", "pictures.opened_volumes", "scene.defaults", "volume.opening"):
                for name in ("open_volume", "open_source", "open_native"):
                    patch.setattr(f"farfield.{module}.{name}", refused, raising=False)
            data.render(tmp_path / f"{n}_open.png", size=(64, 48))
            farfield.render(data, tmp_path / f"{n}_again.png", size=(64, 48))
        made = {path.read_bytes() for path in tmp_path.glob(f"{n}*.png")}
        assert len(made) == 1, source


def test_a_source_is_opened_once_to_be_looked_at(scan: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import farfield.volume.opening as opening
    from farfield import cli

    asked: list[str] = []
    own: Callable[..., Any] = opening.open_native
    monkeypatch.setattr(
        opening, "open_native", lambda source, *a, **b: asked.append(str(source)) or own(source, *a, **b)
    )
    farfield.render(scan, tmp_path / "a.png", size=(64, 48))
    assert asked == [scan]
    assert cli.run(["render", scan, "-o", str(tmp_path / "b.png"), "--size", "64x48", "-q"]) == 0
    assert asked == [scan, scan]
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_what_every_kind_can_do_is_pickled(steady: tuple[Path, Path], scan: str) -> None:
    for source in (f"{steady[0]}+q={steady[1]}", scan):
        with farfield.open(source) as data, pickle.loads(pickle.dumps(data)) as again:
            assert type(again) is type(data) and again.bounds == data.bounds and again.fields == data.fields
