"""TIFF files of one page each that are the slices of one volume, in a folder or of a pattern."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from farfield.errors import DataError, FarfieldError
from farfield.volume import tiff, tiff_about, tiff_decoded, tiff_pages, tiff_whole
from farfield.volume.conversion import converted
from farfield.volume.description import Array, Level, Volume, contiguous, dtype_of
from farfield.volume.listening import heard
from farfield.volume.optional import need
from farfield.volume.options import Means
from farfield.volume.tiff_pages import Part


def read(path: str, name: str, files: Sequence[str], asked: str | None, means: Means, guessed: list[str]) -> Volume:
    """The volume of TIFF files of one page each, in a folder or of a pattern.

    Raises:
        DataError: naming the file that is unlike the others.
    """
    tifffile = need("tifffile", f"{path}: TIFF files")
    first: Any = None
    why: str | None = None
    alike: tuple[Any, ...] = ()
    parts: list[Part] = []
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
                    coloured = tiff_pages.coloured_of(page, asked, guessed, measured=bool(opened.is_imagej))
                why = why or tiff.why_converted(page, coloured=coloured)
                tiff_pages.check(file, page, converted=why is not None)
                if int(page.imagedepth) > 1:
                    raise DataError(
                        f"{file}: this image has {page.imagedepth} slices, and a folder of slices has one a file; open it by itself"
                    )
                own = tiff_pages.alike(page)
                parts.append(Part.of(page))
                first, alike = (page, own) if first is None else (first, alike)
        except FarfieldError:
            raise
        except (OSError, MemoryError, RecursionError):
            raise
        except Exception as error:  # as in `read`
            raise DataError(
                f"{file}: this TIFF image cannot be read ({tiff.short_of(error)}); copy it again"
            ) from error
        if own[:6] != alike[:6]:
            raise DataError(
                f"{file}: this image is {tiff_pages.said(own)}, and {os.path.basename(files[0])} {tiff_pages.said(alike)}; take "
                "it out of the folder, or bring it to the same size and kind"
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
    for file, one in zip(files, parts, strict=True):
        one.check(file, "it")
    lacking = sum(one.never_written for one in parts)
    array.fill = tiff_pages.fill_of(first, array.dtype) if lacking else None
    if why is None:
        tiff.chunked(path, array, first, parts, means, tables, reads)
    else:
        for file, one in zip(files, parts, strict=True):
            tiff_whole.check_ends(file, [one])
        array.never_written = lacking
        made = converted(
            path,
            means,
            count=array.bytes,
            why=why,
            how="slices, colours" if coloured else "slices",
            pieces=lambda: tiff_decoded.slices(tifffile, files, array, coloured=coloured),
            files=files,
            at_once=array.bytes // len(files),
        )
        array.big_endian, array.place = False, contiguous(made.path, 0)
        reads += [*files, made.path]
    about = tiff_about.About("TIFF images")
    kind, channels = tiff.channels_of(name, array, first, about)
    if not coloured:
        tiff.note_missing(channels, first)
    return Volume(path, about.format, [Level([array])], channels, kind, guessed, tables=tables, reads=reads)
