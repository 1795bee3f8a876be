"""Parsing of source strings: `grid.xyz+q=sol_*.q`, `grid_*.xyz+q=sol_*.q` for moving grids, the folder of a store, a
`.p3d` file, `demo:NAME`.

>>> parse("flow.xyz+q=flow.q", check=False)
Source(path='flow.xyz', q=('flow.q',), function=(), options={}, text='flow.xyz+q=flow.q')
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from farfield.errors import DataError, UsageError
from farfield.flow.flow_map_store import flow_map, opened_with
from farfield.flow.formats import registry
from farfield.results.outputs import is_begun, not_there
from farfield.sources import addresses, list_files, places
from farfield.sources.paths import PART, natural, numbers_of
from farfield.sources.source import Source
from farfield.volume.formats import unsupported
from farfield.volume.formats.detection import format_of, is_volume, split_variable


def expand(pattern: str, *, check: bool = True) -> list[str]:
    """Files that match a pattern, in natural order; those of a list, in its order. An existing name, or one without wildcards,
    stays as it is.

    Raises:
        DataError: if a pattern has no match or a file does not exist.
    """
    name = places.expanduser(pattern)
    addresses.refuse_unknown(name)
    if list_files.is_list(name):
        return list_files.files_of(name) if check else [name]
    if (check or not addresses.is_remote(name)) and places.exists(name):
        return [name]
    if places.has_magic(name):
        found = sorted(places.glob(name), key=natural) if check or not addresses.is_remote(name) else []
        if not found and check:
            raise DataError(f"{pattern}: no file matches this pattern; check it with ls")
        return found
    if check:
        file, variable = split_variable(name)
        if variable is not None and places.exists(file):
            is_empty = places.isfile(file) and not places.getsize(file)
            what = "the file is empty" if is_empty else "it is of no format whose files hold several variables"
            raise DataError(
                f"{file}: {what}, so that there is no '{variable}' in it; copy it again, or name another file"
            )
        raise not_there(pattern)
    return [name]


def parse(
    text: str | os.PathLike[str],
    *,
    q: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    function: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    check: bool = True,
    quiet: bool = False,
) -> Source:
    """Parses a source string and locates its files. `check` False: without access to the disk. Some formats are
    converted into the cache first, with a note on stderr unless `quiet`.

    Raises:
        UsageError: if the string is invalid.
        DataError: if a file does not exist.
    """
    with places.opening():
        return replace(_parsed(os.fspath(text), q, function, check=check, quiet=quiet), again=parse)


def _parsed(
    whole: str,
    q: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None,
    function: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None,
    *,
    check: bool,
    quiet: bool,
) -> Source:
    begun = time.perf_counter(), time.process_time()
    if not whole:
        raise UsageError("the source is empty; give a file, a store or demo:NAME")
    if whole.startswith("demo:"):
        from farfield.demo import source_of

        return source_of(whole.removeprefix("demo:"))
    addresses.refuse_unknown(whole)
    # An address with parts is none of a file, which costs no question to know.
    exists = not (addresses.is_remote(whole) and PART.search(whole)) and places.exists(places.expanduser(whole))
    head, *parts = [whole] if exists else PART.split(whole)
    patterns: dict[str, list[str]] = {"q": _listed(q), "function": _listed(function)}
    for part in parts:
        key, _, value = part.partition("=")
        if not value:
            raise UsageError(f"{whole}: nothing follows '+{key}='; write it like grid.xyz+q=sol_*.q")
        patterns["q" if key == "q" else "function"].append(value)
    paths = {key: tuple(f for p in listed for f in expand(p, check=check)) for key, listed in patterns.items()}
    if not head:
        raise UsageError(f"{whole}: the grid file is missing before '+'")
    if check and not (parts or q or function) and is_volume(head):
        from farfield.volume.vector_flow import flow_in

        return _read_since(begun, flow_in(places.expanduser(head), quiet=quiet))
    path, variable = split_variable(places.expanduser(head))
    grid, *grids = [path] if variable is not None and places.exists(path) else (expand(head, check=check) or [head])
    if check and (made := registry.source_of([grid, *grids], variable, head, quiet=quiet)) is not None:
        if parts or q or function:
            raise UsageError(f"{whole}: {grid} contains its own fields; remove +q= and +function=")
        return _read_since(begun, made)
    if variable is not None:
        grid, *grids = expand(head, check=check) or [head]
    if check:
        places.prefetch_stats([grid, *grids, *paths["q"], *paths["function"]])
        for name in (grid, *grids, *paths["q"], *paths["function"]):
            _readable(name)
        for name in filter(places.isfile, (grid, *grids)):
            unsupported.refuse_cells(name)
        _pair(whole, head, [grid, *grids], patterns, {key: list(files) for key, files in paths.items()})
    if grid.endswith(".p3d") and (paths["q"] or paths["function"]):
        raise UsageError(f"{grid}: a .p3d file names its own q and function files; remove +q=")
    said = head + "".join(f"+{key}={pattern}" for key, listed in patterns.items() for pattern in listed)
    return Source(grid, paths["q"], paths["function"], {"grids": grids} if grids else {}, said)


def _read_since(begun: tuple[float, float], made: Source) -> Source:
    """Adds the wall time and processor time in seconds since `begun` to a source."""
    now = time.perf_counter(), time.process_time()
    return made.with_options(read_s=[after - before for before, after in zip(begun, now, strict=True)])


def _pair(
    whole: str, head: str, grids: list[str], patterns: Mapping[str, list[str]], found: Mapping[str, list[str]]
) -> None:
    """Refuses files of patterns whose numbers do not match, since their pairing would be a guess.

    Files listed one by one pair in their order.
    """
    lists = {
        "grid": (grids, [head]),
        "q": (found["q"], patterns["q"]),
        "function": (found["function"], patterns["function"]),
    }
    numbered = {}
    for what, (files, given) in lists.items():
        numbers = numbers_of(files) if len(given) == 1 and len(files) > 1 else None
        if numbers is not None:
            numbered[what] = dict(zip(numbers, files, strict=True))
    kinds = list(numbered)
    for one, other in itertools.pairwise(kinds):
        alone = [f for n, f in numbered[one].items() if n not in numbered[other]]
        alone += [f for n, f in numbered[other].items() if n not in numbered[one]]
        if alone:
            few = ", ".join(os.path.basename(f) for f in alone[:4]) + (
                f" and {len(alone) - 4} more" if len(alone) > 4 else ""
            )
            raise UsageError(
                f"{whole}: the {one} and the {other} files are not numbered alike: {few} {'has' if len(alone) == 1 else 'have'} no "
                f"partner of the same number; name files that go together alike, or give them one by one in the order of their "
                f"steps (in Python, as lists)"
            )


def _readable(name: str) -> None:
    """Refuses pipes, which would block forever, volumes, and folders that are no stores."""
    if (places.isdir(name) or places.isfile(name)) and format_of(name) is not None:
        raise UsageError(
            f"{name}: this is a volume, and this command takes datasets of zones; 'farfield info' and 'farfield probe' take volumes"
        )
    if places.isdir(name):
        if is_begun(name):
            raise DataError(
                f"{name}: an incomplete store, of a conversion that still runs or was interrupted; "
                "its command with --resume completes it"
            )
        if not places.exists(os.path.join(name, "zarr.json")):
            inside = sorted(places.listdir(name))
            if any(entry.lower().endswith(".dcm") for entry in inside):
                raise DataError(
                    f"{name}: none of its .dcm files begins as DICOM does: they were cut off, or have no preamble; copy them "
                    "again, or write them with one (dcmconv)"
                )
            held = f"it holds {inside[0]}{' and others' if len(inside) > 1 else ''}" if inside else "it is empty"
            raise DataError(
                f"{name}: nothing in this folder is read ({held}): a store has a zarr.json, .zgroup or .zarray, a volume "
                "DICOM files or numbered images; give one of these, or a file"
            )
        if flow_map(name) is not None:
            raise DataError(
                f"{name}: this is a flow map, which 'farfield flowmap' has written, and no dataset: it is not drawn or traced "
                f"through; 'farfield info' says what it holds, and {opened_with(name)} opens it in Python"
            )
    elif places.exists(name) and not places.isfile(name):
        raise DataError(f"{name}: this is neither a file nor a folder; copy what it gives into a file first")


def _listed(value: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    return [os.fspath(v) for v in value]
