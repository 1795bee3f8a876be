"""Patterns of files that are a volume together: slices (`slices/s*.png`), or time steps of VTK XML (`step_*.vti`)."""

from __future__ import annotations

import glob
import os

from farfield.errors import UsageError
from farfield.sources.paths import natural


def is_pattern(path: str) -> bool:
    """Whether a source names several files at once; one that is there is itself, whatever its name.

    >>> is_pattern("slices/s*.png"), is_pattern("slices/s1.png")
    (True, False)
    """
    return glob.has_magic(path) and not os.path.exists(path)


def names_any(path: str) -> bool:
    """Whether a path is a pattern of files, of which there are some."""
    return is_pattern(path) and bool(glob.glob(path))


def files_of(pattern: str) -> list[str]:
    """The files that a pattern names, in natural order."""
    return sorted((name for name in glob.glob(pattern) if os.path.isfile(name)), key=natural)


def expanded(path: str) -> str:
    """A path; of a pattern that names one file or folder only, that."""
    found = glob.glob(path) if is_pattern(path) else []
    return found[0] if len(found) == 1 else path


def alone(pattern: str, files: list[str], kind: str) -> UsageError:
    """The error for files each of which is a volume by itself."""
    return UsageError(
        f"{pattern}: each of these {len(files):,} files is a volume by itself ({kind}); name one of them. Patterns are of slices "
        "(PNG, JPEG, TIFF, DICOM) and of time steps in VTK XML (.vti), or of files of zones"
    )
