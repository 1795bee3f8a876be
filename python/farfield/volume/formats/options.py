"""Options of a user for a volume's file, and resources of a reader.

>>> Options.of({"shape": "256x256x128", "dtype": "uint16", "byte_order": "big"}).shape
(256, 256, 128)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from farfield.errors import UsageError
from farfield.runtime.progress import Report
from farfield.volume.formats.description import DTYPES
from farfield.volume.missing_values import Missing, together

KINDS = ("scalar", "rgb", "rgba", "channels", "labels")
_ALIASES = {
    "u8": "uint8", "i8": "int8", "u16": "uint16", "i16": "int16", "u32": "uint32", "i32": "int32", "u64": "uint64",
    "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64", "float": "float32", "double": "float64",
    "uchar": "uint8", "ushort": "uint16", "short": "int16", "uint": "uint32", "int": "int32",
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Options of volumes. None means the file's own value."""

    shape: tuple[int, ...] | None = None
    """Number of voxels along x, y and z, x fastest; a fourth number counts time steps."""
    dtype: str | None = None
    byte_order: str | None = None
    header_bytes: int | None = None
    """Bytes before the first voxel; -1: all bytes before the last voxels."""
    components: int | None = None
    """Numbers per voxel, consecutive; 3 are red, green and blue."""
    spacing: tuple[float, float, float] | None = None
    origin: tuple[float, float, float] | None = None
    length_unit: str | None = None
    kind: str | None = None
    missing: Missing = None
    """Stored numbers that represent missing values."""
    component: str | None = None
    """The part of complex numbers."""
    invert: bool | None = None
    """Whether low values are shown white; None: as in the file."""
    variable: str | None = None
    """An array or variable of a container."""

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Options in the forms of Python and of the command line.

        Raises:
            UsageError: naming the invalid option.
        """
        known = [f.name for f in fields(cls)]
        found: dict[str, Any] = {}
        for key, value in (given or {}).items():
            name = str(key).lstrip("-").replace("-", "_")
            if name not in known:
                raise UsageError(f"no option '{key}' of volumes; there are: {', '.join(known)}")
            if value is not None:
                found[name] = _PARSERS[name](value)
        return cls(**found)

    @staticmethod
    def named(text: str) -> dict[str, str]:
        """Options in one text, as for `--raw`: NAME=VALUE, separated by spaces or semicolons.

        Raises:
            UsageError: if it is not such a list, or if a name occurs twice.

        >>> Options.named("shape=512x512x300 dtype=uint16; spacing=0.5,0.5,2 header-bytes=-1")
        {'shape': '512x512x300', 'dtype': 'uint16', 'spacing': '0.5,0.5,2', 'header_bytes': '-1'}
        """
        known = [f.name for f in fields(Options)]
        found: dict[str, str] = {}
        for word in re.split(r"[\s;]+", text.strip()):
            key, equals, value = word.partition("=")
            name = key.replace("-", "_")
            if not equals or not value:
                raise UsageError(
                    f"--raw: '{word}' is not NAME=VALUE; write it like 'shape=512x512x300 dtype=uint16 spacing=0.5,0.5,2'"
                )
            if name not in known:
                raise UsageError(f"--raw: no option '{key}' of volumes; there are: {', '.join(known)}")
            if name in found:
                raise UsageError(f"--raw: '{key}' is said twice")
            found[name] = value
        return found

    def given(self) -> dict[str, Any]:
        """The options with values."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


@dataclass(frozen=True)
class ReaderResources:
    """Resources of a reader beside the volume's files."""

    cache_dir: Path
    """Folder of the cache; conversions go into its subfolder `data`."""
    progress: Report | None = None
    say: Callable[[str], None] | None = None
    """Receives a line for each conversion; None for silence."""
    memory_limit: int | None = None
    """Largest memory in bytes for decoding during conversions; None: no limit."""
    cache_size: int | None = None
    """Largest size of the cache in bytes; None: no limit."""


def sparing(path: str, files: int, say: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Reports only the first conversion of a series, with the number of files, instead of hundreds of lines."""
    if say is None:
        return None
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if len(told) == 1:
            say(text)
        elif len(told) == 2:
            say(f"{path}: others of its {files:,} files are converted likewise")

    return tell


def _words(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [w for w in re.split(r"[\s,xX*]+", value.strip()) if w]
    return list(value) if isinstance(value, Sequence) else [value]


def _shape(value: Any) -> tuple[int, ...]:
    try:
        numbers = tuple(int(w) for w in _words(value))
    except (TypeError, ValueError) as error:
        raise UsageError(f"--shape: '{value}' is not a size; write it like 512x512x300, x first") from error
    if not 2 <= len(numbers) <= 4 or min(numbers) < 1:
        raise UsageError(f"--shape: '{value}' is not two to four positive numbers; write it like 512x512x300, x first")
    return numbers


def named_type(value: Any) -> str:
    """A type's name in NumPy's spelling.

    Raises:
        UsageError: if it is not a type of voxels.
    """
    text = str(value).strip().lower()
    found = _ALIASES.get(text, text)
    if found not in DTYPES:
        raise UsageError(f"--dtype: '{value}' is none of {', '.join(DTYPES)}")
    return found


def _one_of(option: str, words: Sequence[str]) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if value not in words:
            raise UsageError(f"--{option}: '{value}' is none of {', '.join(words)}")
        return str(value)

    return parse


def _three(option: str, *, positive: bool) -> Callable[[Any], tuple[float, float, float]]:
    def parse(value: Any) -> tuple[float, float, float]:
        words = re.split(r"[\s,]+", value.strip()) if isinstance(value, str) else value
        try:
            listed = [float(w) for w in (words if isinstance(words, Sequence) else [words])]
        except (TypeError, ValueError) as error:
            raise UsageError(f"--{option}: '{value}' is not three numbers; write it like 0.5,0.5,2") from error
        if len(listed) == 1 and positive:
            listed *= 3
        if len(listed) != 3 or not all(map(math.isfinite, listed)) or (positive and min(listed) <= 0):
            kind = "three positive numbers" if positive else "three numbers"
            raise UsageError(f"--{option}: '{value}' is not {kind}; write it like 0.5,0.5,2")
        x, y, z = listed
        return x, y, z

    return parse


def _count(option: str, least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        try:
            found = int(value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"--{option}: '{value}' is not a whole number") from error
        if found < least:
            raise UsageError(f"--{option}: {found} is less than {least}")
        return found

    return parse


def _missing(value: Any) -> Missing:
    """Missing values from text with commas and `LOW..HIGH` for ranges, or from Python's forms."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    found = []
    for part in parts:
        ends = part.split("..") if isinstance(part, str) else part if isinstance(part, (list, tuple)) else [part]
        numbers = [_number(end) for end in ends]
        if len(numbers) > 2 or numbers[0] > numbers[-1]:
            raise UsageError(f"--missing: '{part}' is no range of numbers; write LOW..HIGH")
        found.append(((numbers[0], numbers[-1]),))
    return together(*found)


def _number(value: Any) -> float:
    try:
        # Integers keep all their digits.
        found = int(value) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", str(value)) else float(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"--missing: '{value}' is not a number") from error
    if not math.isfinite(found):
        raise UsageError(f"--missing: {value} is no value anyway; name the number that the file has instead")
    return found


def _truth(value: Any) -> bool:
    found = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}.get(
        str(value).strip().lower()
    )
    if found is None:
        raise UsageError(f"--raw invert: '{value}' is neither yes nor no")
    return found


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "shape": _shape,
    "dtype": named_type,
    "byte_order": _one_of("byte-order", ("little", "big")),
    "header_bytes": _count("header-bytes", -1),
    "components": _count("components", 1),
    "spacing": _three("spacing", positive=True),
    "origin": _three("origin", positive=False),
    "length_unit": str,
    "kind": _one_of("kind", KINDS),
    "missing": _missing,
    "component": _one_of("component", ("magnitude", "real", "imag", "phase")),
    "invert": _truth,
    "variable": str,
}
