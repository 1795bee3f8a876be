"""Stores are plain Zarr v3: zarr-python, xarray and TensorStore read every array of them exactly, under every codec."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from plot3d_files import Block, box, write

tensorstore = pytest.importorskip("tensorstore", reason="comes with the extra 'peers'")
xarray = pytest.importorskip("xarray", reason="comes with the extra 'peers'")
zarr = pytest.importorskip("zarr", reason="comes with the extra 'peers'")


def steps(zones: list[Block], real: int, folder: Path) -> tuple[Path, list[Path]]:
    """Two steps of those zones, at other times, with noise so that nothing compresses too well."""
    noise = np.random.default_rng(1998)
    for b in zones:
        b.iblank = noise.integers(-2, 3, b.xyz[0].shape).astype("i4")
    grid, solutions = folder / "g.xyz", []
    for n in range(2):
        for b in zones:
            b.q = [(q + 1e-3 * noise.standard_normal(q.shape)).astype(f"f{real}") for q in b.q]
        other, solution = write(folder, zones, stem=f"s{n}", real=real)
        other.rename(grid)
        solutions.append(solution)
    return grid, solutions


def expected(zone: Any) -> dict[str, Any]:
    """Every array of a zone as the package itself gives it, `[t, c, k, j, i]` as the store has them."""
    names = ["xyz", "iblank", "density", "momentum", "energy"]
    return {name: np.asarray(zone[name][...]) for name in names}


@pytest.mark.parametrize(
    ("codec", "layout", "real"), list(itertools.product(("none", "zstd", "lz4"), ("cubed", "flat"), (4, 8)))
)
def test_every_array_of_every_codec(codec: str, layout: str, real: int, tmp_path: Path) -> None:
    # Zones with edges that pages do not divide, in several pages, and one of a single point's thickness.
    zones = [box(23, 11, 9), box(5, 4, 1), box(6, 17, 7)]
    grid, solutions = steps(zones, real, tmp_path)
    store = tmp_path / "s.zarr"
    ff.convert(grid, store, q=solutions, page=4, layout=layout, codec=codec)
    group = zarr.open_group(store, mode="r")
    found = {path: item for path, item in group.members(max_depth=None) if isinstance(item, zarr.Array)}
    assert sum(path.startswith("_farfield/") for path in found) >= 3 * (5 + 1)
    whole = {path: item[...] for path, item in found.items()}
    with ff.open(grid, q=solutions) as ds:
        for step in range(2):
            now = ds.isel(time=step)
            for name, zone in now.zones.items():
                for array, values in expected(zone).items():
                    mine = whole[f"{name}/{array}"]
                    assert mine.dtype == values.dtype
                    assert np.array_equal(mine[step if len(mine) == 2 else 0], values), (name, array, step)
                assert [len(whole[f"{name}/{a}"]) for a in ("xyz", "iblank", "energy")] == [1, 1, 2]
    for path, values in whole.items():
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(store / path)}}
        theirs = tensorstore.open(spec, read=True).result().read().result()
        assert theirs.dtype == values.dtype and theirs.tobytes() == values.tobytes(), path
    groups = sorted({path.rpartition("/")[0] for path in whole})
    assert len(groups) == 6
    for name in groups:
        data = xarray.open_zarr(store, group=name, consolidated=False, decode_cf=False)
        names = {path.rpartition("/")[2] for path in whole if path.rpartition("/")[0] == name}
        assert set(data.variables) == names
        for array in names:
            assert data[array].values.tobytes() == whole[f"{name}/{array}"].tobytes(), (name, array)
        if not name.startswith("_"):
            assert data["momentum"].dims == ("time", "component", "k", "j", "i")
            assert data["density"].attrs["long_name"]


@pytest.mark.parametrize("decode_times", [True, False])
@pytest.mark.parametrize("timing", ["headers", "seconds", "counted"])
def test_times_in_xarray(timing: str, decode_times: bool, tmp_path: Path) -> None:
    """The coordinate is there, in double precision, and no reader makes dates or durations of it."""
    times = [0.1, 1 / 3, 7.25]
    for n, time in enumerate(times):
        write(tmp_path, [box(9, 8, 7)], stem=f"s_{n}", time=2.0 if timing == "counted" else time)
    if timing == "seconds":
        (tmp_path / "s_0.p3d.json").write_text('{"reference": {"length": 2, "density": 1.2, "sound_speed": 340}}')
        times = [t * 2 / 340 for t in times]
    if timing == "counted":
        times = [0.0, 1.0, 2.0]
    store = tmp_path / "s.zarr"
    ff.convert(f"{tmp_path}/s_0.xyz+q={tmp_path}/s_*.q", store, page=4)
    data = xarray.open_zarr(store, group="zone1", consolidated=False, decode_times=decode_times)
    assert data.indexes["time"].dtype == np.float64
    assert np.allclose(data["time"].values, times, rtol=1e-15, atol=0)
    assert data["time"].attrs["axis"] == "T" and data["time"].attrs["units"] == ("s" if timing == "seconds" else "1")
    assert data["time"].attrs.get("standard_name") == (None if timing == "counted" else "time")
    # Grids that do not move are not along it.
    assert data["density"].dims[0] == "time" and data["xyz"].dims[0] == "steady"
    last = data["density"].sel(time=times[2], method="nearest").values
    with ff.open(store) as mine:
        assert np.array_equal(mine.times, data["time"].values)
        at = mine.isel(time=2) if timing == "counted" else mine.sel(time=times[2])
        assert np.array_equal(at["density"][:], last)
