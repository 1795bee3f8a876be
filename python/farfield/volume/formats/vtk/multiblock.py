"""VTK files of several grids (`.vtm`, `.vtpd`, `.vtpc`): which file is which block, and what the blocks are called."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.files import document, head, local_name, xml
from farfield.volume.formats.vtk.arrays import Reader
from farfield.volume.formats.vtk.outline import encoding_of, outline
from farfield.volume.formats.vtk.pieces import time_of

_KIND = re.compile(
    rb'<VTKFile[^>]*\btype\s*=\s*["\']vtk(?:MultiBlockDataSet|MultiPieceDataSet|PartitionedDataSet(?:Collection)?)["\']'
)
_TYPE = re.compile(rb'<VTKFile[^>]*\btype\s*=\s*["\'](\w+)["\']')
_GRIDS = ("StructuredGrid", "RectilinearGrid", "ImageData")
_RESAMPLE = "resample it to a grid (in ParaView: Resample To Image, saved as .vti)"
_UNREAD = {
    "UnstructuredGrid": f"an unstructured grid, which is not read; {_RESAMPLE}",
    "PolyData": "lines or surfaces, which are no grid; take it out of the list",
    "HyperTreeGrid": f"a tree of cells, which is not read; {_RESAMPLE}",
    "Table": "a table, which is no grid; take it out of the list",
}
_LEVELS = (b"vtkHierarchicalBoxDataSet", b"vtkOverlappingAMR", b"vtkNonOverlappingAMR")
_DEEPEST = 16


@dataclass(frozen=True)
class Block:
    """One grid of a dataset."""

    file: str
    name: str = ""
    """As the file that lists it calls it, with the names of the blocks that it is in before it; empty where nothing does."""


def is_multiblock(start: bytes) -> bool:
    """Whether a file that begins so lists blocks.

    >>> is_multiblock(b'<VTKFile type="vtkMultiBlockDataSet" version="1.0">'), is_multiblock(b'<VTKFile type="ImageData">')
    (True, False)
    """
    return _KIND.search(start) is not None


def refuse_levels(path: str, start: bytes) -> None:
    """Raises for a file of levels of refinement, which is named for what it is."""
    kind = _TYPE.search(start)
    if kind is not None and kind[1] in _LEVELS:
        raise DataError(
            f"{path}: this is VTK's {kind[1].decode()}, grids of several levels that overlap, which is not read; {_RESAMPLE}"
        )


def blocks_of(path: str, name: str = "", depth: int = 0) -> list[Block]:
    """The files that a file is: itself, or those that it lists, in its order; a file that is listed twice is one. Some may be of
    kinds that are not read (`without_unread`).

    Raises:
        DataError: if one is damaged, missing, or no VTK file.
    """
    start = head(path, 4096)
    refuse_levels(path, start)
    if not is_multiblock(start):
        return [Block(path, name)]
    if depth > _DEEPEST:
        raise DataError(f"{path}: its blocks are files that list blocks, nested too deeply; write it again")
    found: list[Block] = []
    listed = _listed(path, xml(path, document(path)), name)
    places.prefetch_stats([block.file for block in listed])
    for block in listed:
        if not places.isfile(block.file):
            raise DataError(
                f"{path}: its block {block.file} is not there; copy it here too, or take it out of {os.path.basename(path)}"
            )
        if unread(block.file) is None:
            refuse_unread(path, block.file)
        found += blocks_of(block.file, block.name, depth + 1)
    if not found:
        raise DataError(f"{path}: it lists no block with a file, and so no numbers; write it again")
    return distinct(found)


def time_of_blocks(path: str) -> float | None:
    """The time under `TimeValue` of a file that lists blocks; None where it says none, NaN where that is not one number."""
    length = places.getsize(path)
    with places.open_binary(path) as file:
        found = outline(path, file, length)
        try:
            return time_of(found, Reader(path, file, length, encoding_of(found)))
        except DataError:  # its blocks are as good as without
            return math.nan


def beside(path: str, name: str) -> str:
    r"""The file that another one names, from its own folder; as it is written on Windows, too.

    >>> beside("run/a.pvd", "parts/b.vts"), beside("run/a.pvd", "no\\such.vts")
    ('run/parts/b.vts', 'run/no/such.vts')
    """
    found = places.join(os.path.dirname(path), name)
    return found if places.exists(found) else places.join(os.path.dirname(path), name.replace("\\", "/"))


def distinct(blocks: Iterable[Block]) -> list[Block]:
    """Blocks without those whose file came before."""
    found: dict[str, Block] = {}
    for block in blocks:
        found.setdefault(places.realpath(block.file), block)
    return list(found.values())


def names_of(blocks: Sequence[Block]) -> list[str]:
    """A name for each zone; none where no block has one.

    >>> names_of([Block("a.vts", "wing.main"), Block("b.vts"), Block("c.vts", "wing.main")])
    ['wing.main', 'zone2', 'wing.main_2']
    """
    if not any(block.name for block in blocks):
        return []
    names: list[str] = []
    for n, block in enumerate(blocks):
        name = re.sub(r"[^\w.+-]+", "_", block.name).strip("_.") or f"zone{n + 1}"
        taken = {other.lower() for other in names}
        at = 2
        free = name
        while free.lower() in taken:
            free, at = f"{name}_{at}", at + 1
        names.append(free)
    return names


def _listed(path: str, root: Element, name: str) -> list[Block]:
    found: list[Block] = []
    waiting = [(element, name, 0) for element in reversed(list(root))]
    while waiting:
        element, outer, depth = waiting.pop()
        tag, said = local_name(element.tag), (element.get("name") or "").strip()
        inner = ".".join(part for part in (outer, said) if part)
        if tag == "DataSet" and element.get("file"):
            found.append(Block(beside(path, element.get("file", "")), inner))
        elif depth > _DEEPEST:
            raise DataError(f"{path}: its blocks are nested too deeply; write it again")
        waiting += [(child, inner, depth + 1) for child in reversed(list(element))]
    return found


def unread(file: str) -> str | None:
    """What a VTK file is that is of a kind that is not read; None of others."""
    kind = _TYPE.search(head(file, 4096))
    named = "" if kind is None else kind[1].decode()
    return (_UNREAD.get(named) or _UNREAD.get(named.removeprefix("P"), "")).partition(",")[0] or None


def without_unread(path: str, blocks: Sequence[Block], passed: dict[str, str]) -> list[Block]:
    """The blocks of a dataset without lines, surfaces and others that are not read, which go to `passed` with what they are: beside
    grids they are passed over.

    Raises:
        DataError: if there are no others.
    """
    found = {block.file: what for block in blocks if (what := unread(block.file)) is not None}
    kept = [block for block in blocks if block.file not in found]
    if not kept:
        refuse_unread(path, blocks[0].file)
    passed.update(found)
    return kept


def passed_over(path: str, passed: Mapping[str, str]) -> str:
    """The sentence about those.

    >>> passed_over("run/a.vtm", {"run/a/s.vtp": "lines or surfaces"})
    'Of the blocks of a.vtm 1 is no grid in rows and planes and is passed over: s.vtp (lines or surfaces).'
    """
    named = [f"{os.path.basename(file)} ({what})" for file, what in passed.items()]
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    some = (
        "1 is no grid in rows and planes and is"
        if len(named) == 1
        else f"{len(named)} are no grids in rows and planes and are"
    )
    return f"Of the blocks of {os.path.basename(path)} {some} passed over: {', '.join(named[:3])}{more}."


def refuse_unread(path: str, file: str, part: str = "block") -> None:
    """Raises for a file, listed in another one as a part of it, that is no grid in rows and planes, with what to do."""
    kind = _TYPE.search(head(file, 4096))
    named = kind[1].decode() if kind is not None else ""
    plain = named.removeprefix("P")
    if named in _UNREAD or plain in _UNREAD:
        raise DataError(f"{file}: this {part} of {path} is {_UNREAD.get(named) or _UNREAD[plain]}")
    if kind is None and not head(file, 26).startswith(b"# vtk DataFile"):
        raise DataError(
            f"{file}: this {part} of {path} is no VTK file of a grid ({', '.join(_GRIDS)}); write it as one"
        )
