"""`farfield convert` of volumes: every level as NumPy has it, read by zarr-python and TensorStore, and what OME-Zarr says of it."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
import pyramids
from farfield.errors import DataError, UsageError
from running import Command, Json, begun, start
from test_bad_luck import digest

zarr = pytest.importorskip("zarr", reason="comes with the extra 'peers'")
tensorstore = pytest.importorskip("tensorstore", reason="comes with the extra 'peers'")

Array = np.ndarray[Any, Any]


def raw(path: Path, data: Array) -> dict[str, Any]:
    """Numbers without a header, and what has to be said of them."""
    data.tofile(path)
    return {"shape": data.shape[::-1], "dtype": str(data.dtype), "byte_order": "little"}


def ome(path: Path, data: Array, axes: str, spacing: dict[str, float], **attributes: Any) -> None:
    """An OME-Zarr 0.4 image of one level."""
    kinds = {"t": "time", "c": "channel"}
    units = {"t": "second", "z": "micrometer", "y": "micrometer", "x": "micrometer"}
    group = zarr.open_group(path, mode="w", zarr_format=2)
    chunks = tuple(1 if a in "tc" else min(16, n) for a, n in zip(axes, data.shape, strict=True))
    group.create_array("0", data=data, chunks=chunks)
    listed = [{"name": a, "type": kinds.get(a, "space"), **({"unit": units[a]} if a in units else {})} for a in axes]
    scale = {"type": "scale", "scale": [spacing.get(a, 1.0) for a in axes]}
    datasets = [{"path": "0", "coordinateTransformations": [scale]}]
    group.attrs["multiscales"] = [{"version": "0.4", "name": "a", "axes": listed, "datasets": datasets}]
    for key, value in attributes.items():
        group.attrs[key] = value


def read_by_both(store: Path, level: int) -> Array:
    """[t, c, z, y, x] of a level, as zarr-python and TensorStore read it."""
    found = np.asarray(zarr.open_group(store, mode="r")[str(level)][...])
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{store}/{level}/"}}
    other = tensorstore.open(spec, open=True).result().read().result()
    np.testing.assert_array_equal(found, other)
    return found


def check_levels(store: Path, wanted: list[Array]) -> None:
    """Levels of [t, c, z, y, x]."""
    for n, values in enumerate(wanted):
        found = read_by_both(store, n)
        assert found.dtype == values.dtype and found.shape == values.shape, (n, found.shape, values.shape)
        np.testing.assert_array_equal(found, values, err_msg=f"level {n}")
    assert not (store / str(len(wanted))).exists()
    ranges = list((store / "_farfield").glob("ranges_*_0_0"))
    assert len(ranges) == len(wanted), "every level has ranges of its pages"


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64", "float32", "float64"])
@pytest.mark.parametrize(("codec", "layout"), [("none", "cubed"), ("zstd", "flat"), ("lz4", "cubed")])
def test_scalars(dtype: str, codec: str, layout: str, tmp_path: Path) -> None:
    noise = np.random.default_rng(5)
    data = noise.integers(0, 200, (37, 70, 131)).astype(dtype)
    if dtype == "float32":
        data[noise.random(data.shape) < 0.1] = np.nan
    if dtype == "uint64":
        data += np.uint64(2**63)  # beyond what a double holds
    options = raw(tmp_path / "a.raw", data)
    made = farfield.convert(tmp_path / "a.raw", tmp_path / "a.zarr", volume=options, page=8, codec=codec, layout=layout)
    assert made["downsample"] == "mean" and not made["downsample_asked"]
    wanted = pyramids.levels(data, (1, 1, 1))
    assert [level["dims"] for level in made["levels"]] == [list(w.shape[::-1]) for w in wanted]
    check_levels(tmp_path / "a.zarr", [w[None, None] for w in wanted])
    assert farfield.validate(tmp_path / "a.zarr")["ok"]
    with farfield.open(tmp_path / "a.zarr") as ds:
        for n, values in enumerate(wanted):
            np.testing.assert_array_equal(ds.level(n)[...], values)


def test_labels(tmp_path: Path) -> None:
    noise = np.random.default_rng(6)
    data = noise.integers(0, 4, (20, 41, 130)).astype("uint32") + np.uint32(2**31)
    options = {**raw(tmp_path / "a.raw", data), "kind": "labels", "spacing": (1.0, 1.0, 1.9)}
    made = farfield.convert(tmp_path / "a.raw", tmp_path / "a.zarr", volume=options, page=16)
    assert made["downsample"] == "majority" and made["kind"] == "labels"
    wanted = pyramids.levels(data, (1.9, 1, 1), "majority")
    assert wanted[1].shape == (20, 21, 65), "thick layers are halved later"
    check_levels(tmp_path / "a.zarr", [w[None, None] for w in wanted])
    attributes = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())["attributes"]
    assert "image-label" in attributes["ome"]
    with farfield.open(tmp_path / "a.zarr") as ds:
        assert ds.kind == "labels"
    # And as the user says.
    farfield.convert(tmp_path / "a.raw", tmp_path / "n.zarr", volume=options, downsample="nearest", levels=2)
    check_levels(tmp_path / "n.zarr", [data[None, None], data[None, None, :, ::2, ::2]])
    # What is the first of those that it covers lies where that lies.
    with farfield.open(tmp_path / "n.zarr") as ds:
        assert [level["origin"] for level in ds.info()["levels"]] == [[0.0, 0.0, 0.0]] * 2
    said = json.loads((tmp_path / "n.zarr" / "zarr.json").read_text())["attributes"]["ome"]["multiscales"][0]
    assert [d["coordinateTransformations"][1]["translation"] for d in said["datasets"]] == [[0.0] * 5] * 2


def test_colours_from_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    data = np.random.default_rng(7).integers(0, 256, (9, 33, 80, 3)).astype("uint8")
    (tmp_path / "slices").mkdir()
    for n, plane in enumerate(data):
        image.fromarray(plane).save(tmp_path / "slices" / f"{n:03}.png")
    made = farfield.convert(tmp_path / "slices", tmp_path / "a.zarr", page=8, levels=3)
    assert made["kind"] == "rgb" and made["channels"] == ["red", "green", "blue"]
    first = np.moveaxis(data, -1, 0)[None]
    check_levels(tmp_path / "a.zarr", pyramids.levels(first, (1, 1, 1), most=3))
    with farfield.open(tmp_path / "a.zarr") as ds:
        np.testing.assert_array_equal(ds[...], data)
    # A picture in the folder would be one more slice.
    with pytest.raises(UsageError, match="lies in"):
        farfield.render(
            {"source": str(tmp_path / "slices"), "objects": [{"kind": "outline"}]}, tmp_path / "slices/view.png"
        )


def test_channels_and_times_keep_their_places(tmp_path: Path) -> None:
    """All that OME-Zarr says of each level, and all that our own reader says again."""
    data = np.random.default_rng(8).integers(0, 4000, (3, 2, 12, 40, 90)).astype("uint16")
    window = {"min": 0, "max": 65535}
    omero = {
        "channels": [
            {"label": "DAPI", "color": "0000FF", "window": {"start": 5, "end": 900, **window}},
            {"label": "GFP", "color": "00FF00", "window": {"start": 1, "end": 70, **window}},
        ]
    }
    ome(tmp_path / "in.zarr", data, "tczyx", {"t": 2.5, "z": 2.0, "y": 0.5, "x": 0.5}, omero=omero)
    farfield.convert(tmp_path / "in.zarr", tmp_path / "a.zarr", page=16, levels=3)
    check_levels(tmp_path / "a.zarr", pyramids.levels(data, (2.0, 0.5, 0.5), most=3))
    said = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())["attributes"]["ome"]
    assert said["version"] == "0.5"
    (image,) = said["multiscales"]
    assert [(a["name"], a["type"], a.get("unit")) for a in image["axes"]] == [
        ("t", "time", "second"), ("c", "channel", None), ("z", "space", "micrometer"), ("y", "space", "micrometer"),
        ("x", "space", "micrometer")]  # fmt: skip
    steps = [d["coordinateTransformations"] for d in image["datasets"]]
    assert [s[0] for s in steps] == [{"type": "scale", "scale": [2.5, 1.0, 2.0, f * 0.5, f * 0.5]} for f in (1, 2, 4)]
    # Centres of voxels: one of f by f lies half of f - 1 of the finest farther on.
    assert [s[1] for s in steps] == [
        {"type": "translation", "translation": [0.0, 0.0, 0.0, (f - 1) / 2 * 0.5, (f - 1) / 2 * 0.5]} for f in (1, 2, 4)
    ]
    assert [c["label"] for c in said["omero"]["channels"]] == ["DAPI", "GFP"]
    with farfield.open(tmp_path / "in.zarr") as source, farfield.open(tmp_path / "a.zarr") as ds:
        assert ds.shape == source.shape == (3, 2, 12, 40, 90)
        assert [(c.name, c.color, c.limits) for c in ds.channels] == [
            (c.name, c.color, c.limits) for c in source.channels
        ]
        assert ds.info()["times"] == source.info()["times"] == [0.0, 2.5, 5.0]
        np.testing.assert_array_equal(ds.isel(time=2).channel("GFP")[...], data[2, 1])


def test_where_a_scan_lies(tmp_path: Path) -> None:
    """Directions, anatomy, scale and missing numbers come through, and each level lies where its voxels do."""
    nib = pytest.importorskip("nibabel")
    data = np.random.default_rng(9).integers(-1000, 1000, (70, 30, 20)).astype("int16")
    turned = np.array([[0, -1.5, 0, 10], [0.8, 0, 0.1, -20], [0, 0, 2.0, 5], [0, 0, 0, 1.0]])
    image = nib.Nifti1Image(data, turned)
    image.header.set_slope_inter(2.0, -7.0)
    image.header.set_xyzt_units("mm")
    nib.save(image, tmp_path / "a.nii.gz")
    farfield.convert(tmp_path / "a.nii.gz", tmp_path / "a.zarr", levels=3, page=8)
    with farfield.open(tmp_path / "a.nii.gz") as source, farfield.open(tmp_path / "a.zarr") as ds:
        assert (ds.direction, ds.anatomy, ds.length_unit) == (source.direction, source.anatomy, source.length_unit)
        np.testing.assert_array_equal(ds[...], source[...])
        assert ds.channels[0].scale == source.channels[0].scale
        # The centre of the first voxel of a level is the mean of those that it is made of.
        for n in (1, 2):
            step = [round(a / b) for a, b in zip(ds.level(n).spacing, source.spacing, strict=True)]
            own = np.mean([source.space.position_of(np.array(at, float)) for at in np.ndindex(*step)], axis=0)
            np.testing.assert_allclose(ds.level(n).space.origin, own, atol=1e-9)
        place = source.space.position_of(np.array([3.0, 4.0, 5.0]))
        assert ds.probe(place) == source.probe(place)


def test_channels_of_several_types_get_one_that_holds_them(tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util import numpy_support

    noise = np.random.default_rng(10)
    small, large = (
        noise.integers(0, 200, (9, 10, 11)).astype("uint8"),
        noise.integers(-9000, 9000, (9, 10, 11)).astype("int16"),
    )
    image = vtk.vtkImageData()
    image.SetDimensions(11, 10, 9)
    for name, values in (("a", small), ("b", large)):
        array = numpy_support.numpy_to_vtk(values.reshape(-1), deep=True)
        array.SetName(name)
        image.GetPointData().AddArray(array)
    writer = vtk.vtkXMLImageDataWriter()
    writer.SetFileName(str(tmp_path / "a.vti"))
    writer.SetInputData(image)
    writer.Write()
    with farfield.open(tmp_path / "a.vti") as source:
        names = [c.name for c in source.channels]
        wanted = source[...]
    made = farfield.convert(tmp_path / "a.vti", tmp_path / "a.zarr")
    with farfield.open(tmp_path / "a.zarr") as ds:
        assert [c.name for c in ds.channels] == names == made["channels"]
        np.testing.assert_array_equal(ds[...], wanted)


def test_a_store_is_cut_anew(tmp_path: Path) -> None:
    """Of a store a store, in its own place too, with the levels and pages that are asked for now."""
    data = np.random.default_rng(11).integers(0, 255, (30, 40, 70)).astype("uint8")
    options = raw(tmp_path / "a.raw", data)
    farfield.convert(tmp_path / "a.raw", tmp_path / "a.zarr", volume=options, page=8)
    with pytest.raises(UsageError, match="is an input"):
        farfield.convert(tmp_path / "a.zarr", tmp_path / "a.zarr", page=16)
    with pytest.raises(DataError, match="--overwrite"):
        farfield.convert(tmp_path / "a.raw", tmp_path / "a.zarr", volume=options, page=16)
    labels = tmp_path / "a.zarr" / "labels"
    labels.mkdir()
    with pytest.raises(DataError, match="it also holds labels, which a conversion of the image does not carry over"):
        farfield.convert(tmp_path / "a.zarr", tmp_path / "a.zarr", page=16, codec="zstd", overwrite=True)
    labels.rmdir()
    farfield.convert(tmp_path / "a.zarr", tmp_path / "a.zarr", page=16, codec="zstd", overwrite=True)
    check_levels(tmp_path / "a.zarr", [w[None, None] for w in pyramids.levels(data, (1, 1, 1))])
    assert zarr.open_group(tmp_path / "a.zarr", mode="r")["0"].chunks[-1] in (14, 16, 18)


@pytest.mark.parametrize("kind", ["tiff", "ome-tiff", "hdf5", "bool", "half", "one large chunk"])
def test_whatever_opens_converts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    noise = np.random.default_rng(14)
    data, source = noise.integers(0, 4000, (20, 50, 70)).astype("uint16"), tmp_path / "in.zarr"
    if kind == "tiff":
        source = tmp_path / "in.tif"
        pytest.importorskip("tifffile").imwrite(source, data, compression="deflate", photometric="minisblack")
    elif kind == "ome-tiff":
        source = tmp_path / "in.ome.tif"
        several = noise.integers(0, 255, (2, 3, 20, 50, 70)).astype("uint8")
        pytest.importorskip("tifffile").imwrite(source, several, metadata={"axes": "TCZYX"}, tile=(32, 32))
    elif kind == "hdf5":
        source = tmp_path / "in.h5"
        with pytest.importorskip("h5py").File(source, "w") as file:
            file.create_dataset("x/y", data=data.astype("f8"), chunks=(8, 8, 8), compression="gzip", shuffle=True)
    elif kind == "one large chunk":
        group = zarr.open_group(source, mode="w", zarr_format=2)
        group.create_array("v", data=data[:, :, :69].astype(">i4"), chunks=(100, 100, 100), compressors=None)
    else:
        group = zarr.open_group(source, mode="w", zarr_format=3)
        group.create_array("v", data=data > 2000 if kind == "bool" else data.astype("f2"), chunks=(8, 8, 8))
    farfield.convert(source, tmp_path / "a.zarr", page=16, memory_limit="16MiB")
    with farfield.open(source) as there, farfield.open(tmp_path / "a.zarr") as ds:
        assert ds.shape == there.shape and ds.dtype == there.dtype
        assert [c.name for c in ds.channels] == [c.name for c in there.channels]
        np.testing.assert_array_equal(ds[...], there[...])


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty megabytes, without a header."""
    path = tmp_path_factory.mktemp("volume") / "large_512x320x320_uint8.raw"
    noise = np.random.default_rng(12)
    waves = np.add.outer(np.add.outer(np.arange(320) % 90, np.arange(320) % 70), np.arange(512) % 80)
    (waves + noise.integers(0, 8, waves.shape)).astype("uint8").tofile(path)
    return path


@pytest.mark.parametrize("limit", ["16MiB", "48MiB"])
def test_memory_stays_within_the_limit(limit: str, large: Path, process_json: Json, tmp_path: Path) -> None:
    made = process_json("convert", large, tmp_path / "a.zarr", "--memory-limit", limit, "--codec", "zstd")
    assert made["peak_bytes"] <= made["limit_bytes"] == int(limit[:2]) << 20
    assert made["resident_peak_bytes"] <= made["limit_bytes"] + made["base_bytes"]
    assert made["bytes_in"] == 512 * 320 * 320
    again = process_json("validate", tmp_path / "a.zarr", "--memory-limit", limit)
    assert again["ok"] and again["resident_peak_bytes"] <= again["limit_bytes"] + again["base_bytes"]


def test_the_same_bytes_whatever_the_means(large: Path, ff: Command, tmp_path: Path) -> None:
    first = tmp_path / "a.zarr"
    ff("convert", large, first, "--page", 32)
    for n, more in enumerate((("--memory-limit", "12MiB", "--workers", 1), ("--memory-limit", "1GiB", "--workers", 7))):
        other = tmp_path / f"{n}.zarr"
        ff("convert", large, other, "--page", 32, *more)
        assert digest(other) == digest(first)


def test_killed_at_any_moment(large: Path, ff: Command, tmp_path: Path) -> None:
    """Either the old store, whole, or what `--resume` completes to the bytes of a run that nobody disturbed."""
    sign, wanted, target = tmp_path / "events.json", tmp_path / "wanted.zarr", tmp_path / "a.zarr"
    words = ("--codec", "lz4", "--page", 16, "--events", sign)
    child = start("convert", large, wanted, *words)
    begun(child, sign)
    before = time.monotonic()
    _, err = child.communicate(timeout=300)
    took = time.monotonic() - before
    assert child.returncode == 0, err
    new = digest(wanted)
    moments, killed = random.Random(2003), 0
    for n in range(16):
        if n >= 4 and killed >= 2:
            break
        old: dict[str, bytes] | None = None
        if target.exists():
            subprocess.run(["rm", "-r", target], check=True)
        if n % 2:
            ff("convert", large, target, "--levels", 1, "--codec", "zstd")
            old = digest(target)
        for again in range(2):
            sign.unlink(missing_ok=True)
            child = start("convert", large, target, *words, "--overwrite", *(["--resume"] if again else []))
            begun(child, sign)
            moment = moments.random() * took
            time.sleep(moment)
            child.kill()
            _, err = child.communicate(timeout=60)
            assert child.returncode in (0, -signal.SIGKILL), err
            if child.returncode != 0:
                killed += 1
            elif not again:
                # Runs after the first may be much faster.
                took = min(took, moment)
            if target.exists():
                assert digest(target) in (old, new)
            else:
                assert old is None
        ff("convert", large, target, *words, "--overwrite", "--resume")
        assert digest(target) == new and not Path(f"{target}.partial").exists()
    assert killed >= 2, f"only {killed} of the kills hit a run"


def test_resume_asks_for_the_same_source(tmp_path: Path) -> None:
    """A chunk of a foreign store that was written again meanwhile does not go together with what was converted before."""
    data = np.random.default_rng(13).integers(0, 255, (40, 40, 40)).astype("uint8")
    ome(tmp_path / "in.zarr", data, "zyx", {})
    farfield.convert(tmp_path / "in.zarr", tmp_path / "a.zarr", codec="zstd")
    assert farfield.convert(tmp_path / "in.zarr", tmp_path / "a.zarr", codec="zstd", resume=True)["resumed"]
    chunk = next(
        p for p in sorted((tmp_path / "in.zarr" / "0").rglob("*")) if p.is_file() and not p.name.startswith(".")
    )
    chunk.write_bytes(chunk.read_bytes())
    with pytest.raises(DataError, match="another source"):
        farfield.convert(tmp_path / "in.zarr", tmp_path / "a.zarr", codec="zstd", resume=True)


def test_a_full_disk_is_said(large: Path, ff: Command, tmp_path: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    child = start("convert", large, tmp_path / "a.zarr", "--page", 32, preexec_fn=small)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 1 and str(tmp_path / "a.zarr") in err and "Traceback" not in err, err
    assert not (tmp_path / "a.zarr").exists()
    ff("convert", large, tmp_path / "a.zarr", "--page", 32, "--resume")
    ff("validate", tmp_path / "a.zarr")


def test_a_dry_run_writes_nothing(large: Path, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    would = ff_json("convert", large, tmp_path / "a.zarr", "--dry-run")
    assert not os.listdir(tmp_path) and would["seconds_estimated"] > 0
    made = ff_json("convert", large, tmp_path / "a.zarr")
    assert would["pages_written"] == made["pages_written"] and would["levels"] == made["levels"]
    assert abs(would["bytes_out"] - made["bytes_out"]) < 0.02 * made["bytes_out"]
    said = ff("convert", large, tmp_path / "b.zarr", "--dry-run").stdout
    assert "made by  mean (the default where voxels are no labels)" in said


def test_small_pictures_read_coarse_levels(large: Path, ff_json: Json, tmp_path: Path) -> None:
    farfield.convert(large, tmp_path / "a.zarr", page=16)
    pages = [level["pages"] for level in ff_json("info", tmp_path / "a.zarr")["levels"]]
    small = ff_json("render", tmp_path / "a.zarr", "--size", "48x32", "-o", tmp_path / "s.png")
    big = ff_json("render", tmp_path / "a.zarr", "--size", "900x600", "-o", tmp_path / "b.png")
    # A picture of few pixels takes the coarsest level; beside it some pages are looked at for the colours.
    assert small["pages"]["touched"] < 2 * pages[-1] + pages[-2] < big["pages"]["touched"]


def test_what_is_said_of_bad_options(large: Path, flow: str, ff: Command, tmp_path: Path) -> None:
    for words, said in [
        (("--levels", 0), "at least one level"),
        (("--downsample", "median"), "mean, majority, nearest"),
        (("--append",), "remove append"),
        (("--fields", "a"), "remove fields"),
        (("--plot3d-zones", "multi"), "remove plot3d"),
    ]:
        assert said in ff("convert", large, tmp_path / "a.zarr", *words, ok=(2,)).stderr
    assert "has no levels" in ff("convert", flow, tmp_path / "a.zarr", "--levels", 2, ok=(2,)).stderr
    assert (
        "not a volume; remove the options of volumes"
        in ff("convert", flow, tmp_path / "a.zarr", "--length-unit", "mm", ok=(2,)).stderr
    )
    with pytest.raises(UsageError, match="a volume has no zones; remove q"):
        farfield.convert(large, tmp_path / "a.zarr", q="a.q")
    assert not (tmp_path / "a.zarr").exists()


def test_labels_that_are_not_taken_along_are_said(tmp_path: Path, ff: Command) -> None:
    farfield.convert(
        tmp_path / "a.raw", tmp_path / "a.zarr", volume=raw(tmp_path / "a.raw", np.zeros((4, 5, 6), np.uint8))
    )
    group = zarr.create_group(tmp_path / "a.zarr" / "labels")
    group.attrs["ome"] = {"version": "0.5", "labels": ["cells"]}
    said = ff("convert", tmp_path / "a.zarr", tmp_path / "b.zarr").stderr
    assert "labels belong to it" in said and "a.zarr/labels/cells" in said and "convert each by itself" in said
