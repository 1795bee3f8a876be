"""Completeness checks of TIFF files. tifffile silently reads the rest of a truncated file and only logs its errors."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.tiff.pages import Part

_BEYOND = re.compile(r"TiffTag (\d+) @\d+> invalid value offset (\d+)")
_FIRST = 8
"""Smallest offset of a value: the header has this size in bytes."""


def check(path: str, file: Any, complaints: Sequence[str]) -> None:
    """Raises for a file without all data of its directories. `complaints` are tifffile's log messages about it.

    Raises:
        DataError: naming the part beyond the end.
    """
    heed(path, complaints)
    _check_subdirectories(path, file)
    _check_imagej(path, file)


def check_chain(path: str, file: Any) -> None:
    """Raises if the chain of directories is a cycle, which tifffile would follow forever.

    Raises:
        DataError: naming the directory.
    """
    tiff, handle = file.tiff, file.filehandle
    if tiff.is_ndpi:  # its offsets are encoded differently
        return
    seen: set[int] = set()
    at = int(file.pages.first.offset)
    while _FIRST <= at < handle.size:
        if at in seen:
            raise DataError(
                f"{path}: behind its directory number {len(seen)} comes one that was before, at byte {at:,}; the file is damaged: "
                "copy it again"
            )
        seen.add(at)
        handle.seek(at)
        raw = handle.read(tiff.tagnosize)
        if len(raw) < tiff.tagnosize:  # truncated: other checks report it
            return
        (count,) = struct.unpack(tiff.tagnoformat, raw)
        end = at + tiff.tagnosize + count * tiff.tagsize
        if end + tiff.offsetsize > handle.size:
            return
        handle.seek(end)
        raw = handle.read(tiff.offsetsize)
        (at,) = struct.unpack(tiff.offsetformat, raw)


def heed(path: str, complaints: Sequence[str]) -> None:
    """Raises for errors that tifffile only logs, since the rest would pass for the whole file.

    Raises:
        DataError: naming the tag or the directory.
    """
    for found in map(_BEYOND.search, complaints):
        if found is not None and int(found[2]) >= _FIRST:
            raise DataError(
                f"{path}: its tag {_tag_name(int(found[1]))} has its value from byte {int(found[2]):,} on, which reaches beyond "
                "the end of the file: it was cut off; copy it again"
            )
    fatal = next((c for c in complaints if "page" in c or "ifd" in c.lower()), None)
    if fatal is not None:
        raise DataError(
            f"{path}: its TIFF directories are not whole ({fatal[:160]}): it was cut off or changed; copy it again"
        )


def _tag_name(code: int) -> str:
    import tifffile

    name = tifffile.TIFF.TAGS.get(code, None)
    return str(code) if name is None else f"{name} ({code})"


def _check_subdirectories(path: str, file: Any) -> None:
    """Raises if declared levels of a pyramid are missing."""
    for series in file.series:
        for page in series.pages:
            for offset in getattr(page, "subifds", None) or ():
                handle = page.parent.filehandle
                if offset >= _FIRST and not _is_directory(page.parent, int(offset)):
                    raise DataError(
                        f"{path}: page {page.index} has a level of a pyramid at byte {int(offset):,}, and {handle.path} ends at "
                        f"{handle.size:,}: it was cut off; copy it again"
                    )


def _is_directory(file: Any, offset: int) -> bool:
    """Whether a file is long enough for a directory at an offset; for a closed file, for its beginning."""
    tiff, handle = file.tiff, file.filehandle
    if handle.closed:
        return bool(offset + tiff.tagnosize <= handle.size)
    handle.seek(offset)
    raw = handle.read(tiff.tagnosize)
    if len(raw) < tiff.tagnosize:
        return False
    (count,) = struct.unpack(tiff.tagnoformat, raw)
    return bool(offset + tiff.tagnosize + count * tiff.tagsize <= handle.size)


def _check_imagej(path: str, file: Any) -> None:
    """Raises if an ImageJ stack, a single directory with consecutive slices, is shorter than its text declares."""
    about = file.imagej_metadata if file.is_imagej else None
    page = file.pages[0]
    # ImageJ writes the directory before the numbers. A later directory is that of a slice extracted from a stack with
    # its text.
    if not about or len(file.pages) > 1 or not page.is_final or page.offset > page.dataoffsets[0] or page.nbytes < 1:
        return
    each = [about.get(name, 1) for name in ("frames", "slices", "channels")]
    if not all(isinstance(n, int) and n > 0 for n in each):
        return
    frames, slices, channels = each
    # Samples of a pixel may count as channels.
    images = frames * slices * (1 if channels in (page.shaped[0], page.shaped[4]) else channels)
    start, size = page.dataoffsets[0], places.getsize(path)
    if images > 1 and start + images * page.nbytes > size:
        raise DataError(
            f"{path}: ImageJ's description says {images:,} images of {page.nbytes:,} bytes from byte {start:,} on, and the file "
            f"ends at {size:,}, after {max(0, size - start) // page.nbytes:,} of them: it was cut off; copy it again"
        )


def check_ends(path: str, parts: Iterable[Part]) -> None:
    """Raises for strips or tiles beyond the end of their file, for which decoders give misleading errors.

    Raises:
        DataError: naming the page.
    """
    sizes: dict[str, int] = {}
    for n, part in enumerate(parts):
        if part.file not in sizes:
            sizes[part.file] = places.getsize(part.file)
        size = sizes[part.file]
        end = max((int(o) + int(c) for o, c in zip(part.offsets, part.counts, strict=False)), default=0)
        if end > size:
            raise DataError(
                f"{path}: its page {n} has data up to byte {end:,}, and {part.file} ends at {size:,}: it was cut off; copy it again"
            )
