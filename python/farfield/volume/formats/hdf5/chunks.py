"""Where the numbers of a dataset of HDF5 lie: h5py says which chunk lies where, and the extension reads them there.

What a chunk cannot be had from by itself is converted into the cache through h5py, box by box.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats import number_parts
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.description import Array, contiguous, in_table, table_of, text_of
from farfield.volume.formats.hdf5 import server_file, server_virtual
from farfield.volume.formats.options import ReaderResources

_FILTERS: dict[int, dict[str, Any]] = {
    1: {"name": "zlib"}, 2: {"name": "shuffle"}, 3: {"name": "fletcher32"}, 32001: {"name": "blosc"}, 32015: {"name": "zstd"},
}  # fmt: skip
_SHUFFLE = 2
_NAMED = {4: "szip", 5: "nbit", 6: "scaleoffset", 32000: "lzf", 32004: "lz4", 32008: "bitshuffle", 32013: "zfp"}
_BOX = 8 << 20
"""About so many bytes are converted at a time."""
_UNWRITTEN = 64
"""Numbers along each axis of the chunks in which a dataset is looked at that has none."""
_SPARSE = 1 << 22
"""More chunks than this are listed only where a fair part of them was written."""


def place(
    h5py: Any,
    path: str,
    dataset: Any,
    array: Array,
    tables: list[bytes],
    resources: ReaderResources,
    reads: list[str],
    guessed: list[str],
) -> None:
    """Where the numbers lie, or the file that they are converted into."""
    plan = dataset.id.get_create_plist()
    layout = plan.get_layout()
    where = f"{path}::{dataset.name}"
    part = number_parts.chosen(guessed) if dataset.dtype.kind == "c" else None
    as_stored = part is None and _as_stored(h5py, dataset)
    if (
        layout == h5py.h5d.CONTIGUOUS
        and plan.get_external_count() == 0
        and (as_stored or (part is None and dataset.id.get_offset() is None))
    ):
        offset = dataset.id.get_offset()
        if offset is not None:
            array.place = contiguous(path, int(offset))
            if int(offset) + array.bytes > places.getsize(path):
                raise DataError(f"{where}: its numbers go on beyond the end of the file: it was cut off; copy it again")
            return
        if not array.bytes:
            raise DataError(f"{where}: this dataset is empty: its size is {text_of(array.shape)}")
        # As of chunks that were never written, the file says what is there.
        array.chunk, array.fill = tuple(min(n, _UNWRITTEN) for n in array.shape), _fill(dataset)
        array.place = in_table([path], len(tables))
        grid = [-(-n // c) for n, c in zip(array.shape, array.chunk, strict=True)]
        tables.append(table_of(np.zeros((math.prod(grid), 3), dtype=np.uint64)))
        return
    why = "is not in chunks that can be read by themselves" if as_stored else "has numbers with other bits beside them"
    if part is not None:
        why = number_parts.WHY
    if layout == h5py.h5d.CHUNKED:
        codecs, unknown = _codecs(h5py, where, plan)
        if unknown is None and as_stored and _chunks(where, path, dataset, array, codecs, plan, tables):
            return
        if unknown and part is None:
            why = f"is compressed with {unknown}, which only the HDF5 library reads"
        elif as_stored:
            why = "has chunks without some of its filters"
        array.never_written = math.prod(_grid(dataset)) - int(dataset.id.get_num_chunks())
    of: Any = dataset
    if places.is_remote(path) and layout == h5py.h5d.VIRTUAL:
        of = server_virtual.Virtual(h5py, where, path, dataset, plan)
        others = [name for name in of.files if name != path]
        guessed += _unfilled(of.lacking)
    else:
        others = _others(h5py, where, path, plan, array, guessed)
    made = converted(
        path,
        resources,
        count=array.bytes,
        why=why,
        how=f"{dataset.name} {part or ''}{array.dtype}",
        write=boxes(of if part is None else number_parts.Parted(of, part), array, resources),
        files=[path, *others],
        at_once=math.prod(dataset.chunks or (1,)) * array.item,
    )
    array.chunk, array.codecs, array.big_endian = None, [], False
    array.place = contiguous(made.path, 0)
    reads += [*others, made.path]


def _as_stored(h5py: Any, dataset: Any) -> bool:
    """Whether numbers lie in the file as NumPy has them: the format knows some of fewer bits than their bytes, and other floats."""
    kind = dataset.id.get_type()
    if isinstance(kind, h5py.h5t.TypeEnumID):
        kind = kind.get_super()
    plain = np.dtype("i1" if dataset.dtype == bool else dataset.dtype.str)
    return bool(kind.equal(h5py.h5t.py_create(plain))) or (kind.get_size() == 1 and kind.get_precision() == 8)


def _others(h5py: Any, where: str, path: str, plan: Any, array: Array, guessed: list[str]) -> list[str]:
    """Files beside its own that hold a dataset's numbers: those of a virtual dataset, and external ones.

    Raises:
        DataError: if one is missing or too short: the HDF5 library would give the fill value for what lies there, without a word.
    """
    folder = os.path.dirname(os.path.abspath(path))
    server_file.refuse_others(where, path, plan)
    # Files here from now on, and what they name is here, too.
    found: list[str] = []
    if plan.get_layout() == h5py.h5d.VIRTUAL:
        held = 0
        for n in range(plan.get_virtual_count()):
            name = plan.get_virtual_filename(n)
            held += _selected(plan.get_virtual_vspace(n), math.prod(array.shape))
            if name == ".":  # the file itself
                continue
            # Numbered sources (%b) are as many as there are: none of them can be missing.
            if "%" not in name.replace("%%", ""):
                found.append(_source(where, folder, name.replace("%%", "%"), plan, n, h5py))
        guessed += _unfilled(math.prod(array.shape) - held)
    else:
        left = array.bytes
        for n in range(plan.get_external_count()):
            raw, offset, size = plan.get_external(n)
            name = os.fsdecode(raw)
            found.append(_beside(where, [os.path.abspath(name), os.path.join(folder, name)], name))
            held = min(left, int(size))
            if offset + held > os.path.getsize(found[-1]):
                raise DataError(
                    f"{where}: {held:,} bytes of it lie in {found[-1]} from byte {offset:,} on, and that file ends at "
                    f"{os.path.getsize(found[-1]):,}: it was cut off; copy it again"
                )
            left -= held
    return list(dict.fromkeys(found))


def _unfilled(lacking: int) -> list[str]:
    """The note about numbers that no part of a virtual dataset holds."""
    return [f"{lacking:,} of its numbers lie in no part of it: the fill value stands there"] if lacking > 0 else []


def _source(where: str, folder: str, name: str, plan: Any, number: int, h5py: Any) -> str:
    """The file of a part of a virtual dataset, where HDF5 looks for it."""
    dataset, wanted = plan.get_virtual_dsetname(number), plan.get_virtual_srcspace(number)
    tried = [name, os.path.join(folder, name), os.path.join(folder, os.path.basename(name))]
    prefix = os.environ.get("HDF5_VDS_PREFIX", "").replace("${ORIGIN}", folder)
    found = _beside(where, [os.path.join(prefix, name), *tried] if prefix else tried, name)
    with h5py.File(found, "r", locking=False) as file:
        if "%" not in dataset and dataset not in file:
            raise DataError(f"{where}: a part of it is {dataset} of {found}, which is not there; write it again")
        shape = () if "%" in dataset else file[dataset].shape
        if wanted.get_select_type() == h5py.h5s.SEL_ALL:
            needed = _selected(plan.get_virtual_vspace(number), 0)
            short, said = math.prod(shape) < needed, f"{needed:,}"
        elif _selected(wanted, -1) < 0:  # it goes on without end, as far as there is something
            return found
        else:
            ends = [int(n) + 1 for n in wanted.get_select_bounds()[1]]
            short, said = any(end > there for end, there in zip(ends, shape, strict=False)), text_of(ends)
        if short and "%" not in dataset:
            raise DataError(
                f"{where}: a part of it are {said} numbers of {dataset} in {found}, which has {text_of(shape)}; write it again, or "
                "copy all of that file"
            )
    return found


def _selected(space: Any, endless: int) -> int:
    """Numbers that a selection has; `endless` of one that grows with the dataset."""
    try:
        return int(space.get_select_npoints())
    except (RuntimeError, ValueError):  # as the library says it
        return endless


def _beside(where: str, tried: list[str], name: str) -> str:
    found = next((p for p in tried if os.path.isfile(p)), None)
    if found is None:
        raise DataError(f"{where}: a part of it lies in {name}, which is not there; copy that file here too")
    return found


def _codecs(h5py: Any, where: str, plan: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Steps of decoding, and the name of a filter that is not decoded here.

    Raises:
        DataError: if h5py does not know that filter either.
    """
    found = []
    for n in reversed(range(plan.get_nfilters())):
        code, _, values, name = plan.get_filter(n)
        step = _FILTERS.get(code)
        if step is None:
            text = _NAMED.get(code) or name.decode("utf-8", errors="replace").split(";")[0] or str(code)
            if not h5py.h5z.filter_avail(code):
                raise DataError(
                    f"{where}: it is compressed with the filter {text} (number {code}), which is not read; pip "
                    "install hdf5plugin may bring it, or write it again with gzip (h5repack -f GZIP=4)"
                )
            return [], text
        step = dict(step)
        if code == _SHUFFLE:
            step["size"] = int(values[0]) if values else 1
        found.append(step)
    return found, None


def _chunks(
    where: str, path: str, dataset: Any, array: Array, codecs: list[dict[str, Any]], plan: Any, tables: list[bytes]
) -> bool:
    """Makes a table of the chunks; False where one was written without some of its filters."""
    chunk = tuple(int(n) for n in dataset.chunks)
    grid = _grid(dataset)
    number = math.prod(grid)
    written = int(dataset.id.get_num_chunks())
    if number > _SPARSE and number > 64 * max(1, written):
        raise DataError(
            f"{where}: {written:,} of its {number:,} chunks were written; write the part that holds numbers into a "
            "dataset of its own"
        )
    table = np.zeros((number, 3), dtype=np.uint64)
    steps = [math.prod(grid[n + 1 :]) for n in range(len(grid))]
    size = places.getsize(path)
    strange: list[str] = []

    def visit(info: Any) -> bool | None:
        at = sum(o // c * s for o, c, s in zip(info.chunk_offset, chunk, steps, strict=True))
        if info.filter_mask or at >= number:
            strange.append("mask")
            return True
        if info.byte_offset is None or info.byte_offset + info.size > size:
            strange.append("end")
            return True
        table[at, 1], table[at, 2] = info.byte_offset, info.size
        return None

    if written:
        dataset.id.chunk_iter(visit)
    if "end" in strange:
        raise DataError(f"{where}: a chunk of it goes on beyond the end of the file: it was cut off; copy it again")
    if strange:
        return False
    array.chunk, array.codecs = chunk, codecs
    # Of damaged headers the library does not survive this question: it is asked where the answer is needed.
    array.fill = _fill(dataset) if written < number else None
    array.place = in_table([path], len(tables))
    tables.append(table_of(table))
    return True


def _grid(dataset: Any) -> list[int]:
    """Chunks along each dimension."""
    return [-(-int(s) // int(c)) for s, c in zip(dataset.shape, dataset.chunks, strict=True)]


def _fill(dataset: Any) -> float | None:
    """What chunks hold that were never written; None where the file says none."""
    value = dataset.fillvalue
    try:
        if dataset.dtype.kind in "iu":
            return int(value)
        found = float(value)
        return found if np.asarray(found, dtype=dataset.dtype) == value or math.isnan(found) else None
    except (TypeError, ValueError, OverflowError):  # the file says none
        return None


def box_of(shape: tuple[int, ...], chunk: tuple[int, ...], item: int, most: int = _BOX) -> tuple[int, ...]:
    """Chunks that are read at once: as many as make about `most` bytes, along the fastest dimension first.

    >>> box_of((1000, 10000, 10000), (64, 64, 64), 1), box_of((4, 5, 6), (1, 1, 1), 8)
    ((64, 64, 2048), (4, 5, 6))
    """
    box = [min(c, s) for c, s in zip(chunk, shape, strict=True)]
    for n in reversed(range(len(shape))):
        room = most // max(1, math.prod(box) * item)
        if room < 2:
            break
        box[n] = min(shape[n], box[n] * room)
        if box[n] < shape[n]:
            break
    return tuple(box)


def boxes(dataset: Any, array: Array, resources: ReaderResources) -> Callable[[BinaryIO, Callable[[int], None]], None]:
    """Writes the numbers box by box, so that each chunk is unpacked once."""
    shape, item = array.shape, array.item
    most = _BOX if resources.memory_limit is None else min(_BOX, resources.memory_limit // 8)
    box = box_of(shape, tuple(int(n) for n in dataset.chunks or (1,) * len(shape)), item, most)
    strides = [math.prod(shape[n + 1 :]) * item for n in range(len(shape))]

    def write(file: BinaryIO, tell: Callable[[int], None]) -> None:
        for start in itertools.product(*(range(0, s, b) for s, b in zip(shape, box, strict=True))):
            end = [min(a + b, s) for a, b, s in zip(start, box, shape, strict=True)]
            part: NDArray[Any] = dataset[tuple(slice(a, e) for a, e in zip(start, end, strict=True))]
            part = np.ascontiguousarray(part, dtype=np.dtype(array.dtype).newbyteorder("<"))
            # Runs go on from the last dimension of which a box has only a part.
            cut = next((n for n in reversed(range(len(shape))) if part.shape[n] < shape[n]), 0)
            first = sum(a * s for a, s in zip(start, strides, strict=True))
            runs = part.reshape(math.prod(part.shape[:cut]), -1)
            for n, at in enumerate(itertools.product(*(range(m) for m in part.shape[:cut]))):
                file.seek(first + sum(a * s for a, s in zip(at, strides, strict=False)))
                file.write(runs[n].tobytes())
            tell(part.nbytes)

    return write
