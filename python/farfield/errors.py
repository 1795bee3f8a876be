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
    "InternalError",
    "Interrupted",
    "MemoryLimitError",
    "UnknownName",
    "UsageError",
]


class FarfieldError(Exception):
    """Whatever Farfield raises on purpose. `exit_code` is what the command line ends with.

    >>> [error.exit_code for error in (DataError, UsageError, MemoryLimitError)]
    [1, 2, 4]
    """

    exit_code = 1

    def __str__(self) -> str:
        # KeyError would show its repr and OSError would want an errno: the message is the first argument, as it is.
        return str(self.args[0]) if self.args else type(self).__name__


class DataError(FarfieldError, OSError):
    """The data cannot be read, or is not what its format asks for.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("none.xyz")
    ... except OSError as error:
    ...     print(type(error).__name__, str(error).split(";")[0], sep=": ")
    DataError: none.xyz: there is no such file or folder
    """

    def __str__(self) -> str:
        # The extension may name a file as a file and as a page of it.
        text = super().__str__()
        name, _, rest = text.partition(": ")
        if rest.startswith(f"{name}: "):
            text = rest
        return text


class AccessError(FarfieldError, OSError):
    """The network or the permissions are in the way.

    >>> issubclass(AccessError, OSError), AccessError("flow.q: permission denied").exit_code
    (True, 5)
    """

    exit_code = 5


class UsageError(FarfieldError, ValueError):
    """An argument that makes no sense.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("demo:box").streamlines(seeds=[(0, 0, 0)], integration_direction="up")
    ... except ValueError as error:
    ...     print(error)
    no direction 'up'; there are: forward, backward, both
    """

    exit_code = 2


class AmbiguousError(UsageError):
    """More than one reading of a file adds up; the message lists each with the options that choose it.

    >>> import struct, tempfile, farfield as ff
    >>> with tempfile.NamedTemporaryFile(suffix=".xyz") as file:
    ...     _ = file.write(struct.pack("<3i3f", 1, 1, 1, 0, 0, 0)), file.flush()
    ...     try:
    ...         ff.open(file.name)
    ...     except AmbiguousError as error:
    ...         print("--plot3d-" in str(error))
    True
    """


class UnknownName(FarfieldError, KeyError):  # noqa: N818 - says what it is
    """A field, zone, option or file array that does not exist; the message lists what there is.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("demo:box").probe((0.5, 0.5, 0.5), fields=["presure"])
    ... except KeyError as error:
    ...     print(str(error).split(";")[0])
    no field named 'presure'
    """

    exit_code = 2


class MemoryLimitError(FarfieldError, MemoryError):
    """The memory limit does not hold one step of the run; the message says what would do.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("demo:box", memory_limit="1MiB")
    ... except MemoryError as error:
    ...     print(error)
    the memory limit of 1.0 MiB is too small: any run, with its tables and buffers, needs about 4.0 MiB; ...
    """

    exit_code = 4


class InternalError(FarfieldError, RuntimeError):
    """A fault in Farfield itself. Please report it with the command that shows it.

    >>> InternalError.exit_code
    70
    """

    exit_code = 70


class Interrupted(FarfieldError):  # noqa: N818 - not a mistake of anyone
    """The run was cancelled.

    >>> import farfield as ff
    >>> try:
    ...     ff.validate("demo:box", progress=lambda phase, done, total: False)
    ... except ff.Interrupted as error:
    ...     print(error)
    interrupted
    """

    exit_code = 130
