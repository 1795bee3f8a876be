"""Single-page TIFF files that form the slices of a volume, in a folder or of a pattern."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.runtime.optional_libraries import need
from farfield.sources import places
from farfield.volume.formats import concurrent_headers
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.description import Array, Level, Volume, contiguous, dtype_of
from farfield.volume.formats.library_logs import overheard, quiet
from farfield.volume.formats.number_parts import REAL
from farfield.volume.formats.number_parts import chosen as part_chosen
from farfield.volume.formats.options import ReaderResources
from farfield.volume.formats.tiff import completeness as tiff_whole
from farfield.volume.formats.tiff import decoded as tiff_decoded
from farfield.volume.formats.tiff import metadata as tiff_about
from farfield.volume.formats.tiff import pages as tiff_pages
from farfield.volume.formats.tiff import placement as tiff_placed
from farfield.volume.formats.tiff import reader as tiff
from farfield.volume.formats.tiff.directories import Head, head_of
from farfield.volume.formats.tiff.pages import Part


def read(
    path: str, name: str, files: Sequence[str], asked: str | None, resources: ReaderResources, guessed: list[str]
) -> Volume:
    """The volume of single-page TIFF files in a folder or of a pattern.

    Raises:
        DataError: naming the file that differs from the others.
    """
    tifffile = need("tifffile", f"{path}: TIFF files")
    known = _First.of(tifffile, files[0], asked, guessed)
    first, coloured, why = known.page, known.coloured, known.why
    parts = [known.part]
    with quiet("tifffile"):
        for file, (part, own, reason) in zip(
            files[1:],
            concurrent_headers.each(files[1:], partial(_look, tifffile, known), resources.progress),
            strict=True,
        ):
            if own[: tiff_pages.MUST] != known.alike[: tiff_pages.MUST]:
                raise DataError(
                    f"{file}: this image is {tiff_pages.said(own)}, and {os.path.basename(files[0])} "
                    f"{tiff_pages.said(known.alike)}; take it out of the folder, or bring it to the same size and kind"
                )
            parts.append(part)
            why = why or reason
            if own != known.alike:
                why = why or "has images that are stored in several ways"
    samples = int(first.samplesperpixel)
    separate = int(first.planarconfig) == 2 and samples > 1
    size = (int(first.imagelength), int(first.imagewidth))
    if coloured:
        samples = 3
    inner = size if samples == 1 else ((samples, *size) if separate else (*size, samples))
    axes = "zyx" if samples == 1 else ("zcyx" if separate else "zyxc")
    real = REAL.get(np.dtype(first.dtype).name)
    dtype, big = dtype_of(real or np.dtype(first.dtype).newbyteorder(known.alike[-1]), files[0])
    component = part_chosen(guessed) if real else None
    dtype = "uint8" if coloured else dtype
    array = Array(name, dtype, (len(files), *inner), axes, {}, list(range(samples)))
    array.big_endian = big and array.item > 1
    tables: list[bytes] = []
    reads = [path]
    for file, one in zip(files, parts, strict=True):
        one.check(file, "it")
    lacking = sum(one.never_written for one in parts)
    array.fill = tiff_pages.fill_of(first, array.dtype) if lacking else None
    if why is None:
        tiff.chunked(path, array, first, parts, resources, tables, reads)
    else:
        for file, one in zip(files, parts, strict=True):
            tiff_whole.check_ends(file, [one])
        array.never_written = lacking
        made = converted(
            path,
            resources,
            count=array.bytes,
            why=why,
            how=f"slices, {component or 'colours'}" if coloured or component else "slices",
            pieces=lambda: tiff_decoded.slices(tifffile, files, array, coloured=coloured, component=component),
            files=files,
            at_once=array.bytes // len(files),
        )
        array.big_endian, array.place = False, contiguous(made.path, 0)
        reads += [*files, made.path]
    about = tiff_about.About("TIFF images")
    ground = tiff_placed.ground_of(first, guessed)
    direction = tiff_placed.Turn.of(known.orientation).direction if ground is None else ground.settle(about)
    kind, channels = tiff.channels_of(name, array, first, about)
    looks = [] if coloured else tiff.note_look(channels, kind, first)
    levels = [Level([array], about.origin, about.spacing)]
    volume = Volume(
        path,
        about.format,
        levels,
        channels,
        kind,
        guessed,
        about.length_unit,
        direction=direction,
        tables=tables,
        reads=reads,
    )
    if ground is None:
        turn = tiff_placed.Turn.of(known.orientation)
        turn.place(levels)
        volume.note(*turn.said())
    volume.note(*looks)
    return volume


@dataclass(frozen=True)
class _First:
    """The first file, with which others are compared."""

    page: Any
    alike: tuple[Any, ...]
    part: Part
    head: Head | None
    coloured: bool
    why: str | None
    orientation: int

    @classmethod
    def of(cls, tifffile: Any, file: str, asked: str | None, guessed: list[str]) -> _First:
        """The properties of a file.

        Raises:
            DataError: if it is no slice, or if its encoding is unsupported.
        """
        with quiet("tifffile"), _opened(tifffile, file) as opened:
            page = opened.pages[0]
            coloured = tiff_pages.coloured_of(page, asked, guessed, measured=bool(opened.is_imagej))
            why = tiff.why_converted(page, coloured=coloured)
            tiff_pages.check(file, page, converted=why is not None)
            # Each page has a palette of its own.
            head = None if coloured else head_of(file)
            turned = tiff_placed.orientation_of(page)
            return cls(page, tiff_pages.alike(page), Part.of(page), head, coloured, why, turned)


def _look(tifffile: Any, first: _First, file: str) -> tuple[Part, tuple[Any, ...], str | None]:
    """The place of a slice's numbers, their properties, and the reason for a conversion, or None."""
    head = head_of(file) if first.head is not None else None
    if head is not None and first.head is not None and head.entries == first.head.entries:
        return head.part(file), first.alike, first.why
    with _opened(tifffile, file) as opened:
        page = opened.pages[0]
        why = first.why or tiff.why_converted(page, coloured=first.coloured)
        tiff_pages.check(file, page, converted=why is not None)
        return Part.of(page), tiff_pages.alike(page), why


@contextmanager
def _opened(tifffile: Any, file: str) -> Iterator[Any]:
    """A TIFF with a single page.

    Raises:
        DataError: if it has several pages, or cannot be read.
    """
    try:
        with overheard("tifffile") as complaints, tifffile.TiffFile(places.for_library(file)) as opened:
            pages, page = len(opened.pages), opened.pages[0]
            if pages > 1 or complaints:
                what = f"has {pages} pages" if pages > 1 else f"is not whole ({complaints[0][:120]})"
                raise DataError(f"{file}: this image {what}, and a folder of slices has one a file; open it by itself")
            if int(page.imagedepth) > 1:
                raise DataError(
                    f"{file}: this image has {page.imagedepth} slices, and a folder of slices has one a file; open it by itself"
                )
            yield opened
    except FarfieldError:
        raise
    except (OSError, MemoryError, RecursionError):
        raise
    except Exception as error:  # tifffile raises any exception for a damaged directory
        raise DataError(f"{file}: this TIFF image cannot be read ({tiff.short_of(error)}); copy it again") from error
