"""Headers that are legal and seldom seen, files that lack their last bytes, and files that are something else."""

from __future__ import annotations

import bz2
import gzip
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError
from farfield.volume.formats.options import Options
from volume_files import Read

Look = Callable[..., Read]


def noise(shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    return np.random.default_rng(11).integers(0, 120, shape).astype(dtype)


def metaimage(path: Path, fields: str, data: bytes = b"", *, said: str = "LOCAL", size: str = "4 5 6") -> None:
    header = (
        f"NDims = {len(size.split())}\nDimSize = {size}\nElementType = MET_SHORT\n{fields}ElementDataFile = {said}\n"
    )
    path.write_bytes(f"ObjectType = Image\n{header}".encode() + data)


def test_metaimage_with_the_size_of_voxels_only(tmp_path: Path, there: Look) -> None:
    """As MetaIO and ITK have it, where nothing says how far they are apart."""
    data = noise((6, 5, 4), "<i2")
    metaimage(tmp_path / "a.mha", "ElementSize = 2 3 4\n", data.tobytes())
    found = there(tmp_path / "a.mha")
    assert found.level["spacing"] == [2, 3, 4] and "as much as its ElementSize" in found.guessed
    metaimage(tmp_path / "b.mha", "ElementSize = 2 3 4\nElementSpacing = 1 1 5\n", data.tobytes())
    found = there(tmp_path / "b.mha")
    assert found.level["spacing"] == [1, 1, 5] and "ElementSize" not in found.guessed
    metaimage(tmp_path / "c.mha", "", data.tobytes())
    assert "apart: 1" in there(tmp_path / "c.mha").guessed
    metaimage(tmp_path / "d.mha", "ElementSize = 2 0 4\n", data.tobytes())
    with pytest.raises(DataError, match=r"d\.mha: its ElementSize is \[2\.0, 0\.0, 4\.0\]"):
        there(tmp_path / "d.mha")


def test_nrrd_of_a_space_with_time(tmp_path: Path, there: Look) -> None:
    data = noise((3, 6, 5, 4), "u1")
    head = (
        "NRRD0005\ntype: uint8\ndimension: 4\nspace: scanner-xyz-time\nsizes: 4 5 6 3\n"
        "space directions: (1,0,0,0) (0,2,0,0) (0,0,3,0) (0,0,0,0.5)\nspace origin: (7,0,0,1)\n"
        'space units: "mm" "mm" "mm" "s"\nencoding: raw\n\n'
    )
    (tmp_path / "a.nrrd").write_bytes(head.encode() + data.tobytes())
    found = there(tmp_path / "a.nrrd")
    assert found.spec["times"] == [1, 1.5, 2] and found.spec["time_units"] == "s"
    assert found.level["origin"] == [7, 0, 0] and found.level["spacing"] == [1, 2, 3]
    assert np.array_equal(found.numbers(step=2), data[2])


def test_metaimage_with_a_unit_and_a_line(tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), "<i2").tobytes()
    metaimage(tmp_path / "a.mha", "ElementSpacing = 1 1 1\nDistanceUnits = um\n", data)
    found = there(tmp_path / "a.mha")
    assert found.spec["length_unit"] == "um" and "in which unit" not in found.guessed
    line = "ElementToIntensityFunctionSlope = 2\nElementToIntensityFunctionOffset = -5\n"
    metaimage(tmp_path / "b.mha", line, data)
    found = there(tmp_path / "b.mha")
    assert found.spec["channels"][0]["scale"] == [2, -5] and found.spec["length_unit"] == "mm"
    assert "times 2 plus -5" in found.guessed and "in which unit" in found.guessed


@pytest.mark.parametrize(("said", "count"), [("4 5", 2), ("4 5 6 2", 4)])
def test_metaimage_of_other_dimensions_than_it_says(said: str, count: int, tmp_path: Path, there: Look) -> None:
    (tmp_path / "a.mha").write_bytes(
        f"NDims = 3\nDimSize = {said}\nElementType = MET_SHORT\nElementDataFile = LOCAL\n".encode() + bytes(480)
    )
    with pytest.raises(DataError, match=rf"a\.mha: its DimSize '{said}' has {count} numbers for NDims 3; correct"):
        there(tmp_path / "a.mha")


@pytest.mark.parametrize(
    ("said", "across"), [("LIST", 2), ("LIST 2D", 2), ("LIST 2", 2), ("LIST 3D", 3), ("LIST 1D", 1), ("LIST 9D", 2)]
)
def test_metaimage_of_listed_files(said: str, across: int, tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), "<i2")
    pieces = data.reshape(-1, *data.shape[3 - across :])
    names = [f"s {n:02}.raw" for n in range(len(pieces))]
    for name, piece in zip(names, pieces, strict=True):
        (tmp_path / name).write_bytes(b"head" + piece.tobytes())
    metaimage(tmp_path / "a.mhd", "HeaderSize = 4\n", ("\n".join(names) + "\n").encode(), said=said)
    assert np.array_equal(there(tmp_path / "a.mhd").numbers(), data)
    metaimage(tmp_path / "b.mhd", "HeaderSize = 4\n", "\n".join([*names, names[0]]).encode(), said=said)
    with pytest.raises(DataError, match=rf"it names {len(names) + 1} files for {len(names)} slices"):
        there(tmp_path / "b.mhd")


@pytest.mark.parametrize(("said", "across"), [("LIST", 3), ("LIST 3D", 3), ("LIST 2D", 2)])
def test_metaimage_of_listed_files_in_time(said: str, across: int, tmp_path: Path, there: Look) -> None:
    data = noise((3, 6, 5, 4, 2), "<i2")
    pieces = data.reshape(-1, *data.shape[4 - across :])
    names = [f"s{n:02}.raw" for n in range(len(pieces))]
    for n, (name, piece) in enumerate(zip(names, pieces, strict=True)):
        # Each begins elsewhere in its file.
        (tmp_path / name).write_bytes(b"x" * n + piece.tobytes())
    fields = "HeaderSize = -1\nElementNumberOfChannels = 2\n"
    metaimage(tmp_path / "a.mhd", fields, "\r\n".join(names).encode(), said=said, size="4 5 6 3")
    found = there(tmp_path / "a.mhd")
    for step in range(3):
        assert all(np.array_equal(found.numbers(c, step), data[step, ..., c]) for c in range(2))


def nrrd(path: Path, fields: str, data: bytes, *, sizes: str = "6 5 4") -> None:
    rank = len(sizes.split())
    path.write_bytes(
        f"NRRD0005\ntype: uint8\ndimension: {rank}\nsizes: {sizes}\nencoding: raw\n{fields}\n\n".encode() + data
    )


GUESS = "its centers do not say"


@pytest.mark.parametrize(
    ("fields", "spacing", "origin", "guess"),
    [
        ("spacings: 0.5 0.5 2\naxis mins: 1 2 3\ncenters: cell cell cell", [0.5, 0.5, 2], [1.25, 2.25, 4], False),
        ("spacings: 0.5 0.5 2\naxis mins: 1 2 3\ncenterings: node cell node", [0.5, 0.5, 2], [1, 2.25, 3], False),
        ("spacings: 0.5 0.5 2\naxis mins: 1 2 3", [0.5, 0.5, 2], [1.25, 2.25, 4], True),
        ("spacings: 0.5 0.5 2\naxis mins: 1 2 3\ncenters: ??? node none", [0.5, 0.5, 2], [1.25, 2, 4], True),
        ("spacings: 0.5 0.5 2\naxis mins: nan 2 nan\ncenters: ??? cell ???", [0.5, 0.5, 2], [0, 2.25, 0], False),
        ("spacings: 0.5 0.5 2\ncenters: cell cell cell", [0.5, 0.5, 2], [0, 0, 0], False),
        ("axismins: 0 0 0\naxismaxs: 3 5 8\ncenters: cell cell cell", [0.5, 1, 2], [0.25, 0.5, 1], False),
        ("axis mins: 0 0 0\naxis maxs: 3 5 8", [0.5, 1, 2], [0.25, 0.5, 1], True),
        ("axis mins: 0 1 0\naxis maxs: 5 9 6\ncenters: node node node", [1, 2, 2], [0, 1, 0], False),
        ("spacings: 3 nan nan\naxis mins: 0 0 0\naxis maxs: 3 5 8\ncenters: node cell cell", [3, 1, 2], [0, 0.5, 1], False),
    ],
)  # fmt: skip
def test_nrrd_by_the_ends_of_its_axes(
    fields: str, spacing: list[float], origin: list[float], guess: bool, tmp_path: Path, there: Look
) -> None:
    """The first position is of the edge of a cell, or of a sample: what is shown are samples."""
    nrrd(tmp_path / "a.nrrd", fields, bytes(120))
    found = there(tmp_path / "a.nrrd")
    assert found.level["spacing"] == spacing and found.level["origin"] == origin
    assert (GUESS in found.guessed) == guess and "apart" not in found.guessed


def test_nrrd_by_the_ends_of_reversed_and_short_axes(tmp_path: Path, there: Look) -> None:
    nrrd(tmp_path / "a.nrrd", "axis mins: 6 0 0\naxis maxs: 0 5 4\ncenters: cell cell cell", bytes(120))
    found = there(tmp_path / "a.nrrd")
    assert found.level["origin"] == [5.5, 0.5, 0.5] and found.spec["direction"][0] == [-1, 0, 0]
    nrrd(tmp_path / "b.nrrd", "axis mins: 0 0 7\naxis maxs: 5 4 7\ncenters: node node node", bytes(30), sizes="6 5 1")
    found = there(tmp_path / "b.nrrd")
    assert found.level["origin"] == [0, 0, 7] and "along all axes: 1" in found.guessed
    nrrd(tmp_path / "c.nrrd", "axis mins: 0 0 7\naxis maxs: 5 4 7\ncenters: cell cell cell", bytes(120))
    with pytest.raises(DataError, match=r"c\.nrrd: .* by its 'axis mins' and 'axis maxs' are not three directions"):
        there(tmp_path / "c.nrrd")
    nrrd(tmp_path / "d.nrrd", "axis mins: 0 0 7\ncenters: cell cell", bytes(120))
    with pytest.raises(DataError, match=r"d\.nrrd: its 'centers' has 2 entries for 3 axes"):
        there(tmp_path / "d.nrrd")


def test_nrrd_directions_are_of_samples(tmp_path: Path, there: Look) -> None:
    fields = "space: LPS\nspace directions: (2,0,0) (0,2,0) (0,0,2)\nspace origin: (1,2,3)\ncenters: cell cell cell"
    nrrd(tmp_path / "a.nrrd", fields, bytes(120))
    assert there(tmp_path / "a.nrrd").level["origin"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("center", "times", "guess"), [("node", [10, 12, 14], 0), ("cell", [11, 13, 15], 0), ("???", [11, 13, 15], 1)]
)
def test_nrrd_times_by_their_centers(center: str, times: list[float], guess: bool, tmp_path: Path, there: Look) -> None:
    fields = (
        "kinds: domain domain domain time\nspacings: 1 1 1 2\naxis mins: 0 0 0 10\ncenters: node node node " + center
    )
    nrrd(tmp_path / "a.nrrd", fields, bytes(360), sizes="6 5 4 3")
    found = there(tmp_path / "a.nrrd")
    assert found.spec["times"] == times and (GUESS in found.guessed) == guess


def vtk(kind: str, body: str) -> str:
    return (
        f'<?xml version="1.0"?>\n<VTKFile type="{kind}" version="0.1" byte_order="LittleEndian">\n{body}\n</VTKFile>\n'
    ).replace('"', "'")


def numbers(name: str, values: Any) -> str:
    text = " ".join(map(str, np.ravel(values)))
    return f'<DataArray type="Float32" Name="{name}" format="ascii">{text}</DataArray>'


def test_vtk_between_single_quotes(tmp_path: Path, there: Look) -> None:
    data = noise((2, 3, 4), "f4")
    extent, space = '"0 3 0 2 0 1"', 'Origin="1 2 3" Spacing="1 2 2"'
    points = f"<PointData>{numbers('s', data)}</PointData>"
    lines = "".join(numbers(a, np.arange(n)) for a, n in (("x", 4), ("y", 3), ("z", 2)))
    for name in ("a.vti", "b.vti"):
        body = f"<Piece Extent={extent}>{points}</Piece>"
        (tmp_path / name).write_text(vtk("ImageData", f"<ImageData WholeExtent={extent} {space}>{body}</ImageData>"))
    body = f"<Piece Extent={extent}>{points}<Coordinates>{lines}</Coordinates></Piece>"
    whole = f"<RectilinearGrid WholeExtent={extent}>{body}</RectilinearGrid>"
    (tmp_path / "a.vtr").write_text(vtk("RectilinearGrid", whole))
    body = f'<PPointData><PDataArray type="Float32" Name="s"/></PPointData><Piece Extent={extent} Source="a.vti"/>'
    whole = f"<PImageData WholeExtent={extent} {space}>{body}</PImageData>"
    (tmp_path / "a.pvti").write_text(vtk("PImageData", whole))
    steps = "".join(f'<DataSet timestep="{n}" file="{name}.vti"/>' for n, name in enumerate("ab"))
    (tmp_path / "a.pvd").write_text(vtk("Collection", f"<Collection>{steps}</Collection>"))
    for name in ("a.vti", "a.vtr", "a.pvti", "a.pvd"):
        found = there(tmp_path / name)
        assert np.array_equal(found.numbers(), data), name
        assert found.level["spacing"] == ([1, 1, 1] if name == "a.vtr" else [1, 2, 2])
        assert found.spec["times"] == ([0, 1] if name == "a.pvd" else [])


def nifti(data: np.ndarray[Any, Any]) -> bytes:
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, 3, *data.shape[::-1], 1, 1, 1, 1)
    struct.pack_into("<2h", header, 70, 4, 16)
    struct.pack_into("<8f", header, 76, 1, 1, 1, 1, 1, 1, 1, 1)
    struct.pack_into("<f", header, 108, 352)
    header[344:348] = b"n+1\0"
    return bytes(header) + data.astype("<i2").tobytes()


@pytest.mark.parametrize("cut", [1, 4, 8])
def test_gzip_without_its_trailer(cut: int, tmp_path: Path, there: Look) -> None:
    """What is asked for is all there, and still the file was cut off."""
    data = noise((6, 5, 4), "<i2")
    raw = nifti(data)
    header = "NRRD0004\ntype: short\ndimension: 3\nsizes: 4 5 6\nspacings: 1 1 1\nendian: little\nencoding: gzip\n\n"
    for name, start, packed in (
        ("a.nii.gz", b"", gzip.compress(raw)),
        ("b.nii.gz", b"", gzip.compress(raw[:400]) + gzip.compress(raw[400:])),
        ("a.nrrd", header.encode(), gzip.compress(data.tobytes())),
    ):
        (tmp_path / name).write_bytes(start + packed[:-cut])
        with pytest.raises(DataError, match=rf"{name}: its gzip data are cut off"):
            there(tmp_path / name)
        assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    (tmp_path / "c.nii.gz").write_bytes(gzip.compress(raw)[:-8] + bytes(8))
    with pytest.raises(DataError, match=r"c\.nii\.gz: its gzip data are damaged"):
        there(tmp_path / "c.nii.gz")


def test_other_streams_without_their_checksum(tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), "<i2")
    metaimage(tmp_path / "a.mha", "CompressedData = True\n", zlib.compress(data.tobytes())[:-2])
    with pytest.raises(DataError, match=r"a\.mha: its zlib data are cut off"):
        there(tmp_path / "a.mha")
    header = "NRRD0004\ntype: short\ndimension: 3\nsizes: 4 5 6\nspacings: 1 1 1\nendian: little\nencoding: bzip2\n\n"
    (tmp_path / "a.nrrd").write_bytes(header.encode() + bz2.compress(data.tobytes())[:-2])
    with pytest.raises(DataError, match=r"a\.nrrd: its bz2 data are cut off"):
        there(tmp_path / "a.nrrd")


@pytest.mark.parametrize("more", [b"", b"\0" * 700, b"junk", b"\x1f\x8b", gzip.compress(b"more", mtime=0)[:-3]])
def test_what_follows_the_numbers_is_passed_over(more: bytes, tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), "<i2")
    for packed in (gzip.compress(nifti(data)), gzip.compress(nifti(data) + bytes(3 << 20))):
        (tmp_path / "a.nii.gz").write_bytes(packed + more)
        assert np.array_equal(there(tmp_path / "a.nii.gz").numbers(), data)


def netcdf(*variables: tuple[str, list[int], np.ndarray[Any, Any]]) -> bytes:
    """CDF-1 of the dimensions t (of records), z, y, x of 3, 2, 3 and 4."""

    def text(name: str) -> bytes:
        return struct.pack(">i", len(name)) + name.encode() + bytes(-len(name) % 4)

    sizes = [0, 2, 3, 4]
    dims = struct.pack(">ii", 10, 4) + b"".join(
        text(n) + struct.pack(">i", s) for n, s in zip("tzyx", sizes, strict=True)
    )
    kinds = {"i1": 1, "i2": 3, "f4": 5}

    def header(begins: list[int]) -> bytes:
        found = b"CDF\x01" + struct.pack(">i", 3) + dims + bytes(8) + struct.pack(">ii", 11, len(variables))
        for (name, of, data), begin in zip(variables, begins, strict=True):
            each = data.nbytes // (3 if of[0] == 0 else 1)
            found += text(name) + struct.pack(f">i{len(of)}i", len(of), *of) + bytes(8)
            found += struct.pack(">iii", kinds[data.dtype.str[1:]], each + -each % 4, begin)
        return found

    at = len(header([0] * len(variables)))
    begins, body = [], b""
    records = [v for v in variables if v[1][0] == 0]
    for name, of, data in [*(v for v in variables if v[1][0] != 0), *records]:
        begins.append((name, at + len(body)))
        if of[0] != 0:
            body += data.tobytes() + bytes(-data.nbytes % 4)
        else:
            at += len(data[0].tobytes()) + (-len(data[0].tobytes()) % 4 if len(records) > 1 else 0)
    for n in range(3):
        for *_, data in records:
            piece = data[n].tobytes()
            body += piece + (bytes(-len(piece) % 4) if len(records) > 1 else b"")
    return header([dict(begins)[name] for name, *_ in variables]) + body


def test_netcdf_that_is_short(tmp_path: Path, there: Look) -> None:
    """By a byte of any variable, though not of the one that is shown."""
    data, odd = noise((3, 2, 3, 4), ">f4"), noise((3, 3), ">i1")
    shown = ("a", [0, 1, 2, 3], data)
    for name, other, padding in (
        ("odd", ("odd", [0, 2], odd), 1),
        ("t", ("t", [0], np.arange(3, dtype=">f4")), 0),
    ):
        whole = netcdf(shown, other)
        (tmp_path / "a.nc").write_bytes(whole)
        assert np.array_equal(there(tmp_path / "a.nc").numbers(step=2), data[2])
        # The padding of the last record may be absent.
        (tmp_path / "a.nc").write_bytes(whole[: len(whole) - padding])
        assert np.array_equal(there(tmp_path / "a.nc").numbers(step=2), data[2])
        (tmp_path / "a.nc").write_bytes(whole[: len(whole) - padding - 1])
        with pytest.raises(
            DataError, match=rf"a\.nc: its variable '{name}' goes to byte .* it was cut off; copy it again"
        ):
            there(tmp_path / "a.nc")
    whole = netcdf(
        ("b", [1, 2, 3], noise((2, 3, 4), ">f4")), ("x", [3], np.arange(4, dtype=">i2")), ("z", [1], odd[0, :2])
    )
    (tmp_path / "b.nc").write_bytes(whole[:-2])
    assert there(tmp_path / "b.nc").array["name"] == "b"
    (tmp_path / "b.nc").write_bytes(whole[:-3])
    with pytest.raises(DataError, match=r"b\.nc: its variable 'z' goes to byte"):
        there(tmp_path / "b.nc")


def test_netcdf_of_one_record_variable_without_padding(tmp_path: Path, there: Look) -> None:
    data = noise((3, 3, 3), ">i1")[:, :, :3]
    whole = netcdf(("a", [0, 2, 2], data))
    (tmp_path / "a.nc").write_bytes(whole)
    assert there(tmp_path / "a.nc").array["shape"] == [3, 3, 3]
    (tmp_path / "a.nc").write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"a\.nc: its variable 'a' goes to byte"):
        there(tmp_path / "a.nc")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.gif", b"GIF89a" + bytes(90), r"a GIF, which is not read; .*ffmpeg -i a\.gif"),
        ("a", b"GIF87a" + bytes(90), "a GIF, which is not read"),
        ("a.pdf", b"%PDF-1.7\n" + bytes(90), "a PDF document, which is not read; name the file"),
        ("a.mp4", b"\0\0\0\x20ftypisom" + bytes(90), r"a film \(MP4 or QuickTime\).*ffmpeg -i a\.mp4"),
        ("a.heic", b"\0\0\0\x20ftypheic" + bytes(90), r"a picture \(HEIF or AVIF\).*magick a\.heic"),
        ("a.mat", b"MATLAB 5.0 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\1IM" + bytes(90), "MATLAB file.*-v7.3"),
        ("a.img", bytes(range(1, 241)), r"a\.img: an \.img is numbers alone; .* \S*a\.hdr, is not there: copy it here too.*--raw"),
        ("b.img", b"EHFA_HEADER_TAG\0" + bytes(64), r"b\.img: this is an ERDAS Imagine raster.*gdal_translate b\.img"),
    ],
)  # fmt: skip
def test_what_is_something_else_is_named(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    import farfield as ff

    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said) as caught:
        ff.open(tmp_path / name)
    assert "PLOT3D" not in str(caught.value)


def test_raw_numbers_may_have_the_name_of_something_else(tmp_path: Path, there: Look) -> None:
    data = noise((6, 5, 4), "u1")
    data.ravel()[:6] = list(b"GIF89a")
    for name in ("a.img", "a.gif"):
        (tmp_path / name).write_bytes(data.tobytes())
        assert np.array_equal(there(tmp_path / name, shape="4x5x6", dtype="uint8").numbers(), data)
    (tmp_path / "a_4x5x6.img").write_bytes(data.tobytes())
    assert np.array_equal(there(tmp_path / "a_4x5x6.img", dtype="uint8").numbers(), data)


@pytest.mark.parametrize(("code", "dtype"), [(1, "uint8"), (2, "int16"), (12, "uint16"), (4, "float32")])
@pytest.mark.parametrize("order", [0, 1])
def test_rasters_of_envi_are_named_with_how_they_are_read(
    code: int, dtype: str, order: int, tmp_path: Path, there: Look
) -> None:
    data = noise((6, 5, 4), "u1").astype(dtype)
    file = tmp_path / "a.img"
    file.write_bytes(b"before" + data.astype(data.dtype.newbyteorder("<>"[order])).tobytes())
    header = "ENVI\ndescription = {\n a}\nsamples = 4\nlines   = 5\nbands   = 6\nheader offset = 6\nfile type = ENVI Standard\n"
    header += f"data type = {code}\ninterleave = bsq\nbyte order = {order}\n"
    (tmp_path / "a.hdr").write_text(header)
    with pytest.raises(DataError, match=r"a\.img: this is an ENVI raster.* by a\.hdr: --raw '") as caught:
        there(file)
    how = Options.named(str(caught.value).split("--raw '")[1].split("'")[0])
    assert np.array_equal(there(file, **how).numbers(), data)
    for other in (header.replace("bsq", "bil"), header.replace("type = ", "type = 6"), header.replace("samples", "s")):
        (tmp_path / "a.hdr").write_text(other)
        with pytest.raises(DataError, match=r"a\.img: this is an ENVI raster.*; convert it to TIFF"):
            there(file)


@pytest.mark.parametrize("more", ["", "space directions: (1,0,0) (0,1,0) (0,0,1)\nspace: LPS\n"])
def test_nrrd_with_more_kinds_than_axes(more: str, tmp_path: Path, there: Look) -> None:
    nrrd(tmp_path / "a.nrrd", f"{more}kinds: domain domain domain domain", bytes(120))
    with pytest.raises(DataError, match=r"a\.nrrd: its 'kinds' are 4 for 3 axes; correct the header"):
        there(tmp_path / "a.nrrd")


def test_netcdf_with_a_name_that_is_none(tmp_path: Path, there: Look) -> None:
    head = b"CDF\1" + struct.pack(">iii", 0, 10, 1) + struct.pack(">i", 5000) + b"x" * 5000 + struct.pack(">i", 4)
    (tmp_path / "a.nc").write_bytes(head + bytes(100))
    with pytest.raises(
        DataError, match=r"a\.nc: its header has a name of 5,000 letters, .*; it is damaged: copy"
    ) as caught:
        there(tmp_path / "a.nc")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("dtype", "word"), [("i2", "MET_SHORT"), ("f4", "MET_FLOAT")])
def test_metaimage_in_text(dtype: str, word: str, tmp_path: Path, there: Look) -> None:
    data = noise((4, 5, 6), dtype)
    text = " ".join(map(str, data.ravel().tolist())).encode()
    fields = f"NDims = 3\nDimSize = 6 5 4\nElementType = {word}\nBinaryData = False\nElementDataFile = "
    (tmp_path / "a.mha").write_bytes(fields.encode() + b"LOCAL\n" + text)
    assert np.array_equal(there(tmp_path / "a.mha").numbers(), data)
    (tmp_path / "b.mhd").write_bytes(fields.encode() + b"b.txt\n")
    (tmp_path / "b.txt").write_bytes(text)
    assert np.array_equal(there(tmp_path / "b.mhd").numbers(), data)
