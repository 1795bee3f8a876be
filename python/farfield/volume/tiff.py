"""TIFF and OME-TIFF: strips and tiles of stacks of pages and of pyramids, paged where they lie. tifffile reads the directories."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.volume import tiff_about, tiff_decoded
from farfield.volume.conversion import converted
from farfield.volume.description import (
    Array,
    Channel,
    Level,
    Volume,
    colour_channels,
    contiguous,
    dtype_of,
    in_table,
    planes,
    table_of,
    text_of,
)
from farfield.volume.files import stem
from farfield.volume.listening import heard
from farfield.volume.optional import need
from farfield.volume.options import Means, Options
from farfield.volume.tiff_strips import strip_pieces

if TYPE_CHECKING:
    from tifffile import TiffPage, TiffPageSeries

LARGEST_CHUNK = 64 << 20
"""A compressed strip that is longer is converted: a page of memory would be as large."""
_ROWS_BYTES = 256 << 10
"""About so many bytes of rows are a chunk of numbers that are not compressed."""
_CODECS: dict[int, list[dict[str, Any]]] = {
    1: [],
    5: [{"name": "lzw"}],
    8: [{"name": "zlib"}],
    32946: [{"name": "zlib"}],
    32773: [{"name": "packbits"}],
    50000: [{"name": "zstd"}],
    34926: [{"name": "zstd"}],
}
_JPEG = 7
_YCBCR = 6
# A JPEG stream that says nothing of its colours is taken as YCbCr: an Adobe marker with transform 0 says that it is RGB.
_ADOBE_RGB = "ffee000e41646f626500640000000000"


@dataclass(frozen=True)
class _Part:
    """Strips or tiles of one page."""

    file: str
    offsets: Sequence[int]
    counts: Sequence[int]


def _part(page: Any) -> _Part:
    return _Part(page.parent.filehandle.path, page.dataoffsets, page.databytecounts)


def read(path: str, options: Options, means: Means) -> Volume:
    """The volume in a TIFF file.

    Raises:
        DataError: if it is damaged, or its numbers are written in a way that is not read here.
        UsageError: if tifffile is not installed.
    """
    tifffile = need("tifffile", f"{path}: TIFF files")
    try:
        with heard("tifffile") as complaints, tifffile.TiffFile(path) as file:
            volume = _volume(path, file, options.kind, means)
    except FarfieldError:
        raise
    except (OSError, MemoryError, RecursionError):
        raise
    except Exception as error:  # tifffile raises whatever comes of a damaged directory
        raise DataError(
            f"{path}: its TIFF directories cannot be read ({_short(error)}): it was cut off or changed; copy it again"
        ) from error
    # A directory that is not there is only logged, and the pages before it would be taken for all.
    fatal = next((c for c in complaints if "page" in c or "ifd" in c.lower()), None)
    if fatal is not None:
        raise DataError(
            f"{path}: its TIFF directories are not whole ({fatal[:160]}): it was cut off or changed; copy it again"
        )
    volume.guessed += [f"tifffile says: {c[:160]}" for c in complaints[:3]]
    return volume


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:160]}"


def _volume(path: str, file: Any, asked: str | None, means: Means) -> Volume:
    if not file.series or not file.pages:
        raise DataError(f"{path}: it holds no image; it was cut off: copy it again")
    series = max(file.series, key=lambda s: math.prod(s.shape))
    guessed: list[str] = []
    coloured = _coloured(series.keyframe, asked, guessed, measured=bool(file.is_imagej), leading=series.axes)
    if len(file.series) > 1:
        sizes = ", ".join(text_of(s.shape) for s in file.series[:6])
        guessed.append(f"of its {len(file.series)} series of pages ({sizes}) the largest is shown")
    about = tiff_about.of(path, file, series, guessed)
    levels: list[Level] = []
    tables: list[bytes] = []
    reads = [path]
    for n, level in enumerate(series.levels):
        array = _array(path, n, level, means, tables, reads, guessed if n == 0 else [], coloured=coloured)
        levels.append(Level([array]))
    first = levels[0].arrays[0]
    levels = [level for level in levels if _is_level(first, level.arrays[0])]
    _place_levels(levels, about)
    kind, channels = _channels(stem(path), first, series.keyframe, about)
    steps = first.length("t")
    return Volume(
        path=path,
        format=about.format,
        levels=levels,
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit=about.length_unit,
        times=[about.time_step * t for t in range(steps)] if steps > 1 and about.time_step else [],
        time_units=about.time_units if steps > 1 and about.time_step else "1",
        tables=tables,
        reads=list(dict.fromkeys(reads)),
    )


def _coloured(page: Any, asked: str | None, guessed: list[str], *, measured: bool, leading: str = "") -> bool:
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


def _is_level(first: Array, other: Array) -> bool:
    """Whether an array is a level of the first one's image: a label or a thumbnail is none."""
    same = all(first.length(a) == other.length(a) for a in "tc") and first.dtype == other.dtype
    return same and all(1 <= o <= f for f, o in zip(first.dims, other.dims, strict=True))


def _place_levels(levels: list[Level], about: tiff_about.About) -> None:
    first = levels[0].arrays[0].dims
    for level in levels:
        ratio = [max(1.0, float(round(f / o))) for f, o in zip(first, level.arrays[0].dims, strict=True)]
        a, b, c = (s * r for s, r in zip(about.spacing, ratio, strict=True))
        x, y, z = (o + s * (r - 1) / 2 for o, s, r in zip(about.origin, about.spacing, ratio, strict=True))
        level.spacing, level.origin = (a, b, c), (x, y, z)


def _channels(name: str, array: Array, page: Any, about: tiff_about.About) -> tuple[str, list[Channel]]:
    count = array.length("c")
    if int(page.samplesperpixel) == 1 and array.axes.endswith("c"):
        return colour_channels(count)
    if int(page.photometric) in (2, _YCBCR) and array.axes.endswith("c") and count in (3, 4):
        return colour_channels(count)
    if int(page.photometric) in (2, _YCBCR) and count in (3, 4) and page.samplesperpixel == count:
        return colour_channels(count)
    made = []
    for n in range(count):
        known = about.channels[n] if n < len(about.channels) else None
        made.append(known or Channel(name if count == 1 else f"channel {n}"))
    return ("scalar" if count == 1 else "channels"), made


def _array(
    path: str,
    number: int,
    level: TiffPageSeries,
    means: Means,
    tables: list[bytes],
    reads: list[str],
    guessed: list[str],
    *,
    coloured: bool = False,
) -> Array:
    page = level.keyframe
    pages = list(level.pages)
    if any(p is None for p in pages):
        raise DataError(
            f"{path}: a page of its series is missing; it was cut off, or its other files are not here: copy all of it"
        )
    why = tiff_decoded.reason(page, [*_CODECS, _JPEG], coloured=coloured)
    _check_page(path, page, converted=why is not None)
    dtype, big = dtype_of(np.dtype(level.dtype).newbyteorder(page.parent.byteorder), path)
    separate = int(page.planarconfig) == 2 and page.samplesperpixel > 1
    samples = int(page.samplesperpixel)
    leading = _leading(path, level, page, guessed)
    parts = [_part(p) for p in pages]
    y, x = int(page.imagelength), int(page.imagewidth)
    axes = "".join(a for a, _ in leading)
    shape = tuple(n for _, n in leading)
    if samples > 1 and "c" in axes:
        raise DataError(f"{path}: it has channels of {samples} samples each; write it with one sample a channel")
    if coloured:
        dtype, samples, axes, shape = "uint8", 3, axes + "yxc", (*shape, y, x, 3)
    elif samples > 1 and separate:
        axes, shape = axes + "cyx", (*shape, samples, y, x)
    elif samples > 1:
        axes, shape = axes + "yxc", (*shape, y, x, samples)
    else:
        axes, shape = axes + "yx", (*shape, y, x)
    name = stem(path) if number == 0 else f"{stem(path)}, level {number}"
    array = Array(name, dtype, shape, axes, {}, list(range(samples)), big_endian=big and np.dtype(dtype).itemsize > 1)
    array.channels = list(range(array.length("c")))
    if math.prod(n for _, n in leading) != len(parts) and level.dataoffset is None:
        raise DataError(
            f"{path}: its {text_of(shape)} numbers are in {len(parts)} pages, which do not go together; write it again"
        )
    if why is not None:
        _decoded(path, array, page, pages, why, means, reads, coloured=coloured)
        return array
    if level.dataoffset is not None and int(page.compression) == 1:
        start = int(level.dataoffset)
        _need_bytes(path, parts[0].file, start, array)
        array.place = contiguous(parts[0].file, start)
        reads.append(parts[0].file)
        return array
    _chunked(path, array, page, parts, means, tables, reads)
    return array


def _decoded(
    path: str,
    array: Array,
    page: TiffPage,
    pages: Sequence[Any],
    why: str,
    means: Means,
    reads: list[str],
    *,
    coloured: bool = False,
) -> None:
    """Pages that tifffile decodes, in the cache."""
    try:
        made = converted(
            path,
            means,
            count=array.bytes,
            why=why,
            how=f"{array.name}, colours" if coloured else array.name,
            write=tiff_decoded.writer(path, array, pages, coloured=coloured),
            files=list(dict.fromkeys(_part(p).file for p in pages)),
        )
    except (FarfieldError, OSError, MemoryError):
        raise
    except Exception as error:  # decoders raise whatever they like
        raise tiff_decoded.failed(path, page, error) from error
    array.big_endian, array.place = False, contiguous(made.path, 0)
    reads.append(made.path)


def _check_page(path: str, page: TiffPage, *, converted: bool = False) -> None:
    code = int(page.compression)
    if code not in _CODECS and code != _JPEG and not converted:
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
    if int(page.photometric) == _YCBCR and code in _CODECS:
        raise DataError(f"{path}: its colours are YCbCr without JPEG; write it again as RGB")
    if int(page.sampleformat) not in (1, 2, 3):
        raise DataError(
            f"{path}: its samples are of format {page.sampleformat}, which is none of numbers; convert it to float32"
        )
    if int(page.predictor) not in (1, 2, 3):
        raise DataError(f"{path}: its predictor {page.predictor} is not read; write it again with predictor 1, 2 or 3")


def _leading(path: str, level: TiffPageSeries, page: TiffPage, guessed: list[str]) -> list[tuple[str, int]]:
    """What the pages of a level count, slowest first; without dimensions of length 1."""
    letters = {"T": "t", "C": "c", "Z": "z", "L": "t"}
    inner = len(page.shape)
    axes, shape = level.axes, level.shape
    outer = len(shape) - inner
    if outer < 0 or tuple(shape[outer:]) != tuple(page.shape):
        # tifffile takes dimensions of length 1 out of both.
        inner = len([n for n in page.shape if n > 1])
        outer = next((n for n in range(len(shape)) if math.prod(shape[:n]) == len(level.pages)), len(shape))
    wide = [(a, int(n)) for a, n in zip(axes[:outer], shape[:outer], strict=True) if n > 1]
    found: list[tuple[str, int]] = []
    free = [a for a in ("z", "t", "c") if a not in [letters.get(w) for w, _ in wide]]
    for letter, length in wide:
        known = letters.get(letter)
        if known is None or known in [a for a, _ in found]:
            if not free:
                raise DataError(
                    f"{path}: its pages are {text_of(shape)} along {axes}: a volume has z, time and channels; split it"
                )
            known = free.pop(0)
            if letter not in "IQ" or len(wide) > 1:
                guessed.append(f"its dimension '{letter}' of {length} is taken as {known}")
        found.append((known, length))
    return found


def _files(parts: Sequence[_Part], reads: list[str]) -> tuple[list[str], list[int]]:
    """Files that hold the pages, and which each is in."""
    names: dict[str, int] = {}
    which = [names.setdefault(p.file, len(names)) for p in parts]
    reads += names
    return list(names), which


def _need_bytes(path: str, file: str, start: int, array: Array) -> None:
    size = os.path.getsize(file)
    if start + array.bytes > size:
        raise DataError(
            f"{path}: its {text_of(array.shape)} numbers of {array.dtype} need {array.bytes:,} bytes from byte {start:,} on, and "
            f"{file} ends at {size:,}: it was cut off; copy it again"
        )


def _chunked(
    path: str,
    array: Array,
    page: TiffPage,
    parts: Sequence[_Part],
    means: Means,
    tables: list[bytes],
    reads: list[str],
) -> None:
    """Strips or tiles as chunks."""
    samples = int(page.samplesperpixel)
    separate = int(page.planarconfig) == 2 and samples > 1
    files, which = _files(parts, reads)
    y, x = int(page.imagelength), int(page.imagewidth)
    rows, columns = (page.tilelength, page.tilewidth) if page.is_tiled else (min(page.rowsperstrip, y), x)
    if int(getattr(page, "tiledepth", 1) or 1) > 1 or int(getattr(page, "imagedepth", 1) or 1) > 1:
        raise DataError(f"{path}: its tiles are boxes (SGI depth), which are not read; write it with one page a slice")
    rows, columns = int(rows), int(columns)
    if rows < 1 or columns < 1:
        raise DataError(f"{path}: its tiles are {columns} x {rows} pixels; the file is damaged: copy it again")
    across = -(-y // rows) * -(-x // columns) * (samples if separate else 1)
    table = _segments(path, parts, across, which, files)
    outer = len(array.shape) - (3 if samples > 1 else 2)
    inner = (rows, columns) if samples == 1 else ((1, rows, columns) if separate else (rows, columns, samples))
    array.chunk = (*([1] * outer), *inner)
    within = 1 if separate else samples
    if int(page.compression) == 1:
        if not page.is_tiled and _rows(path, array, page, table, outer, files, tables):
            return
    else:
        array.codecs = _codecs(path, page, columns, within)
        if rows * columns * within * array.item > LARGEST_CHUNK:
            made = converted(
                path,
                means,
                count=array.bytes,
                why=f"has strips of {rows * columns * within * array.item >> 20} MiB, which cannot be read in part",
                how=array.name,
                pieces=lambda: strip_pieces(path, array, page, table, files, rows),
                files=files,
            )
            array.chunk, array.codecs, array.place = None, [], contiguous(made.path, 0)
            array.big_endian = False
            reads.append(made.path)
            return
    array.place = in_table(files, len(tables))
    tables.append(table_of(table))


def _segments(
    path: str, parts: Sequence[_Part], across: int, which: list[int], files: list[str]
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """File, offset and length of each strip or tile, held against the files' sizes."""
    # As many as were read from the file: a header alone makes no room.
    table = np.zeros((sum(len(p.offsets) for p in parts), 3), dtype=np.uint64)
    sizes = [os.path.getsize(f) for f in files]
    for n, page in enumerate(parts):
        offsets, counts = page.offsets, page.counts
        if len(offsets) != across or len(counts) != across:
            raise DataError(
                f"{path}: its page {n} has {len(offsets)} strips or tiles where {across} are needed: it was cut off "
                "or changed; copy it again"
            )
        part = table[n * across : (n + 1) * across]
        try:
            part[:, 0], part[:, 1], part[:, 2] = which[n], offsets, counts
        except (OverflowError, ValueError, TypeError) as error:
            raise DataError(f"{path}: its page {n} has offsets that are none ({error}); copy it again") from error
        ends = part[:, 1].astype(np.float64) + part[:, 2].astype(np.float64)
        if float(ends.max(initial=0)) > sizes[which[n]]:
            raise DataError(
                f"{path}: its page {n} has data up to byte {int(ends.max()):,}, and {files[which[n]]} ends at "
                f"{sizes[which[n]]:,}: it was cut off; copy it again"
            )
        if bool(((part[:, 2] == 0) | (part[:, 1] == 0)).any()):
            raise DataError(f"{path}: its page {n} has a strip or tile that was never written; write it again")
    return table


def _rows(
    path: str,
    array: Array,
    page: TiffPage,
    table: np.ndarray[Any, np.dtype[np.uint64]],
    outer: int,
    files: list[str],
    tables: list[bytes],
) -> bool:
    """Strips without compression that follow one another within each page: pages of numbers, cut into rows as suits reading."""
    inner = array.shape[outer:]
    bytes_of_page = math.prod(inner) * array.item
    number = math.prod(array.shape[:outer])
    across = len(table) // number
    starts = table[::across, 1].astype(np.int64)
    expected = table[:, 1].astype(np.int64).reshape(number, across)
    lengths = table[:, 2].astype(np.int64).reshape(number, across)
    ends = expected + lengths
    if across > 1 and not bool((ends[:, :-1] == expected[:, 1:]).all()):
        return False
    if bool((lengths.sum(axis=1) < bytes_of_page).any()):
        raise DataError(
            f"{path}: a page of it holds fewer than the {bytes_of_page:,} bytes of its pixels: it was cut off; copy it again"
        )
    which = table[::across, 0].astype(np.int64)
    array.chunk = None
    if outer == 0:
        array.place = contiguous(files[0], int(starts[0]))
        return True
    if outer == 1:
        array.place = planes([files[w] for w in which], [int(s) for s in starts])
        return True
    # Several dimensions of pages: rows of each page are its chunks.
    at = -2 if page.samplesperpixel == 1 or array.axes.endswith("yx") else -3
    y = array.shape[at]
    row = math.prod(array.shape[at + 1 :]) * array.item
    wanted = max(1, min(y, _ROWS_BYTES // max(1, row)))
    rows = next(n for n in range(wanted, 0, -1) if y % n == 0)
    chunk = [1] * len(array.shape)
    chunk[at], chunk[at + 1 :] = rows, list(array.shape[at + 1 :])
    blocks = bytes_of_page // (rows * row)
    made = np.zeros((number * blocks, 3), dtype=np.uint64)
    made[:, 0] = np.repeat(which, blocks)
    made[:, 1] = (starts[:, None] + np.arange(blocks)[None, :] * rows * row).reshape(-1)
    made[:, 2] = rows * row
    array.chunk = tuple(chunk)
    array.place = in_table(files, len(tables))
    tables.append(table_of(made))
    return True


def _codecs(path: str, page: TiffPage, columns: int, samples: int) -> list[dict[str, Any]]:
    code = int(page.compression)
    if code == _JPEG:
        if page.bitspersample != 8 or int(page.predictor) != 1:
            raise DataError(
                f"{path}: its JPEG images have {page.bitspersample} bits, and 8 are read; write it again with deflate"
            )
        tables = _jpeg_tables(page)
        return [{"name": "jpeg", "tables": tables} if tables else {"name": "jpeg"}]
    found = [dict(step) for step in _CODECS[code]]
    if int(page.predictor) > 1:
        found.append({"name": "predictor", "kind": int(page.predictor), "width": columns, "samples": samples})
    return found


def _jpeg_tables(page: TiffPage) -> str:
    """The tables that all JPEG streams of a page share, in hexadecimal digits; with a marker where the colours are RGB."""
    shared = bytes(page.jpegtables or b"").hex()
    if int(page.photometric) == 2 and page.samplesperpixel == 3:
        shared = shared or "ffd8ffd9"
        shared = shared[:4] + _ADOBE_RGB + shared[4:]
    return shared


def read_slices(
    path: str, name: str, files: Sequence[str], asked: str | None, means: Means, guessed: list[str]
) -> Volume:
    """The volume of TIFF files of one page each, in a folder or of a pattern.

    Raises:
        DataError: naming the file that is unlike the others.
    """
    tifffile = need("tifffile", f"{path}: TIFF files")
    first: Any = None
    why: str | None = None
    alike: tuple[Any, ...] = ()
    parts: list[_Part] = []
    coloured = False
    for file in files:
        try:
            with heard("tifffile") as complaints, tifffile.TiffFile(file) as opened:
                pages, page = len(opened.pages), opened.pages[0]
                if pages > 1 or complaints:
                    what = f"has {pages} pages" if pages > 1 else f"is not whole ({complaints[0][:120]})"
                    raise DataError(
                        f"{file}: this image {what}, and a folder of slices has one a file; open it by itself"
                    )
                if first is None:
                    coloured = _coloured(page, asked, guessed, measured=bool(opened.is_imagej))
                why = why or tiff_decoded.reason(page, [*_CODECS, _JPEG], coloured=coloured)
                _check_page(file, page, converted=why is not None)
                own = _alike(page)
                parts.append(_part(page))
                first, alike = (page, own) if first is None else (first, alike)
        except FarfieldError:
            raise
        except (OSError, MemoryError, RecursionError):
            raise
        except Exception as error:  # as in `read`
            raise DataError(f"{file}: this TIFF image cannot be read ({_short(error)}); copy it again") from error
        if own[:6] != alike[:6]:
            raise DataError(
                f"{file}: this image is {_said(own)}, and {os.path.basename(files[0])} {_said(alike)}; take it out "
                "of the folder, or bring it to the same size and kind"
            )
        if own != alike:
            why = why or "has images that are stored in several ways"
    samples = int(first.samplesperpixel)
    separate = int(first.planarconfig) == 2 and samples > 1
    size = (int(first.imagelength), int(first.imagewidth))
    if coloured:
        samples = 3
    inner = size if samples == 1 else ((samples, *size) if separate else (*size, samples))
    axes = "zyx" if samples == 1 else ("zcyx" if separate else "zyxc")
    dtype, big = dtype_of(np.dtype(first.dtype).newbyteorder(alike[-1]), files[0])
    dtype = "uint8" if coloured else dtype
    array = Array(name, dtype, (len(files), *inner), axes, {}, list(range(samples)))
    array.big_endian = big and array.item > 1
    tables: list[bytes] = []
    reads = [path]
    if why is None:
        _chunked(path, array, first, parts, means, tables, reads)
    else:
        made = converted(
            path,
            means,
            count=array.bytes,
            why=why,
            how="slices, colours" if coloured else "slices",
            pieces=lambda: tiff_decoded.slices(tifffile, files, array, coloured=coloured),
            files=files,
        )
        array.big_endian, array.place = False, contiguous(made.path, 0)
        reads += [*files, made.path]
    about = tiff_about.About("TIFF images")
    kind, channels = _channels(name, array, first, about)
    return Volume(path, about.format, [Level([array])], channels, kind, guessed, tables=tables, reads=reads)


def _alike(page: Any) -> tuple[Any, ...]:
    """What pages of one volume have alike: six that must be, and how the numbers are stored."""
    tile = (page.tilewidth, page.tilelength) if page.is_tiled else (0, page.rowsperstrip)
    return (
        page.imagewidth, page.imagelength, page.samplesperpixel, str(page.dtype), int(page.planarconfig), int(page.photometric),
        int(page.compression), int(page.predictor), tile, page.parent.byteorder,
    )  # fmt: skip


def _said(alike: tuple[Any, ...]) -> str:
    width, height, samples, dtype, planar, photometric, *_ = alike
    return (
        f"{width} x {height} pixels of {samples} x {dtype} (planar configuration {planar}, photometric {photometric})"
    )
