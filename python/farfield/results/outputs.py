"""Checks and creation of output files. Outputs need an existing folder and never overwrite an input of the run.

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

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from farfield.errors import AccessError, DataError, UsageError
from farfield.sources import places
from farfield.sources.addresses import is_remote

Path = str | os.PathLike[str]
_Identity = tuple[int, int]


def output_path(path: Path, allowed: Sequence[str], what: str) -> str:
    """The path as text.

    Raises:
        UsageError: if the path does not end in one of `allowed`.
    """
    target = os.fspath(path)
    if os.path.splitext(target)[1].lower() not in allowed:
        end = "one of these" if len(allowed) > 1 else "this"
        each = list(dict.fromkeys(allowed))
        ends = " or ".join(filter(None, (", ".join(each[:-1]), each[-1])))
        raise UsageError(f"{target}: {what} are written as {ends}; end the name in {end}")
    return target


def check(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Checks the outputs of a run against the files and stores that it reads. A None among the outputs is no output.

    Names cannot tell: links, `..` and folders mounted twice give one file many of them.

    Raises:
        UsageError: if an output is an input, is within one, or contains one; if two outputs are one file; or if a
            folder does not exist.
    """
    wanted = [place for o in outputs if o is not None for place in _places(os.fspath(o))]
    if not wanted:  # saves the checks of thousands of files in the most common case
        return
    read: dict[_Identity, str] = {}
    for name in [os.fspath(i) for i in inputs]:
        known = _identity(name)
        if known is not None:
            read.setdefault(known, name)
    written: set[str] = set()
    for output in wanted:
        if is_remote(output):
            raise UsageError(
                f"{output}: results are written to files here, and not to a server; write one here and copy it there"
            )
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
    """The paths of an output: a `.pvd` also has a folder of its name beside it."""
    stem, end = os.path.splitext(output)
    return [output, stem] if end.lower() == ".pvd" else [output]


def _need_folder(output: str) -> None:
    folder = os.path.dirname(output.rstrip(os.sep)) or os.curdir
    try:
        is_there = stat.S_ISDIR(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        is_there = False
    except OSError:  # no permission to look; the write reports it
        return
    if not is_there:
        raise UsageError(f"{output}: there is no folder {folder}; make it first, or name another output")


def _upwards(name: str) -> Iterator[str]:
    """The path and its parent folders."""
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
    except OSError:  # most outputs do not exist yet
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def replacing(name: str) -> Iterator[IO[bytes]]:
    """Yields a file that replaces `name` on success. An older file stays until then, and stays on failure.

    Until then the file has a hidden name, `.NAME.part-N`, and a lock. Such files without a lock are left by killed
    runs and are overwritten.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in (".page.html.part-0", "page.html"):
    ...         _ = open(os.path.join(folder, name), "w").write("old")
    ...     with replacing(os.path.join(folder, "page.html")) as file:
    ...         _ = file.write(b"new")
    ...     os.listdir(folder), open(os.path.join(folder, "page.html")).read()
    (['page.html'], 'new')

    Raises:
        AccessError: if writing is not permitted.
        DataError: if the system refuses for another reason.
    """
    place = os.path.realpath(name)  # a link stays a link
    temporary = None
    try:
        temporary, file = _hidden(place)
        with file:
            yield file
            file.flush()
            os.replace(temporary, place)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.remove(temporary)
        if isinstance(error, PermissionError):
            raise AccessError(f"{name}: not allowed to write here; name another output") from error
        if isinstance(error, OSError):
            raise DataError(f"{name}: {error.strerror or error}; name another output, or make room") from error
        raise


def _hidden(place: str) -> tuple[str, IO[bytes]]:
    """An empty, locked file beside a path. The extension uses the same names for incomplete outputs."""
    folder, base = os.path.split(place)
    for number in range(1000):
        path = os.path.join(folder, f".{os.fsdecode(os.fsencode(base)[:200])}.part-{number}")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                continue
            raise
        try:
            locked = _locked(handle)
            ours, there = os.fstat(handle), os.stat(path, follow_symlinks=False)
            if locked and (ours.st_ino, ours.st_dev, ours.st_nlink) == (there.st_ino, there.st_dev, 1):
                os.ftruncate(handle, 0)
                return path, os.fdopen(handle, "wb")
        except FileNotFoundError:  # renamed since by another run
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise DataError(f"{place}: too many temporary files beside it; remove the files .{base}.part-*")


def _locked(handle: int, *, unsure: bool = True) -> bool:
    """Whether this process holds the lock; `unsure` if the file system has no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unsure
    return True


@contextlib.contextmanager
def workplace(name: str) -> Iterator[str]:
    """Yields an empty folder beside `name` for scratch files, and removes it at the end.

    As in `replacing`, its name is `.NAME.part-N` and it has a lock. The next run for that name removes the folders
    without one, which killed runs left.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.mkdir(os.path.join(folder, ".cut.tif.part-1"))
    ...     with workplace(os.path.join(folder, "cut.tif")) as work:
    ...         os.listdir(folder), os.path.basename(work)
    ...     os.listdir(folder)
    (['.cut.tif.part-0'], '.cut.tif.part-0')
    []

    Raises:
        OSError: if the folder cannot be made.
        DataError: if there are too many such folders.
    """
    folder, base = os.path.split(name)
    stem = os.path.join(folder, f".{os.fsdecode(os.fsencode(base)[:200])}.part-")
    made = None
    handles: list[int] = []
    try:
        for number in range(1000):
            path = f"{stem}{number}"
            there = os.path.lexists(path)
            if made is not None and not there:
                break  # names are given in order, so no later one exists
            if (there and not _removed(path)) or made is not None:
                continue
            try:
                os.mkdir(path)
                handles.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
            except (FileExistsError, FileNotFoundError):  # another run made or removed it
                continue
            # Between the two calls, another run may have removed the folder as one of a killed run.
            if _locked(handles[-1]) and os.fstat(handles[-1]).st_nlink and os.path.lexists(path):
                made = path
        if made is None:
            raise DataError(f"{name}: too many temporary files beside it; remove the files .{base}.part-*")
        yield made
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
        for handle in handles:
            os.close(handle)


def _removed(path: str) -> bool:
    """Removes a folder of a killed run; False if it belongs to another run or is no folder of ours."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if not _locked(handle, unsure=False):
            return False
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
    return not os.path.lexists(path)


def not_there(path: str) -> DataError:
    """The error for a path without a file; it mentions an incomplete conversion to that path, if there is one.

    >>> str(not_there("none.zarr")).split(" (")[0]
    'none.zarr: there is no such file or folder; check the path'
    """
    if is_remote(path):
        return DataError(f"{path}: the server has no such file or folder; check the address")
    text = f"{path}: there is no such file or folder; check the path (working folder: {os.getcwd()})"
    left = f"{path.rstrip(os.sep)}.partial"
    if is_begun(left):
        text += (
            f"; {left} is of a conversion that still runs or was interrupted: its command with --resume completes it"
        )
    return DataError(text)


def is_begun(path: str) -> bool:
    """Whether a folder is the working folder of an incomplete conversion.

    >>> is_begun(".")
    False
    """
    return path.rstrip(os.sep).endswith(".partial") and places.isfile(os.path.join(path, "plan.json"))
