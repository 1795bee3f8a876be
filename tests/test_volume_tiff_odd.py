"""TIFF files that were cut off, whose pages are stored in several ways, or whose slices are no pages."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError
from farfield.volume.formats.tiff import mixed_codings as tiff_mixed
from volume_files import Read

tifffile = pytest.importorskip("tifffile")
Look = Callable[..., Read]
Numbers = np.ndarray[Any, Any]


def noise(shape: tuple[int, ...], dtype: str) -> Numbers:
    return np.random.default_rng(9).integers(0, 200, shape).astype(dtype)


def cut(path: Path, by: int) -> None:
    """Takes bytes off the end of a file."""
    path.write_bytes(path.read_bytes()[:-by])


def one_directory(path: Path, data: Numbers) -> None:
    """An ImageJ stack as ImageJ writes one of more than 4 GB: a directory, and all slices after one another."""
    about = f"ImageJ=1.53t\nimages={len(data)}\nslices={len(data)}\n"
    tifffile.imwrite(path, data[0], description=about, metadata=None, byteorder=">")
    with tifffile.TiffFile(path) as file:
        start = file.pages[0].dataoffsets[0]
    path.write_bytes(path.read_bytes()[:start] + data.astype(">u2").tobytes())


def test_imagej_stacks_of_one_directory(tmp_path: Path, there: Look) -> None:
    data = noise((6, 7, 8), "u2")
    path = tmp_path / "a.tif"
    one_directory(path, data)
    assert np.array_equal(there(path).numbers(), data)
    cut(path, data[0].nbytes)
    with pytest.raises(
        DataError, match=r"a\.tif: ImageJ's description says 6 images of 112 bytes .* after 5 of them: .*cut off"
    ):
        there(path)


def test_a_slice_that_was_taken_out_of_an_imagej_stack(tmp_path: Path, there: Look) -> None:
    """As libtiff writes it: with the text of the stack, and its directory behind the numbers."""
    pil = pytest.importorskip("PIL.Image")
    data = noise((7, 8), "u1")
    pil.fromarray(data).save(
        tmp_path / "a.tif", compression="raw", tiffinfo={270: "ImageJ=1.53t\nimages=6\nslices=6\n"}
    )
    raw = (tmp_path / "a.tif").read_bytes()
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        page = file.pages[0]
        entries = [(t.offset, t.code) for t in page.tags.values()]
        start, at = page.dataoffsets[0], page.offset
    if at < start:  # Pillow writes its directory first: it is moved behind the numbers, and with it where it is
        count = 2 + 12 * len(entries) + 4
        moved = raw + raw[at : at + count]
        (tmp_path / "a.tif").write_bytes(moved[:4] + len(raw).to_bytes(4, "little") + moved[8:])
    assert np.array_equal(there(tmp_path / "a.tif").numbers()[0], data)


def ome(path: Path, data: Numbers) -> None:
    tifffile.imwrite(path, data, ome=True, photometric="minisblack", metadata={"axes": "TCZYX", "PhysicalSizeX": 0.1})


@pytest.mark.parametrize("by", [1, 100, 500])
def test_ome_tiffs_without_the_end_of_their_xml(by: int, tmp_path: Path, there: Look) -> None:
    ome(tmp_path / "a.ome.tif", noise((2, 3, 4, 20, 30), "u1"))
    there(tmp_path / "a.ome.tif")
    cut(tmp_path / "a.ome.tif", by)
    with pytest.raises(
        DataError, match=r"a\.ome\.tif: its tag ImageDescription \(270\) .* beyond the end of the file.*cut off"
    ):
        there(tmp_path / "a.ome.tif")


@pytest.mark.parametrize("within", [0, 60])
@pytest.mark.parametrize("shaped", [False, True])
def test_pyramids_without_their_levels(within: int, shaped: bool, tmp_path: Path, there: Look) -> None:
    data = noise((1, 128, 128), "u1")
    path = tmp_path / "a.tif"
    more: dict[str, Any] = {"tile": (32, 32), "photometric": "minisblack"} | ({} if shaped else {"metadata": None})
    with tifffile.TiffWriter(path) as writer:
        writer.write(data, subifds=2, **more)
        writer.write(data[:, ::2, ::2], subfiletype=1, **more)
        writer.write(data[:, ::4, ::4], subfiletype=1, **more)
    assert len(there(path).spec["levels"]) == 3
    with tifffile.TiffFile(path) as file:
        last = file.pages[0].subifds[1]
    path.write_bytes(path.read_bytes()[: last + within])
    with pytest.raises(DataError, match=r"a\.tif: .*cut off"):
        there(path)


@pytest.mark.parametrize("compression", [None, "zlib", "lzma"])
@pytest.mark.parametrize("rows", [3, 7])
def test_slices_in_one_page(compression: str | None, rows: int, tmp_path: Path, there: Look) -> None:
    data = noise((6, 7, 8), "u2")
    path = tmp_path / "a.tif"
    more: dict[str, Any] = {"photometric": "minisblack", "volumetric": True, "compression": compression}
    tifffile.imwrite(path, data, rowsperstrip=rows, **more)
    with tifffile.TiffFile(path) as file:
        assert file.pages[0].imagedepth == 6 and len(file.pages) == 1
    found = there(path)
    assert found.array["axes"] == "zyx" and np.array_equal(found.numbers(), data)
    (tmp_path / "slices").mkdir()
    for n in range(2):
        tifffile.imwrite(tmp_path / "slices" / f"s{n}.tif", data, **more)
    with pytest.raises(DataError, match=r"s0\.tif: this image has 6 slices.*open it by itself"):
        there(tmp_path / "slices")


@pytest.mark.parametrize("tile", [(16, 16, 16), None])
def test_slices_in_one_page_that_are_not_read(tile: tuple[int, ...] | None, tmp_path: Path, there: Look) -> None:
    data = noise((20, 33, 45), "u2") if tile else noise((3, 20, 33, 45), "u1")
    kind = {"photometric": "minisblack"} if tile else {"photometric": "rgb", "planarconfig": "separate"}
    tifffile.imwrite(tmp_path / "a.tif", data, tile=tile, volumetric=True, **kind)
    with pytest.raises(DataError, match=r"a\.tif: its (tiles are boxes|colours are apart).*SGI depth"):
        there(tmp_path / "a.tif")


def pages(path: Path, data: Numbers, ways: list[dict[str, Any]], **more: Any) -> None:
    """Writes a page a slice, each in the way that is its turn."""
    with tifffile.TiffWriter(path, byteorder=">") as writer:
        for n, one in enumerate(data):
            writer.write(one, metadata=None, contiguous=False, **ways[n % len(ways)], **more)


WAYS: dict[str, list[dict[str, Any]]] = {
    "compression": [{}, {"compression": "zlib"}, {"compression": "lzma"}],
    "rows": [{"compression": "zlib", "rowsperstrip": n} for n in (3, 4, 5)],
    "predictor": [{"compression": "zlib"}, {"compression": "zlib", "predictor": True}],
    "tiles": [{"compression": "zlib", "tile": (16, 16)}, {"compression": "zlib"}],
}


@pytest.mark.parametrize("what", WAYS)
@pytest.mark.parametrize("colours", [False, True])
def test_pages_that_are_stored_in_several_ways(
    what: str, colours: bool, tmp_path: Path, there: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiff_mixed, "_BAND", 7 * 30 * 2)
    data = noise((6, 20, 30, 3) if colours else (6, 20, 30), "u2")
    pages(tmp_path / "a.tif", data, WAYS[what], photometric="rgb" if colours else "minisblack")
    found = there(tmp_path / "a.tif")
    for n in range(3 if colours else 1):
        assert np.array_equal(found.numbers(n), data[..., n] if colours else data)
    assert "series of pages" not in found.guessed and "has pages that are stored in several ways" in found.said[0]


def test_pages_that_are_stored_in_several_ways_where_tifffile_does_not_look(tmp_path: Path, there: Look) -> None:
    """It holds the second, the eighth and the last page against the first one, and takes the others to be alike."""
    data = noise((12, 20, 30), "u2")
    ways: list[dict[str, Any]] = [{"compression": "zlib"}] * 12
    ways[3] = ways[9] = {}
    pages(tmp_path / "a.tif", data, ways, photometric="minisblack")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        assert len(file.series) == 1
    assert np.array_equal(there(tmp_path / "a.tif").numbers(), data)


def test_colours_apart_that_are_stored_in_several_ways(tmp_path: Path, there: Look) -> None:
    data = noise((4, 3, 20, 30), "u1")
    pages(tmp_path / "a.tif", data, WAYS["rows"], photometric="rgb", planarconfig="separate")
    found = there(tmp_path / "a.tif")
    assert all(np.array_equal(found.numbers(n), data[:, n]) for n in range(3))


def test_stored_numbers_in_strips_of_several_heights(tmp_path: Path, there: Look) -> None:
    data = noise((4, 20, 30), "u1")
    pages(tmp_path / "a.tif", data, [{"rowsperstrip": 3}, {"rowsperstrip": 20}], photometric="minisblack")
    assert np.array_equal(there(tmp_path / "a.tif").numbers(), data)


@pytest.mark.parametrize("number", [4, 12])
def test_pages_of_which_some_are_white_at_zero(number: int, tmp_path: Path, there: Look) -> None:
    ways = [{"photometric": "minisblack"}] * number
    ways[2] = {"photometric": "miniswhite"}
    pages(tmp_path / "a.tif", noise((number, 20, 30), "u1"), ways)
    with pytest.raises(
        DataError, match=r"a\.tif: its page 2 is of another kind than page 0 \(photometric interpretation 0 and not 1\)"
    ):
        there(tmp_path / "a.tif")


def test_pages_of_several_types(tmp_path: Path, there: Look) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as writer:
        for n in range(4):
            writer.write(noise((20, 30), "iu"[n % 2] + "2"), metadata=None, contiguous=False, photometric="minisblack")
    said = "(2 x 20 x 30 of int16, 2 x 20 x 30 of uint16) the first of the largest is shown"
    assert said in there(tmp_path / "a.tif").guessed


def ome_set(folder: Path, data: Numbers, *, alone: bool = False, companion: bool = False) -> None:
    """Writes a file a slice, all of which name all; with `alone` only the first does, and the others name it; with `companion` all
    name a file that does.
    """
    folder.mkdir()
    ids = [f"urn:uuid:{n}1111111-1111-1111-1111-111111111111" for n in range(len(data))]
    high, wide = data.shape[1:]
    parts = "".join(
        f'<TiffData IFD="0" FirstZ="{n}" PlaneCount="1"><UUID FileName="s{n}.ome.tif">{i}</UUID></TiffData>'
        for n, i in enumerate(ids)
    )
    for n, one in enumerate([*data, *([None] if companion else [])]):
        inner = (
            f'<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYZCT" Type="uint16" SizeX="{wide}" SizeY="{high}" '
            f'SizeZ="{len(data)}" SizeC="1" SizeT="1" PhysicalSizeX="0.3" PhysicalSizeY="0.3" PhysicalSizeZ="1.5">{parts}'
            "</Pixels></Image>"
        )
        if alone and n != 1:
            inner = f'<BinaryOnly MetadataFile="s1.ome.tif" UUID="{ids[1]}"/>'
        if companion and one is not None:
            inner = '<BinaryOnly MetadataFile="set.companion.ome" UUID="urn:uuid:0"/>'
        own = "urn:uuid:0" if one is None else ids[n]
        about = f'<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="{own}">{inner}</OME>'
        if one is None:
            (folder / "set.companion.ome").write_text(about)
            continue
        tifffile.imwrite(folder / f"s{n}.ome.tif", one, description=about, metadata=None, photometric="minisblack")


@pytest.mark.parametrize("alone", [False, True])
def test_folders_that_are_one_ome_tiff(alone: bool, tmp_path: Path, there: Look) -> None:
    data = noise((4, 20, 30), "u2")
    ome_set(tmp_path / "set", data, alone=alone)
    for source in (tmp_path / "set", tmp_path / "set" / "*.tif"):
        found = there(source)
        assert (
            found.spec["format"] == "OME-TIFF"
            and found.spec["length_unit"] == "um"
            and found.spec["path"] == str(source)
        )
        assert found.level["spacing"] == [0.3, 0.3, 1.5] and "--spacing" not in found.guessed
        assert np.array_equal(found.numbers(), data)
    # Who names some of the files wants these.
    assert np.array_equal(there(tmp_path / "set" / "s[12].ome.tif").numbers(), data[1:3])


@pytest.mark.parametrize("compression", [None, "zlib", "lzma"])
def test_a_companion_says_what_files_are(compression: str | None, tmp_path: Path, there: Look) -> None:
    data = noise((4, 20, 30), "u2")
    folder = tmp_path / "set"
    ome_set(folder, data, companion=True)
    if compression is not None:  # what is converted too
        for n, one in enumerate(data):
            file = folder / f"s{n}.ome.tif"
            about = tifffile.tiffcomment(file)
            tifffile.imwrite(
                file, one, description=about, metadata=None, photometric="minisblack", compression=compression
            )
    for source in ("set.companion.ome", "s0.ome.tif", "s3.ome.tif", "", "*.tif"):
        found = there(folder / source)
        assert found.spec["format"] == "OME-TIFF" and found.spec["path"] == str(folder / source)
        assert (found.level["spacing"], found.spec["length_unit"]) == ([0.3, 0.3, 1.5], "um")
        assert np.array_equal(found.numbers(), data)
        said = "it is a part of an OME-TIFF, all of which is shown: set.companion.ome says what it is"
        assert (said in found.guessed) == source.startswith("s") * (source != "set.companion.ome")
        assert {str(folder / f"s{n}.ome.tif") for n in range(4)} <= set(
            found.description.reads
        ) or compression == "lzma"
    assert np.array_equal(there(folder / "s[12].ome.tif").numbers(), data[1:3])


def test_companions_in_other_orders(tmp_path: Path, there: Look) -> None:
    """Files lie as the XML says, not as their names do."""
    data = noise((4, 20, 30), "u2")
    ome_set(tmp_path / "set", data, companion=True)
    companion = tmp_path / "set" / "set.companion.ome"
    text = companion.read_text()
    for n in range(4):
        text = text.replace(f'FirstZ="{n}"', f'FirstZ=" {3 - n}"')
    companion.write_text(text.replace('FirstZ=" ', 'FirstZ="'))
    for source in ("set.companion.ome", "s0.ome.tif", ""):
        assert np.array_equal(there(tmp_path / "set" / source).numbers(), data[::-1])


def test_sets_that_lack_a_file(tmp_path: Path, there: Look) -> None:
    data = noise((4, 20, 30), "u2")
    folder = tmp_path / "set"
    ome_set(folder, data, companion=True)
    text = (folder / "set.companion.ome").read_text()
    (folder / "set.companion.ome").unlink()
    for source in ("s1.ome.tif", ""):
        said = r"s\d\.ome\.tif: this file is one of an OME-TIFF of several, of which set\.companion\.ome says what they are"
        with pytest.raises(DataError, match=rf"{said}, and that is not there; copy it here too"):
            there(folder / source)
    assert np.array_equal(there(folder / "*.tif").numbers(), data)
    (folder / "set.companion.ome").write_text(text)
    (folder / "s2.ome.tif").unlink()
    for source in ("set.companion.ome", "s1.ome.tif"):
        with pytest.raises(
            DataError, match=r"series is missing; files of it are not here \(s2\.ome\.tif\): copy all of it"
        ):
            there(folder / source)
    for n in (0, 1, 3):
        (folder / f"s{n}.ome.tif").unlink()
    with pytest.raises(
        DataError, match=r"companion\.ome: none of the TIFF files that it names is there \(s0\.ome\.tif, "
    ):
        there(folder / "set.companion.ome")
    (folder / "set.companion.ome").write_text('<OME xmlns="x"><Image/></OME>')
    with pytest.raises(DataError, match=r"companion\.ome: this is OME-XML that names no TIFF files"):
        there(folder / "set.companion.ome")
    (folder / "set.companion.ome").write_text('<OME xmlns="x"><Image>')
    with pytest.raises(DataError, match=r"companion\.ome: its XML cannot be read"):
        there(folder / "set.companion.ome")


@pytest.mark.parametrize("name", ["second", "first", None])
def test_sets_of_which_an_image_is_not_here(name: str | None, tmp_path: Path, there: Look) -> None:
    """What is said of another one is not taken for it."""
    data = noise((4, 20, 30), "u2")
    ome_set(tmp_path / "set", data, companion=True)
    companion = tmp_path / "set" / "set.companion.ome"
    text = companion.read_text()
    image = text[text.index("<Image") : text.index("</OME>")]
    other = image.replace("0.3", "7").replace("s0.", "t0.").replace(">urn:uuid:", ">urn:uuid:9")
    other = re.sub(r"s(\d)\.ome", r"t\1.ome", other)
    named = image.replace("<Image", f'<Image Name="{name}"' if name else "<Image")
    companion.write_text(
        text.replace(image, other.replace("<Image", '<Image Name="first"' if name else "<Image") + named)
    )
    found = there(companion)
    assert np.array_equal(found.numbers(), data)
    assert found.level["spacing"] == ([0.3, 0.3, 1.5] if name == "second" else [1, 1, 1])
    assert ("1 of its 2 images are here, and nothing says which" in found.guessed) == (name != "second")


def test_a_set_whose_files_name_each_other(tmp_path: Path, there: Look) -> None:
    for n in range(2):
        about = f'<OME xmlns="x"><BinaryOnly MetadataFile="s{1 - n}.ome.tif" UUID="urn:uuid:1"/></OME>'
        tifffile.imwrite(tmp_path / f"s{n}.ome.tif", noise((20, 30), "u2"), description=about, metadata=None)
    with pytest.raises(DataError, match=r"s0\.ome\.tif: its OME-XML says that s1\.ome\.tif describes the images"):
        there(tmp_path / "s0.ome.tif")


def test_folders_that_are_not_all_of_an_ome_tiff(tmp_path: Path, there: Look) -> None:
    data = noise((4, 20, 30), "u2")
    ome_set(tmp_path / "set", data)
    tifffile.imwrite(tmp_path / "set" / "s4.tif", data[0], photometric="minisblack")
    found = there(tmp_path / "set")
    assert found.spec["format"] == "TIFF images" and found.level["dims"] == [30, 20, 5]
    (tmp_path / "set" / "s4.tif").unlink()
    (tmp_path / "set" / "s2.ome.tif").unlink()
    with pytest.raises(
        DataError, match=r"s0\.ome\.tif: a page of its series is missing; files of it are not here \(s2\.ome\.tif\)"
    ):
        there(tmp_path / "set")


@pytest.mark.parametrize("how", ["palette", "bits", "zlib"])
@pytest.mark.parametrize("folder", [False, True])
def test_cut_off_where_pages_are_decoded(how: str, folder: bool, tmp_path: Path, there: Look) -> None:
    data = noise((40, 50), "u1")
    more: dict[str, Any] = {"photometric": "minisblack"}
    if how == "palette":
        more = {
            "photometric": "palette",
            "colormap": np.random.default_rng(1).integers(0, 65535, (3, 256)).astype("u2"),
        }
    elif how == "zlib":
        more["compression"] = "zlib"
    path = tmp_path / "slices" / "s0.tif"
    path.parent.mkdir()
    tifffile.imwrite(path, data if how == "palette" else data > 100, metadata=None, **more)
    tifffile.imwrite(path.with_name("s1.tif"), data if how == "palette" else data > 100, metadata=None, **more)
    there(path.parent if folder else path)
    cut(path, 30)
    with pytest.raises(DataError, match=r"s0\.tif: its page 0 has data up to byte .*: it was cut off; copy it again"):
        there(path.parent if folder else path)


def test_damaged_where_pages_are_decoded(tmp_path: Path, there: Look) -> None:
    tifffile.imwrite(tmp_path / "a.tif", noise((40, 50), "u1") > 100, photometric="minisblack", compression="zlib")
    with tifffile.TiffFile(tmp_path / "a.tif") as file:
        at = file.pages[0].dataoffsets[0]
    raw = bytearray((tmp_path / "a.tif").read_bytes())
    raw[at : at + 8] = bytes(8)
    (tmp_path / "a.tif").write_bytes(raw)
    with pytest.raises(
        DataError, match=r"a\.tif: its numbers \(1 bits, .*could not be decoded .*copy it again"
    ) as raised:
        there(tmp_path / "a.tif")
    assert "imagecodecs" not in str(raised.value)


@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("back", [0, 1, 3])
def test_directories_that_lead_back(bigtiff: bool, back: int, tmp_path: Path, there: Look) -> None:
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path, bigtiff=bigtiff) as writer:
        for one in noise((4, 20, 30), "u1"):
            writer.write(one, metadata=None, contiguous=False, photometric="minisblack", compression="zlib")
    assert there(path).level["dims"] == [30, 20, 4]
    with tifffile.TiffFile(path) as file:
        offsets = [page.offset for page in file.pages]
        tiff = file.tiff
    raw = bytearray(path.read_bytes())
    (count,) = struct.unpack_from(tiff.tagnoformat, raw, offsets[3])
    struct.pack_into(tiff.offsetformat, raw, offsets[3] + tiff.tagnosize + count * tiff.tagsize, offsets[back])
    path.write_bytes(raw)
    with pytest.raises(
        DataError, match=rf"a\.tif: behind its directory number 4 comes one .* at byte {offsets[back]:,}"
    ):
        there(path)


def test_a_directory_of_more_entries_than_any_file_has(tmp_path: Path, there: Look) -> None:
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path, bigtiff=True) as writer:
        for one in noise((3, 20, 30), "u1"):
            writer.write(one, metadata=None, contiguous=False, photometric="minisblack")
    with tifffile.TiffFile(path) as file:
        second = file.pages[1].offset
    raw = bytearray(path.read_bytes())
    struct.pack_into("<Q", raw, second, 1 << 61)
    path.write_bytes(raw)
    with pytest.raises(DataError, match=r"a\.tif: its TIFF directories (are not whole|cannot be read)"):
        there(path)
