"""Errors of Farfield. Each derives from the fitting built-in error and has an exit code.

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


def without_secrets(text: str) -> str:
    """A text whose addresses of web servers have no user, password or query: these may be secrets.

    >>> without_secrets("https://me:pw@host/a.nrrd?sig=1: not there")
    'https://host/a.nrrd?...: not there'
    """
    if "://" not in text:
        return text
    import re

    text = re.sub(r"(?i)(https?://)[^\s/@]*@", r"\1", text)
    return re.sub(r"""(?i)(https?://[^\s?'"]*\?)[^\s:;,'")]+""", r"\1...", text)


class FarfieldError(Exception):
    """Base of all errors that Farfield raises on purpose. `exit_code` is the exit status of the command line.

    >>> [error.exit_code for error in (DataError, UsageError, MemoryLimitError)]
    [1, 2, 4]
    """

    exit_code = 1

    def __str__(self) -> str:
        # KeyError prints the repr of its argument, and OSError expects an errno. The message is the plain first
        # argument.
        return without_secrets(str(self.args[0])) if self.args else type(self).__name__


class DataError(FarfieldError, OSError):
    """The data cannot be read, or break the rules of their format.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("none.xyz")
    ... except OSError as error:
    ...     print(type(error).__name__, str(error).split(";")[0], sep=": ")
    DataError: none.xyz: there is no such file or folder
    """

    def __str__(self) -> str:
        # The extension may name a file twice: as the file, and as the file of a page.
        text = super().__str__()
        name, _, rest = text.partition(": ")
        if rest.startswith(f"{name}: "):
            text = rest
        return text


class AccessError(FarfieldError, OSError):
    """The network or the permissions prevent access.

    >>> issubclass(AccessError, OSError), AccessError("flow.q: permission denied").exit_code
    (True, 5)
    """

    exit_code = 5


class UsageError(FarfieldError, ValueError):
    """An invalid argument.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("demo:box").streamlines(seeds=[(0, 0, 0)], integration_direction="up")
    ... except ValueError as error:
    ...     print(error)
    no direction 'up'; there are: forward, backward, both
    """

    exit_code = 2


class AmbiguousError(UsageError):
    """More than one reading of a file fits its size. The message lists each with the options that choose it.

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
    """A field, zone, option or file array that does not exist. The message lists the existing ones.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("demo:box").probe((0.5, 0.5, 0.5), fields=["presure"])
    ... except KeyError as error:
    ...     print(str(error).split(";")[0])
    no field named 'presure'
    """

    exit_code = 2


class MemoryLimitError(FarfieldError, MemoryError):
    """The memory limit does not hold one step of the run. The message gives a sufficient limit.

    >>> import farfield as ff
    >>> try:
    ...     ff.open("demo:box", memory_limit="1MiB")
    ... except MemoryError as error:
    ...     print(error)
    the memory limit of 1.0 MiB is too small: any run, with its tables and buffers, needs about 4.0 MiB; ...
    """

    exit_code = 4


class InternalError(FarfieldError, RuntimeError):
    """A fault in Farfield itself. Please report it with the command that causes it.

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
