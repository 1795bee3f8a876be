"""The files of a dataset: everything that must be at a server before it opens there.

>>> files = DatasetFiles.named("/data", ["/data/wing.xyz", "/data/sol_1.q"], "/data/wing.xyz+q=/data/sol_*.q")
>>> files.files, files.address("farfield://host/wing")
([('/data/wing.xyz', 'wing.xyz'), ('/data/sol_1.q', 'sol_1.q')], 'farfield://host/wing/wing.xyz+q=farfield://host/wing/sol_*.q')
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from farfield.errors import DataError, UsageError
from farfield.runtime.resources import Resources
from farfield.serving.store_parts import chosen_steps, parts_of_store, stored_names
from farfield.sources import list_files, places
from farfield.sources.parsing import parse
from farfield.sources.paths import PART
from farfield.volume.formats.detection import is_volume, split_variable
from farfield.volume.voxels import describe_source


@dataclass(frozen=True)
class DatasetFiles:
    """Files with their names below the dataset, and how the dataset is opened where it is staged."""

    files: list[tuple[str, str]]
    """Paths or addresses, and names; the name is empty for a dataset that is one file."""
    address: Callable[[str], str] = field(compare=False)
    """The source text at the address of the staged dataset."""
    lists: dict[str, list[str]] = field(default_factory=dict)
    """Lists of files that are staged with them, by name: the names of their files."""
    is_file: bool = False
    """Whether the source is one file: a dataset whose name ends as the file's is this file itself."""

    @classmethod
    def named(cls, base: str, paths: Sequence[str], text: str) -> DatasetFiles:
        """Files below a folder. `text`: the source, whose paths are below it, too."""
        names = [(path, places.relpath(path, base)) for path in paths]
        lists: dict[str, list[str]] = {}

        def moved(path: str, address: str) -> str:
            if list_files.is_list(path):
                listed = [places.relpath(_absolute(file), base) for file in list_files.files_of(path)]
                name = next((name for name in lists if lists[name] == listed), f"listed-{len(lists) + 1}.txt")
                lists[name] = listed
                return f"@{address}/{name}"
            return f"{address}/{places.relpath(_absolute(path), base)}"

        _moved(text, lambda path: moved(path, ""))
        return cls(names, lambda address: _moved(text, lambda path: moved(path, address)), lists)


def ends_alike(dataset: str, file: str) -> bool:
    """Whether a dataset can be the file itself: formats show in the end of a name.

    >>> ends_alike("head.nrrd", "scan7.nrrd"), ends_alike("head", "scan7.nrrd")
    (True, False)
    """
    end = posixpath.splitext(file)[1]
    return bool(end) and dataset.endswith(end)


def files_of(source: str, *, fields: Sequence[str] = (), steps: str | None = None) -> DatasetFiles:
    """The files of a source. `fields` and `steps` restrict them.

    Raises:
        DataError: if a file does not exist, or a server does not say which files there are.
        UsageError: if the source or a restriction of it cannot be staged.
        UnknownName: if there is no such field.
    """
    if source.startswith("demo:"):
        raise UsageError(f"{source}: a demo is made where it is opened; convert it first, and stage the store")
    with places.opening():
        text = places.expanduser(source)
        if not PART.search(text) and not list_files.is_list(text) and places.isdir(text):
            return _folder(text, fields, steps)
        if fields:
            raise UsageError(
                f"{source}: --fields is for stores of Zarr, which have a file for each field; convert it first, with "
                "farfield convert --fields"
            )
        return _files(text, steps)


def _folder(folder: str, fields: Sequence[str], steps: str | None) -> DatasetFiles:
    """All files below a folder."""
    if places.can_list(folder):
        names = sorted(
            places.relpath(places.join(top, name), folder) for top, _, inner in places.walk(folder) for name in inner
        )
    else:
        names = stored_names(folder)
    if fields or steps is not None:
        names = parts_of_store(folder, names, fields, steps)
    if not names:
        raise DataError(f"{folder}: there is no file in this folder")
    return DatasetFiles([(places.join(folder, name), name) for name in names], lambda address: address)


def _files(text: str, steps: str | None) -> DatasetFiles:
    """The files of a source that is no folder."""
    path, variable = split_variable(text)
    if not PART.search(text) and is_volume(text):
        if steps is not None:
            raise UsageError(f"{text}: --steps is for stores of Zarr and for series of PLOT3D files; convert it first")
        found = _of_volume(text)
    else:
        found = _of_flow(text, steps)
    paths = list(dict.fromkeys(_below(found)))
    if not paths:
        raise DataError(f"{text}: it has no files")
    if len(paths) == 1 and _absolute(path) == paths[0]:
        name = os.path.basename(path)
        suffix = "" if variable is None else f"::{variable}"

        def address(at: str) -> str:
            return (at if ends_alike(at, name) else f"{at}/{name}") + suffix

        return DatasetFiles([(paths[0], name)], address, is_file=True)
    return DatasetFiles.named(_common(paths), paths, text)


def _of_volume(text: str) -> list[str]:
    described, _ = describe_source(text, Resources.of(progress=False), options=None, quiet=True)
    return [path for path in described.reads if places.exists(path)]


def _of_flow(text: str, steps: str | None) -> list[str]:
    source = parse(text, quiet=True)
    if steps is None:
        files = list(source.made_of) or source.reads()
        return [path for path in files if places.exists(path)]
    if source.made_of or len(source.q) < 2:
        raise UsageError(f"{text}: --steps is for stores of Zarr and for series of PLOT3D files; convert it first")
    chosen = chosen_steps(steps, len(source.q))
    grids = [source.path, *source.options.get("grids", ())]
    kept = replace(
        source,
        path=grids[chosen[0]] if len(grids) > 1 else grids[0],
        q=tuple(source.q[n] for n in chosen),
        function=tuple(source.function[n] for n in chosen) if len(source.function) > 1 else source.function,
        options={**source.options, **({"grids": [grids[n] for n in chosen[1:]]} if len(grids) > 1 else {})},
    )
    if "@" in text:
        raise UsageError(f"{text}: --steps is for patterns; shorten the list of files instead")
    return [path for path in kept.reads() if places.exists(path)]


def _below(paths: Sequence[str]) -> list[str]:
    """Files, and those below folders."""
    found: list[str] = []
    for path in paths:
        if places.isdir(path):
            found += sorted(places.join(top, name) for top, _, names in places.walk(path) for name in names)
        else:
            found.append(path)
    return [_absolute(path) for path in found]


def _common(paths: Sequence[str]) -> str:
    """The deepest folder that has all files.

    Raises:
        UsageError: if they are at several places.
    """
    roots = {places.parts(path)[0] if places.is_remote(path) else "" for path in paths}
    if len(roots) > 1:
        raise UsageError(f"the files are at several places ({', '.join(sorted(roots))}); stage those of each alone")
    root = roots.pop()
    if not root:
        return os.path.commonpath([os.path.dirname(path) for path in paths])
    return root + posixpath.commonpath([posixpath.dirname(places.parts(path)[1]) or "/" for path in paths]).rstrip("/")


def _absolute(path: str) -> str:
    return path if places.is_remote(path) else os.path.abspath(places.expanduser(path))


def _moved(text: str, move: Callable[[str], str]) -> str:
    """A source text with each of its paths moved."""
    head, *parts = PART.split(text)
    pairs = [part.partition("=") for part in parts]
    file, mark, variable = head.partition("::")
    if places.is_remote(head) or list_files.is_list(head) or places.exists(head):
        file, mark, variable = head, "", ""
    return move(file) + mark + variable + "".join(f"+{key}={move(value)}" for key, _, value in pairs)
