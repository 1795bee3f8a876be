"""Patterns of files that form a volume: slices (`slices/s*.png`), or time steps of VTK XML (`step_*.vti`)."""

from __future__ import annotations

from farfield.errors import UsageError
from farfield.sources import list_files, places
from farfield.sources.paths import natural


def is_pattern(path: str) -> bool:
    """Whether a source names several files. An existing file is never a pattern, whatever its name.

    >>> is_pattern("slices/s*.png"), is_pattern("slices/s1.png")
    (True, False)
    """
    return list_files.is_list(path) or (places.has_magic(path) and not places.exists(path))


def names_any(path: str) -> bool:
    """Whether a path is a pattern with at least one match."""
    return is_pattern(path) and bool(_matches(path))


def files_of(pattern: str) -> list[str]:
    """The files that match a pattern, in natural order; those of a list in its order."""
    if list_files.is_list(pattern):
        return list_files.files_of(pattern)
    return sorted((name for name in places.glob(pattern) if places.isfile(name)), key=natural)


def _matches(pattern: str) -> list[str]:
    return list_files.files_of(pattern) if list_files.is_list(pattern) else places.glob(pattern)


def expanded(path: str) -> str:
    """The path; for a pattern with a single match, that match."""
    found = _matches(path) if is_pattern(path) else []
    return found[0] if len(found) == 1 else path


def alone(pattern: str, files: list[str], kind: str) -> UsageError:
    """The error for files that are volumes on their own."""
    return UsageError(
        f"{pattern}: each of these {len(files):,} files is a volume by itself ({kind}); name one of them. Patterns are of slices "
        "(PNG, JPEG, TIFF, DICOM) and of time steps in VTK XML (.vti), or of files of zones"
    )
