"""Pages of a TIFF: whether they can be read, and which of them are slices of one volume."""

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
"""What the first of `alike` are, that must be."""
MUST = len(_ALIKE)
_OF_STORAGE = frozenset((256, 257, 258, 259, 262, 266, 274, 277, 278, 284, 317, 322, 323, 339, 32997, 32998))
"""Tags that say how the numbers of a page are stored."""
_GDAL_NODATA = 42113


@dataclass(frozen=True)
class Part:
    """Strips or tiles of one page."""

    file: str
    offsets: Sequence[int]
    counts: Sequence[int]

    @classmethod
    def of(cls, page: Any) -> Part:
        """That of a page."""
        return cls(page.parent.filehandle.path, page.dataoffsets, page.databytecounts)

    @property
    def never_written(self) -> int:
        """How many are nowhere and of no length: those of GDAL's sparse files. One that is only one of these was lost."""
        if 0 not in self.counts:
            return 0
        return sum(not offset and not count for offset, count in zip(self.offsets, self.counts, strict=False))

    def check(self, path: str, what: str) -> None:
        """Raises for strips or tiles that were lost.

        Raises:
            DataError: naming the file, and the page if `what` does.
        """
        if 0 not in self.counts and 0 not in self.offsets:
            return
        if any(bool(offset) != bool(count) for offset, count in zip(self.offsets, self.counts, strict=False)):
            raise DataError(f"{path}: {what} has a strip or tile without a place or a length; write it again")


def no_data(page: Any) -> float | None:
    """The number that stands for a missing value, where GDAL wrote one; whole numbers with all their digits."""
    tag = page.tags.get(_GDAL_NODATA)
    text = str(tag.value).strip().strip("\0") if tag is not None else ""
    try:
        return int(text)
    except ValueError:  # none, or no whole number
        pass
    try:
        found = float(text)
    except ValueError:  # none, or no number
        return None
    return int(found) if found.is_integer() else found


def fill_of(page: Any, dtype: str) -> float:
    """What stands where nothing was written, as GDAL has it: the number for a missing value, if the type has it, or 0."""
    found, kind = no_data(page), np.dtype(dtype)
    if found is None or kind.kind == "f":
        return found or 0
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    return found if isinstance(found, int) and least <= found <= most else 0


def coloured_of(page: Any, asked: str | None, guessed: list[str], *, measured: bool, leading: str = "") -> bool:
    """Whether what is shown of a page are the colours that its numbers have in a palette.

    They are unless the user asks for the numbers (`asked`, the kind), or these were measured: ImageJ gives a palette to what it
    measures.
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
    """Raises for a page that is not read; one that is converted may be of any codec.

    Raises:
        DataError: naming what it is, and how it would be read.
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
    """What pages of one volume have alike: `MUST` that must be, and how the numbers are stored."""
    tile = (page.tilewidth, page.tilelength) if page.is_tiled else (0, page.rowsperstrip)
    return (
        page.imagewidth, page.imagelength, page.samplesperpixel, str(page.dtype), int(page.planarconfig), int(page.photometric),
        orientation_of(page), int(page.compression), int(page.predictor), tile, page.parent.byteorder,
    )  # fmt: skip


def said(found: tuple[Any, ...]) -> str:
    """What `alike` found, for errors."""
    width, height, samples, dtype, planar, photometric, orientation, *_ = found
    return (
        f"{width} x {height} pixels of {samples} x {dtype} (planar configuration {planar}, photometric {photometric}, "
        f"orientation {orientation})"
    )


def stacked(path: str, file: Any, series: Any) -> Any:
    """A series with all pages of its size and type: tifffile has one for each way in which numbers are stored.

    Raises:
        DataError: if there are pages whose numbers are other colours.
    """
    if series.kind != "generic" or len(series.levels) > 1:
        return series
    first = series.keyframe
    same = [s for s in file.series if len(s.levels) == 1 and _kin(s.keyframe) == _kin(first)]
    # A level of a pyramid is behind a page, and not after it.
    pages = sorted((p for s in same for p in s.pages if len(p.treeindex) == 1), key=lambda p: int(p.index))
    if len(same) == 1 or len(pages) < 2 or len(first.treeindex) > 1:
        return series
    _check_alike(path, pages)
    key = pages[0]
    return type(series)(pages, (len(pages), *key.shape), key.dtype, "I" + key.axes, kind="generic")


def _kin(page: Any) -> tuple[Any, ...]:
    """What pages have alike that seem to be of one stack."""
    return (
        page.imagewidth, page.imagelength, page.imagedepth, page.samplesperpixel, str(page.dtype),
        int(page.subfiletype) & _REDUCED_OR_MASK,
    )  # fmt: skip


def _check_alike(path: str, pages: Sequence[Any]) -> None:
    """Raises for pages that are no slices of one volume."""
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
    """The pages of a series, each with what its own directory says, and whether they are stored in several ways.

    tifffile looks into few directories, and takes the others to be like the first.

    Raises:
        DataError: if they are no slices of one volume.
    """
    found: list[Any] = []
    ways: dict[tuple[int, int], Any] = {}
    raw: dict[int, list[tuple[bytes, ...]]] = {}
    for page in pages:
        own = page
        key = page.keyframe
        # A page that ImageJ or a microscope only counts has no directory; those of NDPI are written in a way of their own.
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
    """The entries of a page's directory that say how its numbers are stored, as they lie in the file."""
    tiff, handle = page.parent.tiff, page.parent.filehandle
    handle.seek(page.offset)
    (count,) = struct.unpack(tiff.tagnoformat, handle.read(tiff.tagnosize))
    raw, size = handle.read(count * tiff.tagsize), tiff.tagsize
    order: Literal["little", "big"] = "little" if tiff.byteorder == "<" else "big"
    entries = [raw[at : at + size] for at in range(0, len(raw), size)]
    # The value of several samples lies elsewhere, for each page at a place of its own: where it does is left out.
    return tuple(
        e if int.from_bytes(e[4 : size - tiff.tagoffsetthreshold], order) == 1 else e[: size - tiff.tagoffsetthreshold]
        for e in entries
        if int.from_bytes(e[:2], order) in _OF_STORAGE
    )
