"""HDF5, NetCDF-4 and NetCDF classic, against h5py, xarray and SciPy's way of writing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, UnknownName, UsageError
from farfield.sources.parsing import parse
from volume_files import Read

h5py = pytest.importorskip("h5py")
Look = Callable[..., Read]


def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(7).integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["u1", ">i2", "<f4", ">f8", "i8", "f2", "?"])
@pytest.mark.parametrize(
    "how",
    [
        {}, {"chunks": (3, 4, 5)}, {"chunks": (3, 4, 5), "compression": "gzip"},
        {"chunks": (3, 4, 5), "compression": "gzip", "shuffle": True, "fletcher32": True}, {"chunks": (9, 10, 11), "shuffle": True},
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", [0, 1024])
def test_in_place(dtype: str, how: dict[str, Any], before: int, tmp_path: Path, there: Look) -> None:
    data = noise((9, 10, 11), dtype)
    with h5py.File(tmp_path / "a.h5", "w", userblock_size=before) as file:
        file.create_dataset("deep/data", data=data, **how)
    found = there(tmp_path / "a.h5")
    assert np.array_equal(found.numbers(), data) and found.said == [] and found.array["dtype"] == np.dtype(dtype).name
    assert np.array_equal(there(f"{tmp_path}/a.h5::/deep/data").numbers(), data)


@pytest.mark.parametrize("how", ["lzf", "scaleoffset", "compact", "virtual"])
def test_converted(how: str, tmp_path: Path, there: Look) -> None:
    data = noise((9, 40, 30), "i4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if how == "lzf":
            file.create_dataset("data", data=data, chunks=(4, 16, 16), compression="lzf")
        elif how == "scaleoffset":
            file.create_dataset("data", data=data, chunks=(4, 16, 16), scaleoffset=0)
        elif how == "compact":
            data = data[:2, :10, :10]
            plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plan.set_layout(h5py.h5d.COMPACT)
            made = h5py.h5d.create(file.id, b"data", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple(data.shape), plan)
            h5py.Dataset(made)[...] = data
        else:
            with h5py.File(tmp_path / "b.h5", "w") as other:
                other["part"] = data
            layout = h5py.VirtualLayout(data.shape, "i4")
            layout[...] = h5py.VirtualSource(tmp_path / "b.h5", "part", data.shape)
            file.create_virtual_dataset("data", layout)
    found = there(tmp_path / "a.h5")
    assert np.array_equal(found.numbers(), data) and "is converted once" in found.said[0]
    assert ("lzf" in found.said[0]) == (how == "lzf")


def test_what_lies_in_other_files(tmp_path: Path, there: Look) -> None:
    data, more = noise((9, 10, 11), "i4"), noise((9, 10, 11), "i4") + 1000
    for how in ({}, {"chunks": (3, 4, 5)}):
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["first"] = more  # what lies at those places of the file with the link must not be taken
            file.create_dataset("deep/data", data=data, **how)
        with h5py.File(tmp_path / "a.h5", "w") as file:
            file["other"] = more
            file["link"] = h5py.ExternalLink("b.h5", "/deep/data")
        found = there(f"{tmp_path}/a.h5::link")
        assert np.array_equal(found.numbers(), data)
        assert str(tmp_path / "b.h5") in found.description.reads


def test_a_virtual_dataset_without_a_part(tmp_path: Path, there: Look) -> None:
    data = noise((8, 10, 11), "i4")
    layout = h5py.VirtualLayout(data.shape, "i4")
    for n in range(2):
        with h5py.File(tmp_path / f"part{n}.h5", "w") as file:
            file["data"] = data[4 * n : 4 * n + 4]
        layout[4 * n : 4 * n + 4] = h5py.VirtualSource(f"part{n}.h5", "data", (4, 10, 11))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("data", layout, fillvalue=-1)
    assert np.array_equal(there(tmp_path / "a.h5").numbers(), data)
    with h5py.File(tmp_path / "part1.h5", "r+") as file:
        file["data"][...] += 7
    assert np.array_equal(there(tmp_path / "a.h5").numbers()[4:], data[4:] + 7)  # not what the cache had
    with h5py.File(tmp_path / "part1.h5", "w") as file:
        file["name"] = 1
    with pytest.raises(DataError, match=r"a\.h5::/data: a part of it is data of .*part1\.h5, which is not there"):
        there(tmp_path / "a.h5")
    (tmp_path / "part1.h5").unlink()
    with pytest.raises(DataError, match=r"a\.h5::/data: a part of it lies in part1\.h5, which is not there"):
        there(tmp_path / "a.h5")


def test_numbers_outside_of_the_file(tmp_path: Path, there: Look) -> None:
    data = noise((8, 10, 11), "i4")
    data.tofile(tmp_path / "numbers.bin")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data.shape, "i4", external=[(tmp_path / "numbers.bin", 0, data.nbytes)])
    assert np.array_equal(there(tmp_path / "a.h5").numbers(), data)
    (tmp_path / "numbers.bin").unlink()
    with pytest.raises(DataError, match=r"numbers\.bin, which is not there"):
        there(tmp_path / "a.h5")


def test_chunks_that_were_never_written(tmp_path: Path, there: Look) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = file.create_dataset("data", (8, 8, 8), "f4", chunks=(4, 4, 4), fillvalue=-1.5)
        made[:4, :4, :4] = 2
    found = there(tmp_path / "a.h5")
    assert found.array["fill"] == -1.5 and found.numbers()[7, 7, 7] == -1.5 and found.numbers()[0, 0, 0] == 2
    # Where nothing is missing the library is not asked: it may end the process for it, if the header is damaged.
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["data"][...] = 1
    assert there(tmp_path / "a.h5").array.get("fill") is None


def test_which_one(tmp_path: Path, there: Look) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["small"] = noise((3, 4, 5), "u1")
        file["large"] = noise((8, 8, 8), "u1")
        file["line"] = np.arange(5)
        file["text"] = "words"
    found = there(tmp_path / "a.h5")
    assert found.array["name"] == "large" and "of its 2 datasets (/large, /small) the largest, /large" in found.guessed
    with pytest.raises(UnknownName, match=r"no dataset named 'larg'; there are: .*/large"):
        there(f"{tmp_path}/a.h5::larg")
    with pytest.raises(DataError, match="holds one number"):
        there(f"{tmp_path}/a.h5::text")


@pytest.mark.parametrize("name", ["a::b", "::", "a::b::c", "group::x/y", "group/x::y"])
def test_names_with_colons(name: str, tmp_path: Path, there: Look) -> None:
    data = noise((3, 4, 5), "u1")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file[name] = data
        file["other"] = noise((6, 6, 6), "u1")
    for said in (name, "/" + name):
        found = there(f"{tmp_path}/a.h5::{said}")
        assert found.array["name"] == name.rsplit("/", 1)[-1] and np.array_equal(found.numbers(), data)
    with pytest.raises(UnknownName, match=r"a\.h5: no dataset named 'a::none'"):
        there(f"{tmp_path}/a.h5::a::none")


def test_files_with_colons(tmp_path: Path, there: Look) -> None:
    """The longest name that is there is the file."""
    for name, inner, value in (("a.h5", "b::c", 1), ("a.h5::b", "c", 2)):
        with h5py.File(tmp_path / name, "w") as file:
            file[inner] = np.full((3, 4, 5), value, "u1")
    assert there(f"{tmp_path}/a.h5::b::c").numbers().max() == 2
    (tmp_path / "a.h5::b").unlink()
    assert there(f"{tmp_path}/a.h5::b::c").numbers().max() == 1
    assert there(f"{tmp_path}/a*::b::c").numbers().max() == 1
    with pytest.raises(DataError, match=r"b\.h5::u: there is no such file"):
        there(f"{tmp_path}/b.h5::u::v")


def test_empty_and_damaged(tmp_path: Path, there: Look) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["line"] = np.arange(5)
    with pytest.raises(DataError, match=r"no dataset of two or more dimensions of numbers; there are: /line \(5\)"):
        there(tmp_path / "a.h5")
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["data"] = noise((30, 30, 30), "f8")
    raw = (tmp_path / "b.h5").read_bytes()
    (tmp_path / "b.h5").write_bytes(raw[: len(raw) // 2])
    with pytest.raises(DataError, match=r"b\.h5.*cut off"):
        there(tmp_path / "b.h5")


def dataset() -> Any:
    xarray = pytest.importorskip("xarray")
    values = np.random.default_rng(3).random((3, 4, 5, 6))
    return xarray.Dataset(
        {"salt": (("time", "depth", "lat", "lon"), values, {"units": "g/kg", "long_name": "salinity"})},
        coords={
            "time": ("time", [0, 1, 2], {"units": "days since 2001-01-01"}),
            "depth": ("depth", np.arange(4) * 5.0, {"units": "m"}),
            "lat": ("lat", np.linspace(50, 51, 5), {"units": "degrees_north"}),
            "lon": ("lon", np.linspace(3, 8, 6), {"units": "degrees_east"}),
        },
    )


PACKED = {"salt": {"dtype": "int16", "scale_factor": 1e-4, "add_offset": 0.5, "_FillValue": -1}}


def test_netcdf4(tmp_path: Path, there: Look) -> None:
    made = dataset()
    with h5py.File(tmp_path / "a.nc", "w") as file:  # as the netCDF library writes it
        file.attrs["_NCProperties"] = "version=2,netcdf=4.9"
        for name in ("time", "depth", "lat", "lon"):
            file[name] = made[name].values
            file[name].make_scale(name)
            file[name].attrs["units"] = made[name].attrs["units"]
        file.create_dataset(
            "salt",
            data=np.round((made["salt"].values - 0.5) / 1e-4).astype("i2"),
            chunks=(1, 2, 5, 6),
            compression="gzip",
        )
        for n, name in enumerate(("time", "depth", "lat", "lon")):
            file["salt"].dims[n].attach_scale(file[name])
        file["salt"].attrs.update(
            {
                "scale_factor": 1e-4,
                "add_offset": 0.5,
                "_FillValue": np.int16(-1),
                "units": "g/kg",
                "long_name": "salinity",
            }
        )
    check(there(tmp_path / "a.nc"), made, "NetCDF-4")


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8"])
@pytest.mark.parametrize("uneven", [False, True])
def test_times_in_single_precision(dtype: str, uneven: bool, tmp_path: Path, there: Look) -> None:
    lines = {"time": [0.1, 0.3, 0.7], "z": [0, 1, 4 if uneven else 2], "y": range(3), "x": range(4)}
    with h5py.File(tmp_path / "a.nc", "w") as file:
        file["v"] = noise((3, 3, 3, 4), "f4")
        for n, (name, line) in enumerate(lines.items()):
            file[name] = np.asarray(line, dtype)
            file[name].make_scale(name)
            file["v"].dims[n].attach_scale(file[name])
    if not uneven:
        assert there(tmp_path / "a.nc").spec["times"] == [0.1, 0.3, 0.7]
        return
    # Zones count from the first step.
    assert parse(tmp_path / "a.nc", quiet=True).options["zones"]["times"] == [0, 0.2, 0.6]


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT"])
@pytest.mark.parametrize("unlimited", [False, True])
def test_netcdf3(kind: str, unlimited: bool, tmp_path: Path, there: Look) -> None:
    pytest.importorskip("scipy")
    made = dataset()
    made["other"] = made["salt"][:, 0, 0, 0].drop_vars(["depth", "lat", "lon"])
    made.to_netcdf(
        tmp_path / "a.nc", engine="scipy", format=kind, encoding=PACKED, unlimited_dims=["time"] if unlimited else []
    )
    check(there(tmp_path / "a.nc"), made, "NetCDF classic")


def check(found: Read, made: Any, kind: str) -> None:
    spec = found.spec
    assert spec["format"] == kind and spec["times"] == [0, 1, 2] and spec["time_units"] == "days since 2001-01-01"
    assert found.level["spacing"] == [1, 0.25, 5] and found.level["origin"] == [3, 50, 0] and spec["length_unit"] == "1"
    channel = spec["channels"][0]
    assert (channel["name"], channel["units"], channel["scale"], channel["missing"]) == (
        "salinity",
        "g/kg",
        [1e-4, 0.5],
        -1,
    )
    assert np.allclose(found.numbers(step=2) * 1e-4 + 0.5, made["salt"].values[2], atol=6e-5)


def classic(kind: bytes, records: int, body: bytes, *, unlimited: bool) -> bytes:
    """A file with a variable `v` of (t, 2, 3) int16 and, where time is unlimited, a second one beside it."""
    name = lambda text: struct.pack(">i", len(text)) + text.encode() + bytes(-len(text) % 4)  # noqa: E731
    lengths = [0 if unlimited else records, 2, 3]
    out = kind + struct.pack(">i", records if unlimited else 0) + struct.pack(">ii", 10, 3)
    for letter, n in zip("tyx", lengths, strict=True):
        out += name(letter) + struct.pack(">i", n)
    out += struct.pack(">ii", 0, 0)
    variables = ["v", "w"] if unlimited else ["v"]
    head = len(out) + 8 + len(variables) * (8 + 4 + 12 + 8 + 4 + 4 + 4)
    out += struct.pack(">ii", 11, len(variables))
    for n, text in enumerate(variables):
        out += (
            name(text)
            + struct.pack(">i3i", 3, 0, 1, 2)
            + struct.pack(">ii", 0, 0)
            + struct.pack(">iii", 3, 12, head + 12 * n)
        )
    assert len(out) == head
    return out + body


def test_netcdf3_by_hand(tmp_path: Path, there: Look) -> None:
    data = noise((4, 2, 3), ">i2")
    (tmp_path / "a.nc").write_bytes(classic(b"CDF\x01", 4, data.tobytes(), unlimited=False))
    assert np.array_equal(there(tmp_path / "a.nc").numbers(step=2)[0], data[2])
    other = (noise((4, 2, 3), ">i2") + 100).astype(">i2")
    body = b"".join(data[n].tobytes() + other[n].tobytes() for n in range(4))
    for records in (4, -1):
        (tmp_path / "b.nc").write_bytes(classic(b"CDF\x01", records, body, unlimited=True))
        found = there(f"{tmp_path}/b.nc::w")
        assert np.array_equal(found.numbers(step=3)[0], other[3])
    (tmp_path / "b.nc").write_bytes(classic(b"CDF\x01", 40, body, unlimited=True))
    with pytest.raises(DataError, match=r"its variable 'v' goes to byte .* it was cut off"):
        there(tmp_path / "b.nc")


def test_parts_that_are_too_short_are_refused(tmp_path: Path, there: Callable[..., Any]) -> None:
    """The HDF5 library gives zeros, or the fill value, for what lies behind their ends."""
    data = np.arange(6 * 4 * 5, dtype="<u2").reshape(6, 4, 5)
    data[:4].tofile(tmp_path / "short.raw")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("a", data.shape, "u2", external=[(str(tmp_path / "short.raw"), 0, h5py.h5f.UNLIMITED)])
    with pytest.raises(
        DataError, match=r"240 bytes of it lie in .*short\.raw from byte 0 on, and that file ends at 160"
    ):
        there(tmp_path / "a.h5")
    data.tofile(tmp_path / "short.raw")
    assert np.array_equal(there(tmp_path / "a.h5").numbers(), data)
    for name, rows, selection in (("whole", 6, ...), ("part", 6, np.s_[1:5])):
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["a"] = data[:rows]
        source = h5py.VirtualSource("b.h5", "a", shape=data.shape)[selection]
        layout = h5py.VirtualLayout(source.shape, "u2")
        layout[...] = source
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_virtual_dataset("a", layout, fillvalue=9)
        assert np.array_equal(there(tmp_path / f"{name}.h5").numbers(), data[selection])
        with h5py.File(tmp_path / "b.h5", "w") as file:
            file["a"] = data[:3]
        with pytest.raises(DataError, match=r"numbers of a in .*b\.h5, which has 3 x 4 x 5"):
            there(tmp_path / f"{name}.h5")


def test_what_no_part_of_a_virtual_dataset_holds_is_said(tmp_path: Path, there: Callable[..., Any]) -> None:
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["a"] = np.ones((2, 4, 5), "u2")
    layout = h5py.VirtualLayout((6, 4, 5), "u2")
    layout[:2] = h5py.VirtualSource("b.h5", "a", shape=(2, 4, 5))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("a", layout, fillvalue=9)
    found = there(tmp_path / "a.h5")
    assert "80 of its numbers lie in no part of it: the fill value stands there" in found.guessed
    assert (found.numbers()[2:] == 9).all()


def reduced(file: Any, name: str, base: Any, bits: int, below: int, chunk: tuple[int, ...] | None) -> Any:
    """A dataset of whole numbers that have fewer bits than their bytes."""
    kind = base.copy()
    kind.set_precision(bits)
    kind.set_offset(below)
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    if chunk is not None:
        plan.set_chunk(chunk)
    made = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((5, 6, 7)), plan)
    return h5py.Dataset(made)


@pytest.mark.parametrize("chunk", [None, (3, 4, 5)])
@pytest.mark.parametrize("below", [0, 4])
@pytest.mark.parametrize(("base", "dtype"), [("STD_U16LE", "<u2"), ("STD_U16BE", ">u2"), ("STD_I16LE", "<i2")])
def test_numbers_of_fewer_bits(
    base: str, dtype: str, below: int, chunk: tuple[int, ...] | None, tmp_path: Path, there: Look
) -> None:
    data = np.random.default_rng(2).integers(-1000 if "i" in dtype else 0, 1000, (5, 6, 7)).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        reduced(file, "d", getattr(h5py.h5t, base), 12, below, chunk)[...] = data
    found = there(tmp_path / "a.h5")
    assert np.array_equal(found.numbers(), data) and "numbers with other bits beside them" in found.said[0]


@pytest.mark.parametrize("chunk", [None, (3, 4, 5)])
def test_floats_of_another_form(chunk: tuple[int, ...] | None, tmp_path: Path, there: Look) -> None:
    """Such as bfloat16, which h5py gives as float32."""
    data = np.random.default_rng(2).integers(-100, 100, (5, 6, 7)).astype("f4")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        kind = h5py.h5t.IEEE_F32LE.copy()
        kind.set_fields(15, 7, 8, 0, 7)
        kind.set_size(2)
        kind.set_ebias(127)
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if chunk is not None:
            plan.set_chunk(chunk)
        made = h5py.h5d.create(file.id, b"d", kind, h5py.h5s.create_simple((5, 6, 7)), plan)
        h5py.Dataset(made)[...] = data
    found = there(tmp_path / "a.h5")
    assert np.array_equal(found.numbers(), data) and "converted once" in found.said[0]


def test_enums_and_logical_values_lie_where_they_are(tmp_path: Path, there: Look) -> None:
    data = noise((5, 6, 7), "i2") % 3
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("enum", data=data, dtype=h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, "i2"))
        file["bool"] = data > 1
    for name, expected in (("enum", data), ("bool", data > 1)):
        found = there(f"{tmp_path}/a.h5::{name}")
        assert found.said == [] and np.array_equal(found.numbers(), expected)


def test_records_are_named(tmp_path: Path, there: Look) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["d"] = np.zeros((3, 4, 5), [("a", "f4"), ("b", "i4")])
    with pytest.raises(DataError, match="it holds text or records, no numbers"):
        there(f"{tmp_path}/a.h5::d")


def test_files_of_links_alone(tmp_path: Path, there: Look) -> None:
    """As detectors write them: a file that leads to others."""
    data = noise((3, 4, 5), "u2")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = data
    with h5py.File(tmp_path / "master.h5", "w") as file:
        file["entry/data_1"] = h5py.ExternalLink("data.h5", "/x")
        file["entry/data_2"] = h5py.ExternalLink("none.h5", "/x")
        file["entry/first"] = h5py.SoftLink("/entry/data_1")
        file["entry/loop"] = h5py.SoftLink("/entry")
    with pytest.raises(
        UsageError, match=r"links \(/entry/data_1, /entry/first\); name one: .*master\.h5::/entry/data_1"
    ):
        there(tmp_path / "master.h5")
    assert np.array_equal(there(f"{tmp_path}/master.h5::/entry/data_1").numbers(), data)


def vtkhdf(path: Path, data: np.ndarray[Any, Any], offsets: list[int] | None, **how: Any) -> Path:
    """An image of 6 x 5 x 4 points with two steps."""
    with h5py.File(path, "w") as file:
        group = file.create_group("VTKHDF")
        group.attrs.update({"Version": [2, 0], "Type": np.bytes_(b"ImageData"), "WholeExtent": [0, 5, 0, 4, 0, 3]})
        group.attrs.update({"Origin": [1.0, 2, 3], "Spacing": [0.2, 0.5, 0.25]})
        group.create_dataset("PointData/s", data=data, **how)
        group["Steps/Values"] = np.array([0.1, 2.5], "f4")
        if offsets is not None:
            group["Steps/PointDataOffsets/s"] = offsets
    return path


@pytest.mark.parametrize("chunk", [None, (2, 5, 3), (4, 2, 6)])
@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("components", [1, 3])
def test_series_of_vtkhdf_images(
    components: int, stacked: bool, chunk: tuple[int, ...] | None, tmp_path: Path, there: Look
) -> None:
    data = noise((2, 4, 5, 6, components), "f4").squeeze()
    shape = (8, *data.shape[2:]) if stacked else data.shape
    how = (
        {}
        if chunk is None
        else {"chunks": (*(() if stacked else (1,)), *chunk, *data.shape[4:]), "compression": "gzip"}
    )
    path = vtkhdf(tmp_path / "a.vtkhdf", data.reshape(shape), [0, 4 if stacked else 1], **how)
    found = there(path)
    assert found.spec["times"] == [0.1, 2.5] and found.level["dims"] == [6, 5, 4]
    for step in (0, 1):
        for c in range(components):
            assert np.array_equal(found.numbers(c, step), data[step, ..., c] if components > 1 else data[step])


def test_series_of_vtkhdf_images_that_are_not_read_are_named(tmp_path: Path, there: Look) -> None:
    data = noise((2, 4, 5, 6), "f4")
    with pytest.raises(DataError, match=r"series of VTKHDF images .* another order .*: 1, 0\), .*Write Time Steps"):
        there(vtkhdf(tmp_path / "a.vtkhdf", data, [1, 0]))
    with pytest.raises(DataError, match=r"series of VTKHDF images, chunks of which hold several of its 2 steps"):
        there(vtkhdf(tmp_path / "b.vtkhdf", data.reshape(8, 5, 6), [0, 4], chunks=(3, 5, 6)))
    # What is there once is so at all times.
    for once in (data[:1], data[0]):
        assert np.array_equal(there(vtkhdf(tmp_path / "c.vtkhdf", once, [0, 0])).numbers(), data[0])
