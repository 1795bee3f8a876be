"""Lists of files: `@names.txt` is the files of a text file, one a line, wherever a pattern is taken."""

from __future__ import annotations

from farfield.errors import DataError, UsageError
from farfield.sources import places
from farfield.sources.addresses import refuse_unknown

_LONGEST = 64 << 20
"""Largest size of a list in bytes."""


def is_list(source: str) -> bool:
    """Whether a source is a list of files. A file whose own name begins with @ is none.

    >>> is_list("@names.txt"), is_list("names.txt")
    (True, False)
    """
    return source.startswith("@") and len(source) > 1 and (places.is_remote(source[1:]) or not places.exists(source))


def files_of(source: str) -> list[str]:
    """The files of a list in its order: paths, from the folder of the list on, and addresses. Empty lines, and those that
    begin with #, name none.

    Raises:
        DataError: if the list or one of its files is not there.
        UsageError: if it names no file, or an address of an unknown scheme.
    """
    name = places.expanduser(source[1:])
    refuse_unknown(name)
    try:
        if places.getsize(name) > _LONGEST:
            raise DataError(f"{name}: this is longer than {_LONGEST >> 20} MiB, which no list of files is")
        lines = places.read_text(name).splitlines()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}: this is no text in UTF-8 ({error}); @ is for text files with one file a line"
        ) from error
    except (FileNotFoundError, IsADirectoryError) as error:
        raise DataError(f"{name}: there is no such list of files") from error
    found, numbers = [], []
    for number, line in enumerate(lines, 1):
        said = line.strip()
        if not said or said.startswith("#"):
            continue
        refuse_unknown(said)
        if places.is_remote(said):
            found.append(said)
        else:
            said = said if places.is_remote(name) else places.expanduser(said)
            found.append(places.join(places.dirname(name), said))
        numbers.append(number)
    if not found:
        raise UsageError(f"{name}: this list names no file; write one a line")
    places.prefetch_stats(found)
    for number, file in zip(numbers, found, strict=True):
        if not places.exists(file):
            raise DataError(f"{name}: its line {number} is {file}, which is not there; correct the list")
    return found
