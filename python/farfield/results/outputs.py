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

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from farfield.errors import AccessError, DataError, UsageError

Path = str | os.PathLike[str]
_Identity = tuple[int, int]


def output_path(path: Path, allowed: Sequence[str], what: str) -> str:
    """The path as text.

    Raises:
        UsageError: if it does not end in one of `allowed`.
    """
    target = os.fspath(path)
    if os.path.splitext(target)[1].lower() not in allowed:
        end = "one of these" if len(allowed) > 1 else "this"
        each = list(dict.fromkeys(allowed))
        ends = " or ".join(filter(None, (", ".join(each[:-1]), each[-1])))
        raise UsageError(f"{target}: {what} are written as {ends}; end the name in {end}")
    return target


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


@contextlib.contextmanager
def replacing(name: str) -> Iterator[IO[bytes]]:
    """A file that takes the place of `name` when it is whole: an older one stays until then, and stays if this fails.

    Until then it has a hidden name, `.NAME.part-N`, and a lock; what a killed run has left without one is written over.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in (".page.html.part-0", "page.html"):
    ...         _ = open(os.path.join(folder, name), "w").write("old")
    ...     with replacing(os.path.join(folder, "page.html")) as file:
    ...         _ = file.write(b"new")
    ...     os.listdir(folder), open(os.path.join(folder, "page.html")).read()
    (['page.html'], 'new')

    Raises:
        AccessError: if it may not be written.
        DataError: if the system refuses for another reason.
    """
    place = os.path.realpath(name)  # a link stays one
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
    """An empty file beside a place, locked. The names are those that the extension's outputs have until they are whole."""
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
        except FileNotFoundError:  # it got its name since
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise DataError(f"{place}: too many temporary files beside it; remove the files .{base}.part-*")


def _locked(handle: int, *, unsure: bool = True) -> bool:
    """Whether nobody else holds it; `unsure` where the file system has no locks and cannot tell."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unsure
    return True


@contextlib.contextmanager
def workplace(name: str) -> Iterator[str]:
    """An empty folder beside `name`, for what is needed while it is made; it goes in the end.

    As `replacing` has it, it is called `.NAME.part-N` and has a lock; the next run for that name removes those without one, which
    killed runs have left, with all that is in them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.mkdir(os.path.join(folder, ".cut.tif.part-1"))
    ...     with workplace(os.path.join(folder, "cut.tif")) as work:
    ...         os.listdir(folder), os.path.basename(work)
    ...     os.listdir(folder)
    (['.cut.tif.part-0'], '.cut.tif.part-0')
    []

    Raises:
        OSError: if the system does not let it be made.
        DataError: if too many are there.
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
                break  # names are taken in order: there is no later one either
            if (there and not _removed(path)) or made is not None:
                continue
            try:
                os.mkdir(path)
                handles.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
            except (FileExistsError, FileNotFoundError):  # another run was quicker
                continue
            # Between the two calls another run may have taken it for one that was left.
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
    """Removes a folder that a killed run has left; False where it is another run's, or somebody's own."""
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
