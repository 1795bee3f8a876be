"""Errors of Farfield. Each is also the built-in error that a caller would expect, and carries its exit code.

>>> issubclass(UnknownName, KeyError), UnknownName("no field named 'x'").exit_code
(True, 2)
>>> str(UnknownName("no field named 'x'"))
"no field named 'x'"
"""

from __future__ import annotations

__all__ = [
    "AccessError",
    "AmbiguousError",
    "DataError",
    "FarfieldError",
    "Interrupted",
    "MemoryLimitError",
    "UnknownName",
    "UsageError",
]


class FarfieldError(Exception):
    """Whatever Farfield raises on purpose. `exit_code` is what the command line ends with."""

    exit_code = 1

    def __str__(self) -> str:
        # KeyError would show its repr and OSError would want an errno: the message is the first argument, as it is.
        return str(self.args[0]) if self.args else type(self).__name__


class DataError(FarfieldError, OSError):
    """The data cannot be read, or is not what its format asks for."""


class AccessError(FarfieldError, OSError):
    """The network or the permissions are in the way."""

    exit_code = 5


class UsageError(FarfieldError, ValueError):
    """An argument that makes no sense."""

    exit_code = 2


class AmbiguousError(UsageError):
    """More than one reading of a file adds up; the message lists each with the options that choose it."""


class UnknownName(FarfieldError, KeyError):  # noqa: N818 - says what it is
    """A field, zone, option or file array that does not exist; the message lists what there is."""

    exit_code = 2


class MemoryLimitError(FarfieldError, MemoryError):
    """The memory limit does not hold one step of the run; the message says what would do."""

    exit_code = 4


class Interrupted(FarfieldError):  # noqa: N818 - not a mistake of anyone
    """The run was cancelled."""

    exit_code = 130
