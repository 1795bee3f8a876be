"""TIFF and OME-TIFF: stacks of pages and pyramids in strips and tiles, paged in place. tifffile reads the
directories."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.runtime.optional_libraries import need
from farfield.sources import places
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.description import (
    IDENTITY,
    INVERTED,
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
from farfield.volume.formats.files import stem
from farfield.volume.formats.library_logs import heard
from farfield.volume.formats.number_parts import REAL
from farfield.volume.formats.number_parts import chosen as part_chosen
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.tiff import completeness as tiff_whole
from farfield.volume.formats.tiff import decoded as tiff_decoded
from farfield.volume.formats.tiff import images as tiff_images
from farfield.volume.formats.tiff import masks as tiff_masks
from farfield.volume.formats.tiff import metadata as tiff_about
from farfield.volume.formats.tiff import mixed_codings as tiff_mixed
from farfield.volume.formats.tiff import ome_sets as tiff_set
from farfield.volume.formats.tiff import pages as tiff_pages
from farfield.volume.formats.tiff import placement as tiff_placed
from farfield.volume.formats.tiff import server_files
from farfield.volume.formats.tiff.large_strips import strip_pieces
from farfield.volume.formats.tiff.mixed_codings import Way
from farfield.volume.formats.tiff.pages import Part

if TYPE_CHECKING:
    from tifffile import TiffPage, TiffPageSeries

LARGEST_CHUNK = 64 << 20
"""Largest compressed strip in bytes; longer ones are converted, since a page needs as much memory."""
_WHITE_IS_ZERO = 0
"""The photometric interpretation of numbers with white as the lowest."""
_ROWS_BYTES = 256 << 10
"""Approximate bytes of rows in a chunk of uncompressed numbers."""
# A JPEG stream without colour information counts as YCbCr; an Adobe marker with transform 0 makes it RGB.
_ADOBE_RGB = "ffee000e41646f626500640000000000"


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a TIFF file.

    Raises:
        DataError: if it is damaged, or if its numbers have an unsupported encoding.
        UsageError: if tifffile is not installed.
    """
    tifffile = need("tifffile", f"{path}: TIFF files")
    main, about = tiff_set.of_companion(path)
    try:
        if about is None:
            with heard("tifffile"), server_files.opened(tifffile, main) as file:
                about = tiff_set.completed(main, file)
        with heard("tifffile") as complaints, server_files.opened(tifffile, main, omexml=about) as file:
            other = None if about else tiff_set.described_by(path, file)
            if other is None:
                tiff_whole.check_chain(main, file)
                if file.series and file.pages:
                    tiff_whole.check(main, file, complaints)
                volume = _volume(path, file, options, resources)
    except FarfieldError:
        raise
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # tifffile raises any exception for a damaged directory
        # An invalid offset (EINVAL) is damage, too.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise DataError(
            f"{path}: its TIFF directories cannot be read ({short_of(error)}): it was cut off or changed; copy it again"
        ) from error
    if other is not None:
        volume = read(other, options, resources)
        volume.path, volume.reads = path, [path, *volume.reads]
        volume.guessed.append(
            f"it is a part of an OME-TIFF, all of which is shown: {os.path.basename(other)} says what it is"
        )
        return volume
    tiff_whole.heed(main, complaints)
    volume.guessed += [f"tifffile says: {c[:160]}" for c in complaints[:3]]
    return volume


def short_of(error: Exception) -> str:
    """A library's message about a damaged file, in one line."""
    return f"{type(error).__name__}: {str(error)[:160]}"


def _volume(path: str, file: Any, options: Options, resources: ReaderResources) -> Volume:
    if not file.series or not file.pages:
        raise DataError(f"{path}: it holds no image; it was cut off: copy it again")
    guessed: list[str] = []
    series, images, shown = tiff_images.chosen(path, file, options.variable, guessed)
    coloured = tiff_pages.coloured_of(
        series.keyframe, options.kind, guessed, measured=bool(file.is_imagej), leading=series.axes
    )
    about = tiff_about.of(path, file, series, guessed)
    levels: list[Level] = []
    tables: list[bytes] = []
    reads = [path]
    for n, level in enumerate(series.levels):
        array = _array(path, n, level, resources, tables, reads, guessed if n == 0 else [], coloured=coloured)
        levels.append(Level([array]))
    first = levels[0].arrays[0]
    levels = [level for level in levels if _is_level(first, level.arrays[0])]
    turn, ground = tiff_placed.Turn.of(tiff_placed.orientation_of(series.keyframe)), None
    if about.format in ("TIFF", "BigTIFF"):
        ground = tiff_placed.ground_of(series.keyframe, guessed)
    direction = turn.direction if ground is None else ground.settle(about)
    _place_levels(levels, about, IDENTITY if ground is None else direction)
    kind, channels = channels_of(stem(path), first, series.keyframe, about)
    looks = [] if coloured else note_look(channels, kind, series.keyframe)
    bands = [] if coloured else tiff_about.of_bands(path, series.keyframe, channels, kind)
    steps = first.length("t")
    with contextlib.ExitStack() as stack:
        found = tiff_images.images(path, file)
        names = [c.name if sum(o.name == c.name for o in images) == 1 else str(n) for n, c in enumerate(images)]
        masks = tiff_masks.Masks.of(path, stack, found, series, names)
        if masks is not None:
            levels, kind, channels, said = masks.apply(levels, kind, channels, tables, resources)
            looks.append(said)
            reads += [masks.beside] if masks.beside else []
    volume = Volume(
        path=path,
        format=about.format,
        levels=levels,
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit=about.length_unit,
        direction=direction,
        times=[about.time_step * t for t in range(steps)] if steps > 1 and about.time_step else [],
        time_units=about.time_units if steps > 1 and about.time_step else "1",
        tables=tables,
        reads=list(dict.fromkeys(reads)),
        contents=images,
        shown=shown,
    )
    if ground is None:
        turn.place(levels)
        volume.note(*turn.said())
    volume.note(*looks)
    volume.guessed += bands
    return volume


def note_look(channels: list[Channel], kind: str, page: TiffPage) -> list[str]:
    """Sets the missing value and the inversion of channels; returns notes."""
    none, inverted = (
        tiff_pages.no_data(page),
        int(page.photometric) == _WHITE_IS_ZERO and kind in ("scalar", "channels"),
    )
    for channel in channels:
        channel.missing, channel.inverted = none, inverted
    return [INVERTED.format("WhiteIsZero")] if inverted else []


def _is_level(first: Array, other: Array) -> bool:
    """Whether an array is a level of the first one's image, not a label or a thumbnail."""
    same = all(first.length(a) == other.length(a) for a in "tc") and first.dtype == other.dtype
    return same and all(1 <= o <= f for f, o in zip(first.dims, other.dims, strict=True))


def _place_levels(levels: list[Level], about: tiff_about.About, direction: Sequence[Sequence[float]]) -> None:
    """Places levels by their sizes: the first voxel of a level covers several of the finest."""
    first = levels[0].arrays[0].dims
    for level in levels:
        ratio = [max(1.0, float(round(f / o))) for f, o in zip(first, level.arrays[0].dims, strict=True)]
        a, b, c = (s * r for s, r in zip(about.spacing, ratio, strict=True))
        off = [s * (r - 1) / 2 for s, r in zip(about.spacing, ratio, strict=True)]
        x, y, z = (o + sum(off[n] * direction[n][row] for n in range(3)) for row, o in enumerate(about.origin))
        level.spacing, level.origin = (a, b, c), (x, y, z)


def channels_of(name: str, array: Array, page: Any, about: tiff_about.About) -> tuple[str, list[Channel]]:
    """Kind and channels of an array with such pages."""
    count = array.length("c")
    if int(page.samplesperpixel) == 1 and array.axes.endswith("c"):
        return colour_channels(count)
    if int(page.photometric) in (2, tiff_pages.YCBCR) and array.axes.endswith("c") and count in (3, 4):
        return colour_channels(count)
    if int(page.photometric) in (2, tiff_pages.YCBCR) and count in (3, 4) and page.samplesperpixel == count:
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
    resources: ReaderResources,
    tables: list[bytes],
    reads: list[str],
    guessed: list[str],
    *,
    coloured: bool = False,
) -> Array:
    page = level.keyframe
    if any(p is None for p in level.pages):
        lost = tiff_set.missing(path, page.parent.root)
        why_not = f"files of it are not here ({lost})" if lost else "it was cut off, or its other files are not here"
        raise DataError(f"{path}: a page of its series is missing; {why_not}: copy all of it")
    pages, several = tiff_pages.as_stored(path, level.pages)
    # Consecutive numbers are read as such, whatever the strips.
    parts = [Part.of(p) for p in pages]
    lacking = sum(part.never_written for part in parts)
    whole = not lacking and all(a is b for a, b in zip(pages, level.pages, strict=True))
    start = level.dataoffset if whole else None
    several = several and start is None
    kinds = list({id(p.keyframe): p.keyframe for p in pages}.values())
    odd = next(filter(None, (why_converted(kind, coloured=coloured) for kind in kinds)), None)
    why = "has pages that are stored in several ways" if several else odd
    for kind in kinds:
        tiff_pages.check(path, kind, converted=why is not None)
    real = REAL.get(np.dtype(level.dtype).name)
    dtype, big = dtype_of(real or np.dtype(level.dtype).newbyteorder(page.parent.byteorder), path)
    separate = int(page.planarconfig) == 2 and page.samplesperpixel > 1
    samples = int(page.samplesperpixel)
    deep = int(page.imagedepth)
    leading = _leading(path, level, page, guessed)
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
    if lacking:
        array.fill = tiff_pages.fill_of(page, array.dtype)
    if math.prod(n for _, n in leading) != len(parts) * deep and start is None:
        raise DataError(
            f"{path}: its {text_of(shape)} numbers are in {len(parts)} pages, which do not go together; write it again"
        )
    if why is not None:
        for n, part in enumerate(parts):
            part.check(path, f"its page {n}")
        tiff_whole.check_ends(path, parts)
        array.never_written = lacking
        if odd is None and deep == 1:
            _mixed(path, array, pages, why, resources, reads)
        else:
            component = part_chosen(guessed) if real else None
            _decoded(path, array, pages, why, resources, reads, coloured=coloured, component=component)
        return array
    if start is not None and int(page.compression) == 1:
        _need_bytes(path, parts[0].file, int(start), array)
        array.place = contiguous(parts[0].file, int(start))
        reads.append(parts[0].file)
        return array
    chunked(path, array, page, parts, resources, tables, reads)
    return array


def why_converted(page: TiffPage, *, coloured: bool) -> str | None:
    """Why such pages are converted; None if they are paged in place."""
    return tiff_decoded.reason(page, [*tiff_pages.CODECS, tiff_pages.JPEG], coloured=coloured)


def _mixed(
    path: str, array: Array, pages: Sequence[Any], why: str, resources: ReaderResources, reads: list[str]
) -> None:
    """Converts pages stored in several ways, each decoded by the extension, into the cache."""
    outer = len(array.shape) - (3 if int(pages[0].keyframe.samplesperpixel) > 1 else 2)
    ways: dict[int, list[int]] = {}
    for n, page in enumerate(pages):
        ways.setdefault(page.hash, []).append(n)
    made_of = []
    for numbers in ways.values():
        key = pages[numbers[0]].keyframe
        name = f"{array.name}, as page {numbers[0]}"
        shape, axes = (len(numbers), *array.shape[outer:]), "z" + array.axes[outer:]
        way = Way(Array(name, array.dtype, shape, axes, {}, list(array.channels)), numbers)
        way.array.fill = array.fill
        way.array.big_endian = key.parent.byteorder == ">" and array.item > 1
        chunked(path, way.array, key, [Part.of(pages[n]) for n in numbers], resources, way.tables, [])
        made_of.append(way)
    made = converted(
        path,
        resources,
        count=array.bytes,
        why=why,
        how=_which(array, pages),
        pieces=lambda: tiff_mixed.pieces(path, made_of, resources.memory_limit),
        files=list(dict.fromkeys(Part.of(p).file for p in pages)),
    )
    array.big_endian, array.place = False, contiguous(made.path, 0)
    reads.append(made.path)


def _decoded(
    path: str,
    array: Array,
    pages: Sequence[Any],
    why: str,
    resources: ReaderResources,
    reads: list[str],
    *,
    coloured: bool = False,
    component: str | None = None,
) -> None:
    """Converts pages that tifffile decodes into the cache."""
    made = converted(
        path,
        resources,
        count=array.bytes,
        why=why,
        how=_which(array, pages) + (f", {component or 'colours'}" if coloured or component else ""),
        write=tiff_decoded.writer(path, array, pages, coloured=coloured, component=component),
        at_once=max(math.prod(page.keyframe.chunks) for page in pages) * array.item,
        files=list(dict.fromkeys(Part.of(p).file for p in pages)),
    )
    array.big_endian, array.place = False, contiguous(made.path, 0)
    reads.append(made.path)


def _which(array: Array, pages: Sequence[Any]) -> str:
    """Text that distinguishes an array from others of its file, which may have the same name."""
    return f"{array.name}, from page {pages[0].index} at {pages[0].offset} on"


def _leading(path: str, level: TiffPageSeries, page: TiffPage, guessed: list[str]) -> list[tuple[str, int]]:
    """The dimensions over the pages of a level, slowest first, without those of length 1."""
    letters = {"T": "t", "C": "c", "Z": "z", "L": "t"}
    if int(page.samplesperpixel) > 1:  # which are the channels
        del letters["C"]
    inner = len(page.shape)
    axes, shape = level.axes, level.shape
    outer = len(shape) - inner
    if outer < 0 or tuple(shape[outer:]) != tuple(page.shape):
        # tifffile removes dimensions of length 1 from both.
        inner = len([n for n in page.shape if n > 1])
        outer = next((n for n in range(len(shape)) if math.prod(shape[:n]) == len(level.pages)), len(shape))
    wide = [(a, int(n)) for a, n in zip(axes[:outer], shape[:outer], strict=True) if n > 1]
    within = [("z", int(page.imagedepth))] if int(page.imagedepth) > 1 else []
    may_be = ("z", "t", "c") if int(page.samplesperpixel) == 1 else ("z", "t")
    free = [a for a in may_be if a not in [*(letters.get(w) for w, _ in wide), *(a for a, _ in within)]]
    found = list(within)
    # Of unnamed dimensions, the fastest is z, as usual.
    for letter, length in reversed(wide):
        known = letters.get(letter)
        if known is None or known in [a for a, _ in found]:
            if not free:
                raise DataError(
                    f"{path}: its pages are {text_of(shape)} along {axes}: a volume has z, time and channels; split it"
                )
            known = free.pop(0)
            if letter not in "IQ" or len(wide) > 1:
                guessed.append(f"its dimension '{letter}' of {length} is taken as {known}")
        found.insert(0, (known, length))
    return found


def _files(parts: Sequence[Part], reads: list[str]) -> tuple[list[str], list[int]]:
    """Files with the pages, and the number of each page's file."""
    names: dict[str, int] = {}
    which = [names.setdefault(p.file, len(names)) for p in parts]
    reads += names
    return list(names), which


def _need_bytes(path: str, file: str, start: int, array: Array) -> None:
    size = places.getsize(file)
    if start + array.bytes > size:
        raise DataError(
            f"{path}: its {text_of(array.shape)} numbers of {array.dtype} need {array.bytes:,} bytes from byte {start:,} on, and "
            f"{file} ends at {size:,}: it was cut off; copy it again"
        )


def chunked(
    path: str,
    array: Array,
    page: TiffPage,
    parts: Sequence[Part],
    resources: ReaderResources,
    tables: list[bytes],
    reads: list[str],
) -> None:
    """Makes strips or tiles the chunks of an array."""
    samples = int(page.samplesperpixel)
    separate = int(page.planarconfig) == 2 and samples > 1
    files, which = _files(parts, reads)
    y, x = int(page.imagelength), int(page.imagewidth)
    rows, columns = (page.tilelength, page.tilewidth) if page.is_tiled else (min(page.rowsperstrip, y), x)
    rows, columns = int(rows), int(columns)
    if rows < 1 or columns < 1:
        raise DataError(f"{path}: its tiles are {columns} x {rows} pixels; the file is damaged: copy it again")
    across = -(-y // rows) * -(-x // columns) * (samples if separate else 1) * int(page.imagedepth)
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
                resources,
                count=array.bytes,
                why=f"has strips of {rows * columns * within * array.item >> 20} MiB, which cannot be read in part",
                how=f"{array.name} {hashlib.sha256(table.tobytes()).hexdigest()}",
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
    path: str, parts: Sequence[Part], across: int, which: list[int], files: list[str]
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """File, offset and length of each strip or tile, checked against the files' sizes."""
    # Sized by data that were read, so that a header alone allocates nothing.
    table = np.zeros((sum(len(p.offsets) for p in parts), 3), dtype=np.uint64)
    places.prefetch_stats(files)
    sizes = [places.getsize(f) for f in files]
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
        page.check(path, f"its page {n}")
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
    """Uncompressed strips that are consecutive within each page: divides pages into rows of suitable size."""
    inner = array.shape[outer:]
    bytes_of_page = math.prod(inner) * array.item
    number = math.prod(array.shape[:outer])
    across = len(table) // number
    starts = table[::across, 1].astype(np.int64)
    expected = table[:, 1].astype(np.int64).reshape(number, across)
    lengths = table[:, 2].astype(np.int64).reshape(number, across)
    ends = expected + lengths
    if not lengths.all():
        return False
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
    # With several dimensions of pages, rows of each page are its chunks.
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
    if code == tiff_pages.JPEG:
        if page.bitspersample != 8 or int(page.predictor) != 1:
            raise DataError(
                f"{path}: its JPEG images have {page.bitspersample} bits, and 8 are read; write it again with deflate"
            )
        tables = _jpeg_tables(page)
        return [{"name": "jpeg", "tables": tables} if tables else {"name": "jpeg"}]
    found = [dict(step) for step in tiff_pages.CODECS[code]]
    if int(page.predictor) > 1:
        found.append({"name": "predictor", "kind": int(page.predictor), "width": columns, "samples": samples})
    return found


def _jpeg_tables(page: TiffPage) -> str:
    """The JPEG tables that streams of a page share, in hexadecimal; with a marker for RGB colours."""
    shared = bytes(page.jpegtables or b"").hex()
    if int(page.photometric) == 2 and page.samplesperpixel == 3:
        shared = shared or "ffd8ffd9"
        shared = shared[:4] + _ADOBE_RGB + shared[4:]
    return shared
