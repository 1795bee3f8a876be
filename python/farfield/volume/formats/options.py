"""What a user says of a volume's file that it does not say itself, and what reading one may use.

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
    """Options of volumes. What is None is what the file says."""

    shape: tuple[int, ...] | None = None
    """Voxels along x, y and z, x fastest; a fourth number counts time steps."""
    dtype: str | None = None
    byte_order: str | None = None
    header_bytes: int | None = None
    """Bytes before the first voxel; -1: whatever is before the last ones."""
    components: int | None = None
    """Numbers a voxel, one after the other: 3 are red, green and blue."""
    spacing: tuple[float, float, float] | None = None
    origin: tuple[float, float, float] | None = None
    length_unit: str | None = None
    kind: str | None = None
    missing: Missing = None
    """The stored numbers that stand for a missing value."""
    component: str | None = None
    """Which part of complex numbers."""
    invert: bool | None = None
    """Whether the lowest value is shown white; None: as the file says."""
    variable: str | None = None
    """Which array or variable of a file that holds several."""

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Options:
        """Options as callers and the command line write them.

        Raises:
            UsageError: naming the option that makes no sense.
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
        """Options as one text, as `--raw` takes them: NAME=VALUE, with spaces or semicolons between them.

        Raises:
            UsageError: if it is no list of names and values, or names one twice.

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
        """Those that were given."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}


@dataclass(frozen=True)
class Means:
    """What reading a volume may use besides its files."""

    cache_dir: Path
    """Where conversions go, in the subfolder `data`."""
    progress: Report | None = None
    say: Callable[[str], None] | None = None
    """Gets a line when something is converted; None says nothing."""
    memory_limit: int | None = None
    """Bytes that what is decoded while it is converted may take; None: as much as it takes."""
    cache_size: int | None = None
    """Bytes that the cache may take; None: as much as it takes."""


def sparing(path: str, files: int, say: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Tells of the first conversion of a series, and that there are others: a line for each would be hundreds."""
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
    """A type's name as NumPy has it.

    Raises:
        UsageError: if it is none that voxels may have.
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
    """Numbers that stand for none, as text with commas between them and `LOW..HIGH` for a range, or as Python has them."""
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
        # Whole numbers keep all their digits.
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
