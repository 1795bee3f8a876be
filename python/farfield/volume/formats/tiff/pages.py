"""Pages of a TIFF: support of their encoding, and selection of the slices of one volume."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from farfield.errors import DataError
from farfield.volume.formats.tiff import decoded as tiff_decoded
from farfield.volume.formats.tiff.placement import orientation_of

if TYPE_CHECKING:
    from tifffile import TiffPage

CODECS: dict[int, list[dict[str, Any]]] = {
    1: [],
    5: [{"name": "lzw"}],
    8: [{"name": "zlib"}],
    32946: [{"name": "zlib"}],
    32773: [{"name": "packbits"}],
    50000: [{"name": "zstd"}],
    34926: [{"name": "zstd"}],
}
JPEG = 7
YCBCR = 6
_REDUCED_OR_MASK = 5
"""Bits of NewSubfileType of a page that is a thumbnail or a mask of another one."""
_ALIKE = ("width", "height", "samples", "type", "planar configuration", "photometric interpretation", "orientation")
"""Names of the first properties of `alike`, which must be equal."""
MUST = len(_ALIKE)
_OF_STORAGE = frozenset((256, 257, 258, 259, 262, 266, 274, 277, 278, 284, 317, 322, 323, 339, 32997, 32998))
"""Tags that describe how the numbers of a page are stored."""
_GDAL_NODATA = 42113


@dataclass(frozen=True)
class Part:
    """The strips or tiles of one page."""

    file: str
    offsets: Sequence[int]
    counts: Sequence[int]

    @classmethod
    def of(cls, page: Any) -> Part:
        """The part of a page."""
        return cls(page.parent.filehandle.path, page.dataoffsets, page.databytecounts)

    @property
    def never_written(self) -> int:
        """The number of segments without offset and length, as in sparse files of GDAL. A segment with only one of
        these missing is lost."""
        if 0 not in self.counts:
            return 0
        return sum(not offset and not count for offset, count in zip(self.offsets, self.counts, strict=False))

    def check(self, path: str, what: str) -> None:
        """Raises for lost strips or tiles.

        Raises:
            DataError: naming the file, and the page with `what`.
        """
        if 0 not in self.counts and 0 not in self.offsets:
            return
        if any(bool(offset) != bool(count) for offset, count in zip(self.offsets, self.counts, strict=False)):
            raise DataError(f"{path}: {what} has a strip or tile without a place or a length; write it again")


def no_data(page: Any) -> float | None:
    """The missing value that GDAL wrote; integers with all digits. None without one."""
    tag = page.tags.get(_GDAL_NODATA)
    text = str(tag.value).strip().strip("\0") if tag is not None else ""
    try:
        return int(text)
    except ValueError:  # absent, or no integer
        pass
    try:
        found = float(text)
    except ValueError:  # absent, or no number
        return None
    return int(found) if found.is_integer() else found


def fill_of(page: Any, dtype: str) -> float:
    """The value of unwritten pixels, as in GDAL: the missing value if the type can hold it, else 0."""
    found, kind = no_data(page), np.dtype(dtype)
    if found is None or kind.kind == "f":
        return found or 0
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    return found if isinstance(found, int) and least <= found <= most else 0


def coloured_of(page: Any, asked: str | None, guessed: list[str], *, measured: bool, leading: str = "") -> bool:
    """Whether a page shows the colours of its palette.

    It does, unless the user asks for numbers (`asked`, the kind) or the numbers are measurements: ImageJ adds a
    palette to those.
    """
    if not tiff_decoded.is_palette(page):
        return False
    if asked not in (None, "rgb"):
        return False
    if asked is None and measured:
        guessed.append("its numbers have colours in a palette too: --kind rgb shows these")
        return False
    if "C" in leading:
        guessed.append("its channels have colours in palettes, which are not shown")
        return False
    if not tiff_decoded.knows_codec(page):
        guessed.append(
            "its numbers are those of colours in a palette, and shown as they are: to decode it for its colours needs imagecodecs "
            "(pip install imagecodecs)"
        )
        return False
    guessed.append("its colours are in a palette: --kind scalar, or labels, shows their numbers instead")
    return True


def check(path: str, page: TiffPage, *, converted: bool = False) -> None:
    """Raises for an unsupported page; a converted page may have any codec.

    Raises:
        DataError: naming the problem and a remedy.
    """
    code = int(page.compression)
    if code not in CODECS and code != JPEG and not converted:
        raise DataError(
            f"{path}: its numbers are compressed as {getattr(page.compression, 'name', code)}, which is not read; "
            "write it again with deflate, LZW or zstd (tiffcp -c zip, or tifffile)"
        )
    bits = page.bitspersample
    if page.dtype is None or (bits not in (8, 16, 32, 64) and not converted):
        raise DataError(
            f"{path}: it has {bits} bits a sample, and 8, 16, 32 or 64 are read; write it again with one of these"
        )
    if int(page.fillorder) != 1:
        raise DataError(f"{path}: its bits are in reverse order (FillOrder 2); write it again (tiffcp -f msb2lsb)")
    if int(page.photometric) == YCBCR and code in CODECS:
        raise DataError(f"{path}: its colours are YCbCr without JPEG; write it again as RGB")
    if int(page.sampleformat) not in (1, 2, 3) and not tiff_decoded.is_complex(page):
        raise DataError(
            f"{path}: its samples are of format {page.sampleformat}, which is none of numbers; convert it to float32"
        )
    depth = max(int(getattr(page, f"{of}depth", 1) or 1) for of in ("image", "tile"))
    separate = int(page.planarconfig) == 2 and int(page.samplesperpixel) > 1
    if depth > 1 and (page.is_tiled or separate):
        what = "tiles are boxes" if page.is_tiled else "colours are apart, each with slices of its own"
        raise DataError(f"{path}: its {what} (SGI depth), which are not read; write it with one page a slice")
    if int(page.predictor) not in (1, 2, 3):
        raise DataError(f"{path}: its predictor {page.predictor} is not read; write it again with predictor 1, 2 or 3")


def alike(page: Any) -> tuple[Any, ...]:
    """Properties that pages of one volume share: `MUST` equal ones, and the way of storage."""
    tile = (page.tilewidth, page.tilelength) if page.is_tiled else (0, page.rowsperstrip)
    return (
        page.imagewidth, page.imagelength, page.samplesperpixel, str(page.dtype), int(page.planarconfig), int(page.photometric),
        orientation_of(page), int(page.compression), int(page.predictor), tile, page.parent.byteorder,
    )  # fmt: skip


def said(found: tuple[Any, ...]) -> str:
    """Text of the properties of `alike`, for errors."""
    width, height, samples, dtype, planar, photometric, orientation, *_ = found
    return (
        f"{width} x {height} pixels of {samples} x {dtype} (planar configuration {planar}, photometric {photometric}, "
        f"orientation {orientation})"
    )


def stacked(path: str, file: Any, series: Any) -> Any:
    """A series with all pages of its size and type. tifffile makes a series for each way of storage.

    Raises:
        DataError: if there are pages with other colours.
    """
    if series.kind != "generic" or len(series.levels) > 1:
        return series
    first = series.keyframe
    same = [s for s in file.series if len(s.levels) == 1 and _kin(s.keyframe) == _kin(first)]
    # Levels of a pyramid are subordinate to a page; they do not follow it.
    pages = sorted((p for s in same for p in s.pages if len(p.treeindex) == 1), key=lambda p: int(p.index))
    if len(same) == 1 or len(pages) < 2 or len(first.treeindex) > 1:
        return series
    _check_alike(path, pages)
    key = pages[0]
    return type(series)(pages, (len(pages), *key.shape), key.dtype, "I" + key.axes, kind="generic")


def _kin(page: Any) -> tuple[Any, ...]:
    """Properties of pages that probably belong to one stack."""
    return (
        page.imagewidth, page.imagelength, page.imagedepth, page.samplesperpixel, str(page.dtype),
        int(page.subfiletype) & _REDUCED_OR_MASK,
    )  # fmt: skip


def _check_alike(path: str, pages: Sequence[Any]) -> None:
    """Raises for pages that are not slices of one volume."""
    first = alike(pages[0].keyframe)
    for page in pages:
        found = alike(page.keyframe)
        if found[:MUST] != first[:MUST]:
            differ = ", ".join(f"{w} {a} and not {b}" for w, a, b in zip(_ALIKE, found, first, strict=False) if a != b)
            raise DataError(
                f"{path}: its page {page.index} is of another kind than page {pages[0].index} ({differ}), and they are no "
                "slices of one volume; write all of them as the same kind of image, or split it"
            )


def as_stored(path: str, pages: Sequence[Any]) -> tuple[list[Any], bool]:
    """The pages of a series, each with its own directory, and whether they are stored in several ways.

    tifffile reads few directories, and assumes that the others are like the first.

    Raises:
        DataError: if they are not slices of one volume.
    """
    found: list[Any] = []
    ways: dict[tuple[int, int], Any] = {}
    raw: dict[int, list[tuple[bytes, ...]]] = {}
    for page in pages:
        own = page
        key = page.keyframe
        # Pages that ImageJ or a microscope only counts have no directory; NDPI encodes its own differently.
        if own is not key and own.offset > 0 and not page.parent.tiff.is_ndpi:
            with tiff_decoded.opened(page), tiff_decoded.opened(key):
                if id(key) not in raw:
                    raw[id(key)] = [_storage(key)]
                if _storage(own) not in raw[id(key)]:
                    own = page.aspage()
                    if own.hash == key.hash and orientation_of(own) == orientation_of(key):
                        raw[id(key)].append(_storage(own))
                        own = page
        found.append(own)
        ways.setdefault((own.hash, orientation_of(own)), own)
    if len(ways) > 1:
        _check_alike(path, list(ways.values()))
    return found, len(ways) > 1


def _storage(page: Any) -> tuple[bytes, ...]:
    """Entries of a page's directory that describe its storage, as raw bytes."""
    tiff, handle = page.parent.tiff, page.parent.filehandle
    handle.seek(page.offset)
    (count,) = struct.unpack(tiff.tagnoformat, handle.read(tiff.tagnosize))
    raw, size = handle.read(count * tiff.tagsize), tiff.tagsize
    order: Literal["little", "big"] = "little" if tiff.byteorder == "<" else "big"
    entries = [raw[at : at + size] for at in range(0, len(raw), size)]
    # Values of several samples are stored elsewhere, at another offset for each page; ignore the offset.
    return tuple(
        e if int.from_bytes(e[4 : size - tiff.tagoffsetthreshold], order) == 1 else e[: size - tiff.tagoffsetthreshold]
        for e in entries
        if int.from_bytes(e[:2], order) in _OF_STORAGE
    )
