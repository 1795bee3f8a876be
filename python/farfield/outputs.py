"""Where results may go: into a folder that is there, and never over what the run reads; and what conversions have left there.

>>> import pathlib, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     flow = pathlib.Path(folder, "flow.q")
...     flow.touch()
...     check([pathlib.Path(folder, "lines.vtp")], [flow])
...     try:
...         check([flow], [flow])
...     except UsageError as error:
...         print(str(error).replace(folder, "DIR"))
DIR/flow.q: this output is an input of this run; name another output
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from farfield.errors import DataError, UsageError

Path = str | os.PathLike[str]
_Identity = tuple[int, int]


def check(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Holds the files that a run is to write against the files and stores that it reads. None is an output that is not wanted.

    Names are no help: links, `..` and folders that are mounted twice give one file many of them.

    Raises:
        UsageError: if an output is an input, lies within one, or holds one; if two outputs are one file; if an output's folder
            is not there.
    """
    wanted = [place for o in outputs if o is not None for place in _places(os.fspath(o))]
    if not wanted:  # the most common case costs no look at thousands of files
        return
    read: dict[_Identity, str] = {}
    for name in [os.fspath(i) for i in inputs]:
        known = _identity(name)
        if known is not None:
            read.setdefault(known, name)
    written: set[str] = set()
    for output in wanted:
        _need_folder(output)
        for n, place in enumerate(_upwards(output)):
            held = read.get(_identity(place) or (-1, -1))
            if held is not None and n == 0:
                also = "" if held == output else f" ({held})"
                raise UsageError(f"{output}: this output is an input of this run{also}; name another output")
            if held is not None:
                raise UsageError(f"{output}: this output lies in {held}, an input of this run; name another output")
        if os.path.isdir(output):
            mine = _identity(output)
            for name in read.values():
                if any(_identity(place) == mine for place in _upwards(name)):
                    raise UsageError(f"{output}: this output holds {name}, an input of this run; name another output")
        is_device = os.path.exists(output) and not os.path.isfile(output)
        if not is_device and os.path.realpath(output) in written:
            raise UsageError(f"{output}: two outputs of this run go to this file; name another one")
        written.add(os.path.realpath(output))


def _places(output: str) -> list[str]:
    """Where an output goes: a list of files in time has a folder of its name beside it."""
    stem, end = os.path.splitext(output)
    return [output, stem] if end.lower() == ".pvd" else [output]


def _need_folder(output: str) -> None:
    folder = os.path.dirname(output.rstrip(os.sep)) or os.curdir
    try:
        is_there = stat.S_ISDIR(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_there = False
    except OSError:  # not allowed to look: whoever writes says so
        return
    if not is_there:
        raise UsageError(f"{output}: there is no folder {folder}; make it first, or name another output")


def _upwards(name: str) -> Iterator[str]:
    """The place itself, and the folders that it lies in."""
    place = os.path.realpath(name)
    while True:
        yield place
        above = os.path.dirname(place)
        if above == place:
            return
        place = above


def _identity(name: str) -> _Identity | None:
    try:
        found = os.stat(name)
    except OSError:  # not there yet, as most outputs
        return None
    return found.st_dev, found.st_ino


def not_there(path: str) -> DataError:
    """The error of a path where nothing is; it tells of what a conversion to it has left, if there is any.

    >>> str(not_there("none.zarr")).split(" (")[0]
    'none.zarr: there is no such file or folder; check the path'
    """
    text = f"{path}: there is no such file or folder; check the path (working folder: {os.getcwd()})"
    left = f"{path.rstrip(os.sep)}.partial"
    if is_begun(left):
        text += (
            f"; {left} is of a conversion that still runs or was interrupted: its command with --resume completes it"
        )
    return DataError(text)


def is_begun(path: str) -> bool:
    """Whether a folder is what a conversion works in until its store is whole.

    >>> is_begun(".")
    False
    """
    return os.path.isfile(os.path.join(path, "plan.json")) and path.rstrip(os.sep).endswith(".partial")
