"""Pictures as TIFF and JPEG, made from the PNG of the extension or, as grey of 16 bits, from the numbers of a slice.

A TIFF or JPEG needs the whole picture in memory, a PNG only a band of it. A picture beyond the memory limit is
refused. Grey of 16 bits is written in strips.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from farfield.errors import DataError, MemoryLimitError, UsageError
from farfield.results import outputs
from farfield.runtime.optional_libraries import need
from farfield.runtime.sizes import format_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

PNG = (".png",)
TIFF = (".tif", ".tiff")
JPEG = (".jpg", ".jpeg")
ENDINGS = (*PNG, *TIFF, *JPEG)
"""Endings of single pictures. Pictures of several time steps are PNG."""
QUALITY = 92
"""Quality of JPEG that keeps lines and letters sharp."""
STRIP = 1 << 20
"""Approximate size in bytes of a strip of rows."""
_A_PIXEL = 8
"""Largest size in bytes of a pixel in memory: four channels, and the copy that is written."""


@contextlib.contextmanager
def drawn_as_png(target: str, limit: int) -> Iterator[str]:
    """Yields the name of the PNG to draw. For a TIFF or JPEG, it is a scratch file, converted on success.

    Raises:
        UsageError: if Pillow is not installed.
        MemoryLimitError: if the picture exceeds the memory limit.
        DataError: if the picture cannot be written.

    >>> with drawn_as_png("wing.png", 1 << 30) as name:
    ...     print(name)
    wing.png
    """
    if not is_other(target):
        yield target
        return
    image = _pillow(target)
    with beside(target, ".png") as png:
        yield png
        with image.open(png) as picture:
            width, height = picture.size
            if width * height * _A_PIXEL > limit:
                raise MemoryLimitError(
                    f"{target}: this format needs the whole picture in memory. {width} x {height} pixels take "
                    f"{format_bytes(width * height * _A_PIXEL)} of a limit of {format_bytes(limit)}; write a .png, or raise "
                    "--memory-limit"
                )
            _save(picture, target)


def is_other(target: str) -> bool:
    """Whether a name has an ending of TIFF or JPEG.

    >>> is_other("a.TIF"), is_other("a.jpeg"), is_other("a.png")
    (True, True, False)
    """
    return target.lower().endswith((*TIFF, *JPEG))


def is_tiff(target: str) -> bool:
    """Whether a name has an ending of TIFF."""
    return target.lower().endswith(TIFF)


@contextlib.contextmanager
def beside(target: str, ending: str) -> Iterator[str]:
    """Yields a name for a scratch file, in a folder beside the picture. The folder is removed at the end; after a
    killed run, the next run for that picture removes it.

    Raises:
        DataError: if the folder cannot be written.
    """
    with contextlib.ExitStack() as held:
        try:
            folder = held.enter_context(outputs.workplace(target))
        except OSError as error:
            raise DataError(f"{target}: cannot be written: {error.strerror or error}") from error
        yield os.path.join(folder, f"picture{ending}")


def write_grey(
    numbers: str, target: str, limits: tuple[float, float] | None, *, inverted: bool = False
) -> tuple[float, float]:
    """Writes an array of numbers (`.npy`, two axes) as grey of 16 bits; returns its limits. The first of `limits` is
    black, the second white; `inverted` swaps them. None: the least and the largest number. NaN is black.

    Raises:
        UsageError: if tifffile is not installed.
        DataError: if the file cannot be written.
    """
    import numpy as np

    tifffile = need("tifffile", "TIFF files")
    values = np.load(numbers, mmap_mode="r")
    rows, columns = values.shape
    strip = max(1, min(rows, STRIP // (2 * columns)))
    pieces = [slice(top, min(top + strip, rows)) for top in range(0, rows, strip)]
    low, high = limits or _range(values, pieces)

    with beside(target, ".tif") as scratch:
        try:
            image = tifffile.memmap(
                scratch, shape=(rows, columns), dtype=np.uint16, photometric="minisblack", metadata=None
            )
            for piece in pieces:
                part = np.asarray(values[piece], dtype=np.float64)
                with np.errstate(invalid="ignore"):
                    scaled = np.clip((part - low) / ((high - low) or 1.0), 0.0, 1.0) * 65535.0
                scaled = 65535.0 - scaled if inverted else scaled
                image[piece] = np.where(np.isnan(scaled), 0.0, np.rint(scaled)).astype(np.uint16)
            image.flush()
            del image
            _publish(scratch, target)
        except OSError as error:
            raise DataError(f"{target}: cannot be written: {error.strerror or error}") from error
    return low, high


def _range(values: NDArray[Any], pieces: list[slice]) -> tuple[float, float]:
    import numpy as np

    low, high = np.inf, -np.inf
    for piece in pieces:
        part = np.asarray(values[piece], dtype=np.float64)
        part = part[np.isfinite(part)]
        if part.size:
            low, high = min(low, float(part.min())), max(high, float(part.max()))
    return (low, high) if low <= high else (0.0, 1.0)


def _pillow(target: str) -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError(
            f"{target}: TIFF and JPEG pictures need pillow, which is not installed; run 'pip install pillow', "
            "or write a .png"
        ) from error
    # Pillow refuses large pictures from untrusted files; this one is our own, and within the limit.
    Image.MAX_IMAGE_PIXELS = None
    return Image


def _save(picture: Any, target: str) -> None:
    from PIL import Image

    is_jpeg = not is_tiff(target)
    if picture.mode in ("LA", "RGBA") and is_jpeg:
        # JPEG has no transparency; paint on white.
        picture = picture.convert("RGBA")
        page = Image.new("RGB", picture.size, "white")
        page.paste(picture, mask=picture.getchannel("A"))
        picture = page
    how: dict[str, Any] = {"format": "JPEG", "quality": QUALITY, "subsampling": 0} if is_jpeg else {}
    how = how or {"format": "TIFF", "compression": "tiff_adobe_deflate"}
    with beside(target, os.path.splitext(target)[1]) as scratch:
        try:
            picture.save(scratch, **how)
            _publish(scratch, target)
        except OSError as error:
            raise DataError(f"{target}: cannot be written: {error.strerror or error}") from error


def _publish(scratch: str, target: str) -> None:
    """Gives a finished file its name and the permissions of the umask."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(scratch, 0o666 & ~mask)
    with open(scratch, "rb") as file:
        os.fsync(file.fileno())
    os.replace(scratch, Path(target))
