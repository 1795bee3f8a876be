"""Open volumes: indexing, views, probes, what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fake_volume
import farfield as ff
from farfield import cli
from farfield.errors import UnknownName, UsageError

nibabel = pytest.importorskip("nibabel")


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_volume.stand_in(monkeypatch)
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))


def values(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(shape), dtype="i2").reshape(shape)


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A scan of 5 x 6 x 7 voxels, RAS, with a slope."""
    image = nibabel.Nifti1Image(
        values(7, 6, 5).T, np.array([[-2, 0, 0, 10], [0, 3, 0, 20], [0, 0, 4, 30], [0, 0, 0, 1.0]])
    )
    image.header.set_slope_inter(2, -100)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, tmp_path / "a.nii")
    return tmp_path / "a.nii"


@pytest.fixture
def moving(tmp_path: Path) -> Path:
    """A store of 3 steps and 2 channels."""
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(
        tmp_path / "m.zarr",
        shape=(3, 2, 4, 5, 6),
        chunks=(1, 1, 2, 3, 4),
        dtype="i2",
        dimension_names=list("tczyx"),
        fill_value=-1,
    )
    made[...] = values(3, 2, 4, 5, 6)
    return tmp_path / "m.zarr"


INDICES: list[Any] = [
    ..., 3, -1, slice(1, 4), (slice(None), 2), (..., 1), (slice(None, None, 2), 0, slice(None, None, -1)), (slice(5, 1, -2),
    slice(4, 0, -1)), (2, 3, 4), slice(3, 3), (slice(6, None, -1), slice(1, 5, 3), -2),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing(index: Any, scan: Path) -> None:
    with ff.open(scan) as volume:
        assert (volume.shape, volume.dims, volume.dtype) == ((7, 6, 5), ("z", "y", "x"), np.dtype("i2"))
        found = volume[index]
        assert np.array_equal(found, values(7, 6, 5)[index]) and found.shape == values(7, 6, 5)[index].shape


@pytest.mark.parametrize(
    "index", [..., (1, 0, 2), (slice(None, None, 2), 1), (slice(None), slice(None), 3), (..., slice(4, 1, -1))], ids=str
)
def test_steps_and_channels(index: Any, moving: Path) -> None:
    whole = values(3, 2, 4, 5, 6)
    volume = ff.open(moving)
    assert volume.dims == ("time", "channel", "z", "y", "x") and volume.shape == whole.shape
    assert np.array_equal(volume[index], whole[index])
    now = volume.isel(time=1).channel(1)
    assert now.dims == ("z", "y", "x") and np.array_equal(now[...], whole[1, 1])
    assert np.array_equal(volume.isel(time=slice(1, 3)).channel("m.zarr 0")[...], whole[1:, 0])
    with pytest.raises(UnknownName, match=r"no channel named 'red'; there are: m\.zarr 0, m\.zarr 1"):
        volume.channel("red")
    with pytest.raises(UsageError, match="there is no level 1; there is 1, counted from 0"):
        volume.level(1)
    with pytest.raises(UsageError, match="steps are only numbered"):
        volume.sel(time=1.0)


def test_large_reads_go_by_layers(scan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import farfield.volume.dataset as module

    monkeypatch.setattr(module, "SLAB", 130)
    volume = ff.open(scan)
    asked: list[tuple[int, int]] = []
    read = volume._native.read_box

    def noted(level: int, channel: int, lo: Any, hi: Any, step: int) -> Any:
        asked.append((lo[2], hi[2]))
        return read(level, channel, lo, hi, step)

    monkeypatch.setattr(volume._native, "read_box", noted)
    assert np.array_equal(volume[...], values(7, 6, 5)) and asked == [(0, 2), (2, 4), (4, 6), (6, 7)]
    asked.clear()
    assert np.array_equal(volume[::3], values(7, 6, 5)[::3]) and asked == [(0, 1), (3, 4), (6, 7)]


def test_probe(scan: Path) -> None:
    volume = ff.open(scan)
    data = values(7, 6, 5)
    found = volume.probe_ijk((2, 3, 4))
    assert found is not None and found.values == {"a": 2.0 * data[3, 2, 1] - 100} and found.position == (8, 26, 42)
    between = volume.probe((7.5, 27, 44))
    assert between is not None and np.allclose(between.ijk, (2.25, 10 / 3, 4.5))
    assert np.isclose(between.values["a"], 2 * (1.25 + 5 * (7 / 3) + 30 * 3.5) - 100)
    assert volume.probe((11, 20, 30)) is None and volume.probe_ijk((5.01, 1, 1)) is None
    with pytest.raises(UsageError, match="three finite numbers"):
        volume.probe((1, 2))


def test_labels_are_not_mixed(scan: Path) -> None:
    found = ff.open(scan, volume={"kind": "labels"}).probe_ijk((2.4, 3.4, 4.6))
    assert found is not None and found.values == {"a": 2.0 * values(7, 6, 5)[4, 2, 1] - 100}


def test_numbers_of_64_bits_keep_their_digits(tmp_path: Path) -> None:
    """Also where nothing says that they are labels: at a voxel nothing is interpolated."""
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(tmp_path / "a.zarr", shape=(2, 2, 2), chunks=(2, 2, 2), dtype="u8")
    made[...] = np.arange(8, dtype="u8").reshape(2, 2, 2) + 2**63 + 1
    volume = ff.open(tmp_path / "a.zarr")
    assert [volume.probe_ijk((i, 1, 2)).values["a.zarr"] for i in (1, 2)] == [2**63 + 5, 2**63 + 6]
    assert volume.probe_ijk((1.5, 1, 1)).values["a.zarr"] == float(2**63)


def test_missing_values(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    data = np.arange(60.0).reshape(3, 4, 5)
    data[1, 2, 3] = np.nan
    made = xarray.Dataset({"u": (("z", "y", "x"), data)})
    made.to_zarr(tmp_path / "a.zarr", zarr_format=2, encoding={"u": {"dtype": "i2", "_FillValue": -7}})
    volume = ff.open(tmp_path / "a.zarr")
    assert volume[1, 2, 3] == -7
    found = volume.probe_ijk((4, 3, 2))
    assert found is not None and np.isnan(found.values["u"]) and found.note == "u has no value there"
    lazy = volume.to_xarray()
    assert np.isnan(lazy[1, 2, 3]) and np.array_equal(lazy.values, data, equal_nan=True)


def test_xarray(scan: Path, moving: Path) -> None:
    pytest.importorskip("xarray")
    lazy = ff.open(moving, volume={"spacing": "1,2,3", "origin": "5,6,7"}).to_xarray()
    assert lazy.dims == ("time", "channel", "z", "y", "x") and lazy["z"].values.tolist() == [7, 10, 13, 16]
    assert np.array_equal(
        lazy.isel(time=1, z=slice(1, 3)).sel(channel="m.zarr 1").values, values(3, 2, 4, 5, 6)[1, 1, 1:3]
    )
    turned = ff.open(scan).to_xarray()
    assert "x" not in turned.coords or turned["x"].values.tolist() == [10, 8, 6, 4, 2]
    assert turned.attrs["anatomy"] == "RAS" and np.array_equal(turned[0, 0].values, 2.0 * np.arange(5) - 100)


def test_repr_and_info(scan: Path) -> None:
    volume = ff.open(scan)
    text = repr(volume)
    assert (
        "NIfTI-1" in text
        and "5 x 6 x 7 (x, y, z), scalar int16; arrays are (z, y, x)" in text
        and "2 x 3 x 4 mm; i to L, j to A, k to S" in text
    )
    info = volume.info()
    json.dumps(info, allow_nan=False)
    assert (
        info["box"] == [[2, 20, 30], [10, 35, 54]]
        and info["orientation"] == "LAS"
        and info["channels"][0]["scale"] == [2, -100]
    )


def test_options_go_to_what_they_are_for(scan: Path) -> None:
    with pytest.raises(UsageError, match="a volume has no zones; remove q"):
        ff.open(scan, q="a.q")
    with pytest.raises(UsageError, match="no option 'size' of volumes; there are: shape, dtype"):
        ff.open(scan, volume={"size": 3})


def test_command_line(scan: Path, moving: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["info", str(scan)]) == 0
    text = capsys.readouterr().out
    assert "volume   5 x 6 x 7 voxels, 210; scalar, int16" in text
    assert "spacing  2 x 3 x 4 mm; i to L, j to A, k to S" in text
    assert "box      x (L to R) 2..10  y (P to A) 20..35  z (I to S) 30..54  [mm]" in text
    assert "a  int16    [1]  2 x stored - 100" in text and "0  5 x 6 x 7  by 2 x 3 x 4  pages 4 x 4 x 4: 8" in text
    assert cli.run(["info", str(moving), "--json", "--spacing", "0.5,0.5,2"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["spacing"] == [0.5, 0.5, 2] and len(info["times"]) == 3 and info["what"] == "volume"
    assert cli.run(["probe", str(scan), "8", "26", "42"]) == 0
    text = capsys.readouterr().out
    assert (
        "ijk       2 3 4" in text
        and "position  8 26 42 [mm]  x (L to R), y (P to A), z (I to S)" in text
        and "a  102 [1]" in text
    )
    assert cli.run(["probe", str(moving), "--ijk", "1", "1", "1", "--step", "2", "--fields", "m.zarr 1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"] == {"m.zarr 1": 600}
    assert cli.run(["probe", str(scan), "1000", "0", "0"]) == 1
    assert "1000 0 0 is outside of" in capsys.readouterr().err
    assert cli.run(["info", str(scan), "--plot3d-byte-order", "big"]) == 2
    assert "has no zones" in capsys.readouterr().err


def test_raw_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.dat"
    path.write_bytes(values(4, 5, 6).astype(">i2").tobytes())
    assert (
        cli.run(
            ["probe", str(path), "--ijk", "2", "1", "1", "--shape", "6x5x4", "--dtype", "int16", "--byte-order", "big"]
        )
        == 0
    )
    assert "a  1 [1]" in capsys.readouterr().out
    assert cli.run(["info", str(path), "--shape", "6x5x3", "--dtype", "int16"]) == 1
    assert "--header-bytes" in capsys.readouterr().err


def test_conversions_are_in_the_cache(scan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import gzip

    (tmp_path / "b.nii.gz").write_bytes(gzip.compress(scan.read_bytes()))
    assert cli.run(["info", str(tmp_path / "b.nii.gz")]) == 0
    assert "note: " in (said := capsys.readouterr().err) and "is converted once: 420 bytes go to" in said
    assert cli.run(["cache", "info", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert entry["part"] == "data" and entry["name"].startswith("b-") and entry["bytes"] == 420
    assert cli.run(["cache", "clear"]) == 0
    assert not list((tmp_path / "cache" / "data").glob("*"))
