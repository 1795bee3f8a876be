"""Folders and patterns of numbered images, one slice each: PNG, TIFF and JPEG."""

from __future__ import annotations

import itertools
import os
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from farfield.errors import DataError, UsageError
from farfield.runtime.optional_libraries import need
from farfield.sources import list_files, places
from farfield.sources.paths import natural, numbers_of
from farfield.volume.formats import concurrent_headers, patterns
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.description import (
    Array,
    Channel,
    Level,
    Volume,
    colour_channels,
    contiguous,
    in_table,
    table_of,
)
from farfield.volume.formats.files import head, missing_slices, stem, unreadable
from farfield.volume.formats.images import exif
from farfield.volume.formats.images import series as image_series
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.tiff import ome_sets as tiff_set
from farfield.volume.formats.tiff import reader as tiff
from farfield.volume.formats.tiff import slices as tiff_slices
from farfield.volume.formats.tiff.placement import UPRIGHT, Turn

_SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".tif": "TIFF", ".tiff": "TIFF"}
_OTHERS = (".bmp", ".gif", ".webp", ".jp2", ".j2k", ".tga", ".ppm", ".pgm")
_MOST = 1 << 20
_HEAD = 1 << 16
_EXIF = 0xE1
"""The marker of a JPEG's Exif."""


@dataclass(frozen=True)
class _Slice:
    """The header of an image."""

    width: int
    height: int
    samples: int
    dtype: str
    orientation: int = UPRIGHT
    """Orientation as in Exif."""
    plain: bool = True
    """Whether the extension decodes its pixels; else the image is converted."""

    def __str__(self) -> str:
        bits = np.dtype(self.dtype).itemsize * 8
        turned = "" if self.orientation == UPRIGHT else f" with Orientation {self.orientation}"
        return f"{self.width} x {self.height} pixels of {self.samples} x {bits} bits{turned}"


def images_in(path: str) -> list[str]:
    """Images of a folder, of its most frequent kind, in natural order; all matches of a pattern; or a single file.

    Raises:
        DataError: if the folder cannot be listed.
    """
    if places.isfile(path):
        return [path]
    if patterns.is_pattern(path):
        return patterns.files_of(path)
    best = max(_by_kind(path).values(), key=len, default=[])
    return [os.path.join(path, n) for n in sorted(best, key=natural)]


def _by_kind(path: str) -> dict[str, list[str]]:
    """Images of a folder, by kind."""
    try:
        names = [e.name for e in places.entries(path) if not e.name.startswith(".") and e.is_file()]
    except OSError as error:
        raise unreadable(path, error) from error
    by_kind: dict[str, list[str]] = {}
    for name in names:
        kind = _SUFFIXES.get(os.path.splitext(name.lower())[1])
        if kind is not None:
            by_kind.setdefault(kind, []).append(name)
    return by_kind


def _kind_of(path: str, files: Sequence[str]) -> str:
    """The kind of the images of a folder or a pattern, or of a file.

    Raises:
        UsageError: if a pattern matches images of several kinds.
    """
    kind = _SUFFIXES.get(os.path.splitext(files[0].lower())[1], "")
    if places.isdir(path):
        return kind
    start = head(files[0], 4)
    kind = "PNG" if start == b"\x89PNG" else ("JPEG" if start.startswith(b"\xff\xd8") else "TIFF")
    other = next((f for f in files if _SUFFIXES.get(os.path.splitext(f.lower())[1], kind) != kind), None)
    if other is not None and len(files) > 1:
        raise UsageError(
            f"{path}: {os.path.basename(files[0])} is a {kind} image, and {os.path.basename(other)} none: they are no volume "
            "together; name those of one kind, as in 'slices/*.png'"
        )
    return kind


def _left_out(path: str, kind: str, taken: int) -> list[str]:
    """The note about a folder's images of other kinds."""
    by_kind = _by_kind(path) if places.isdir(path) else {}
    others = {k: names for k, names in by_kind.items() if k != kind}
    if not others:
        return []
    few = " and ".join(f"{len(names):,} {k}" for k, names in others.items())
    suffix = os.path.splitext(next(iter(others.values()))[0])[1]
    return [
        f"of its images the {taken:,} {kind} images are shown, and {few} images are not; the source '{path}/*{suffix}' is those"
    ]


def others_in(path: str) -> str | None:
    """An image of an unsupported kind in a folder; None if there is none."""
    try:
        return next((n for n in sorted(places.listdir(path)) if os.path.splitext(n.lower())[1] in _OTHERS), None)
    except OSError as error:
        raise unreadable(path, error) from error


def _gaps(files: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """The note about gaps in the numbers of images.

    >>> _gaps(["1.png", "4.png", "6.png"], [1, 4, 6])
    ['after 1.png comes 4.png, and after 4.png 6.png: they are not evenly numbered; they are shown as if they were']
    """
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    usual = sorted(steps)[(len(steps) - 1) // 2]
    if all(step == usual for step in steps):
        return []
    if usual > 0 and all(step > 0 and step % usual == 0 for step in steps):
        said = missing_slices(files, [step // usual for step in steps])
        return [f"{said}, by the numbers in their names: the others are shown as if nothing lay between them"]
    odd = next(n for n in range(1, len(steps)) if steps[n] != steps[0])
    first, middle, last = (os.path.basename(file) for file in (files[odd - 1], files[odd], files[odd + 1]))
    return [
        f"after {first} comes {middle}, and after {middle} {last}: they are not evenly numbered; they are shown as if they were"
    ]


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume of a folder of images.

    Raises:
        DataError: if an image is damaged or has another size.
    """
    files = images_in(path)
    if len(files) > _MOST:
        raise DataError(f"{path}: it holds {len(files):,} images, more than are read; convert them to OME-Zarr")
    kind = _kind_of(path, files)
    main = tiff_set.main_file(path, files) if kind == "TIFF" else None
    if main is not None:
        volume = tiff.read(main, options, resources)
        volume.path, volume.reads = path, [path, *volume.reads]
        volume.guessed += _left_out(path, kind, len(files))
        return volume
    group, files, held, shown = image_series.chosen(path, files, options.variable)
    name = group or name_of(path)
    guessed = ["how far its images are apart is not said: as far as their pixels; --spacing X,Y,Z says otherwise"]
    guessed += _left_out(path, kind, len(files))
    notes: list[str] = []
    if len(files) > 1 and numbers_of(files) is None:
        sentence = (
            f"its images are not numbered in one place of their names: they are taken in the order {_order(files)}"
        )
        # Names without numbers are no series; with several numbers, two series may be interleaved.
        (notes if any(map(str.isdigit, "".join(map(os.path.basename, files)))) else guessed).append(sentence)
    elif len(files) > 1:
        notes += _gaps(files, numbers_of(files) or [])
    if kind == "TIFF":
        volume = tiff_slices.read(path, name, files, options.kind, resources, guessed)
        volume.contents, volume.shown = held, shown
        volume.note(*notes)
        return volume
    first = _header(kind, files[0])
    for file, found in zip(
        files[1:], concurrent_headers.each(files[1:], partial(_header, kind), resources.progress), strict=True
    ):
        if found != first:
            raise DataError(
                f"{file}: this image has {found}, and {os.path.basename(files[0])} has {first}; take it out of the "
                "folder, or bring it to the same size and kind"
            )
    shape = (len(files), first.height, first.width) + ((first.samples,) if first.samples > 1 else ())
    array = Array(name, first.dtype, shape, "zyxc" if first.samples > 1 else "zyx", {}, list(range(first.samples)))
    tables: list[bytes] = []
    reads = [path]
    if first.plain:
        rows = np.zeros((len(files), 3), dtype=np.uint64)
        rows[:, 0] = np.arange(len(files))
        places.prefetch_stats(files)
        rows[:, 2] = [places.getsize(f) for f in files]
        tables.append(table_of(rows))
        array.chunk = (1, *shape[1:])
        array.codecs = [{"name": kind.lower()}]
        array.place = in_table(files)
    else:
        made = converted(
            path,
            resources,
            count=array.bytes,
            why=f"holds {kind} images of a kind that is not read in place",
            how="slices",
            pieces=lambda: _pixels(files, array),
            files=files,
            at_once=array.bytes // len(files),
        )
        array.place = contiguous(made.path, 0)
        reads.append(made.path)
    turn = Turn.of(first.orientation)
    levels = [Level([array])]
    turn.place(levels)
    volume = Volume(
        path=path,
        format=f"{kind} images",
        levels=levels,
        channels=_kind(first.samples, name)[1],
        kind=_kind(first.samples, name)[0],
        guessed=guessed,
        direction=turn.direction,
        tables=tables,
        reads=reads,
        contents=held,
        shown=shown,
    )
    volume.note(*notes, *turn.said())
    return volume


def name_of(path: str) -> str:
    """A name for the numbers of a folder's images, of a pattern's or of a file.

    >>> name_of("run/slice_*.png"), name_of("run/*.png")
    ('slice', 'run')
    """
    if not places.isfile(path) and not patterns.is_pattern(path):
        return os.path.basename(places.normpath(path)) or "images"
    name = stem(path.removeprefix("@") if list_files.is_list(path) else path)
    if patterns.is_pattern(path):
        name = re.split(r"[*?\[]", name)[0].rstrip("-_. ") or os.path.basename(os.path.dirname(places.abspath(path)))
    return name or "images"


def _order(files: Sequence[str]) -> str:
    return ", ".join(os.path.basename(f) for f in files[:3]) + (", ..." if len(files) > 3 else "")


def _kind(samples: int, name: str) -> tuple[str, list[Channel]]:
    if samples in (3, 4):
        return colour_channels(samples)
    if samples == 1:
        return "scalar", [Channel(name)]
    return "channels", [Channel("grey"), Channel("alpha")]


def _header(kind: str, file: str) -> _Slice:
    raw = head(file, _HEAD)
    found = _png(file, raw) if kind == "PNG" else _jpeg(file, raw)
    if found.width < 1 or found.height < 1:
        raise DataError(f"{file}: this image has no pixels; it is damaged: copy it again")
    return found


def _png(file: str, raw: bytes) -> _Slice:
    if not raw.startswith(b"\x89PNG\r\n\x1a\n") or raw[12:16] != b"IHDR" or len(raw) < 33:
        raise DataError(f"{file}: this is no PNG image, or was cut off; copy it again")
    width, height, bits, color = struct.unpack(">IIBB", raw[16:26])
    samples = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}.get(color)
    if samples is None or bits not in (1, 2, 4, 8, 16) or width >= 1 << 31 or height >= 1 << 31:
        raise DataError(
            f"{file}: its header has {width} x {height} pixels of kind {color} with {bits} bits; it is damaged: copy it again"
        )
    # A transparent colour is declared before the pixels and adds a sample of opacity.
    at, transparent, turned = 33, False, UPRIGHT
    while at + 8 <= len(raw) and raw[at + 4 : at + 8] != b"IDAT":
        transparent |= raw[at + 4 : at + 8] == b"tRNS"
        if raw[at + 4 : at + 8] == b"eXIf":
            turned = exif.orientation(raw[at + 8 :])
        at += 12 + int.from_bytes(raw[at : at + 4], "big")
    return _Slice(width, height, samples + transparent, "uint16" if bits == 16 else "uint8", turned)


def _jpeg(file: str, raw: bytes) -> _Slice:
    if not raw.startswith(b"\xff\xd8"):
        raise DataError(f"{file}: this is no JPEG image, or was cut off; copy it again")
    at, size, turned = 2, places.getsize(file), UPRIGHT
    while at + 10 <= size:
        # Thumbnails and colour profiles may precede the header, so each marker is read separately.
        part = raw[at : at + 10] if at + 10 <= len(raw) else head(file, 10, at)
        if len(part) < 10 or part[0] != 0xFF:
            break
        marker = part[1]
        if marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 1 if marker == 0xFF else 2
            continue
        if marker == _EXIF:
            about = raw[at + 4 : at + _HEAD] if at + 4 + _HEAD <= len(raw) else head(file, _HEAD, at + 4)
            if about.startswith(b"Exif\0\0"):
                turned = exif.orientation(about[6:])
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            bits, height, width, samples = struct.unpack(">BHHB", part[4:10])
            plain = bits == 8 and marker in (0xC0, 0xC1, 0xC2) and samples in (1, 3)
            return _Slice(width, height, samples if samples in (1, 3) else 3, "uint8", turned, plain)
        at += 2 + int.from_bytes(part[2:4], "big")
    raise DataError(f"{file}: its JPEG header is not found; it was cut off or is damaged: copy it again")


def _pixels(files: Sequence[str], array: Array) -> Iterator[bytes]:
    """Pixels of images, one image at a time."""
    pil = need("PIL.Image", f"{files[0]}: these images")
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[array.length("c")]
    for file in files:
        try:
            with pil.open(places.for_library(file)) as image:
                yield image.convert(mode).tobytes()
        except (OSError, ValueError, SyntaxError, pil.DecompressionBombError) as error:
            raise DataError(f"{file}: this image cannot be read ({str(error)[:160]}); copy it again") from error
