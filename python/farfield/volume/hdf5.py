"""Datasets in HDF5 files, NetCDF-4 among them: h5py says where chunks lie, and the extension reads them there.

What a chunk cannot be had from by itself (filters that only the HDF5 library knows, compact and virtual datasets) is converted
into the cache through h5py, box by box.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError, FarfieldError, UnknownName, UsageError
from farfield.volume import axes as naming
from farfield.volume import cf
from farfield.volume.conversion import converted
from farfield.volume.description import (
    Array,
    Channel,
    Geometry,
    Level,
    Volume,
    colour_channels,
    contiguous,
    dtype_of,
    in_table,
    table_of,
    text_of,
)
from farfield.volume.lines import LONGEST
from farfield.volume.optional import need
from farfield.volume.options import Means, Options

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_MOST_FOUND = 10_000
_MOST_LINKS = 100
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


def read(path: str, options: Options, means: Means) -> Volume:
    """The volume in a file: `options.variable`, else the only dataset of three or more dimensions, or the largest.

    Raises:
        DataError: if the file is damaged, or a filter is not known.
        UnknownName: if there is no such dataset.
        UsageError: if h5py is not installed.
    """
    h5py = need("h5py", f"{path}: HDF5 and NetCDF-4 files")
    try:
        with h5py.File(path, "r", locking=False) as file:
            guessed: list[str] = []
            dataset = _chosen(h5py, file, path, options, guessed)
            # A link may lead into another file: offsets are those of that one.
            own = dataset.file.filename
            at = path if os.path.realpath(own) == os.path.realpath(path) else own
            return _volume(h5py, path, at, dataset, means, guessed)
    except FarfieldError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}: this HDF5 file cannot be read ({str(error)[:200]}): it was cut off, changed, or is being "
            "written; copy it again"
        ) from error


def _chosen(h5py: Any, file: Any, path: str, options: Options, guessed: list[str]) -> Any:
    found = _datasets(h5py, file)
    if options.variable is not None:
        name = "/" + options.variable.strip("/")
        known = dict(found)
        chosen = file.get(name) if name != "/" else None
        if not isinstance(chosen, h5py.Dataset):
            inside = [n for n in known if n.startswith(name.rstrip("/") + "/")] or list(known)
            raise UnknownName(f"{path}: no dataset named '{options.variable}'; there are: {_few(inside) or 'none'}")
        return chosen
    fields = [(n, d) for n, d in found if not _is_bound(d)]
    images = [(n, d) for n, d in fields if d.ndim >= 3] or [(n, d) for n, d in fields if d.ndim == 2]
    if not images:
        there = _few([f"{n} ({text_of(d.shape) or 'one number'})" for n, d in found])
        linked = _linked(h5py, file)
        if linked:
            raise UsageError(
                f"{path}: its datasets of two or more dimensions are links ({_few(linked)}); name one: {path}::{linked[0]}"
            )
        raise DataError(
            f"{path}: it holds no dataset of two or more dimensions of numbers; there are: {there or 'none'}"
        )
    name, best = max(images, key=lambda pair: math.prod(pair[1].shape) * pair[1].dtype.itemsize)
    if len(images) > 1:
        guessed.append(
            f"of its {len(images)} datasets ({_few([n for n, _ in images])}) the largest, {name}, is shown; "
            f"{path}::NAME shows another"
        )
    return best


def _few(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _datasets(h5py: Any, file: Any) -> list[tuple[str, Any]]:
    """Datasets of numbers, by name; each once, however many links lead to it."""
    found: list[tuple[str, Any]] = []

    def visit(name: str, thing: Any) -> bool | None:
        if isinstance(thing, h5py.Dataset) and thing.shape is not None and thing.dtype.kind in "iufb":
            found.append(("/" + name, thing))
        return True if len(found) >= _MOST_FOUND else None

    file.visititems(visit)
    return found


def _linked(h5py: Any, file: Any) -> list[str]:
    """Datasets that links lead to, maybe in other files; those that lead nowhere are left out."""
    names: list[str] = []
    file.visititems_links(
        lambda name, link: names.append("/" + name) if isinstance(link, h5py.SoftLink | h5py.ExternalLink) else None
    )
    found = []
    for name in names[:_MOST_LINKS]:
        try:
            thing = file.get(name)
        except (OSError, RuntimeError, ValueError):  # a file that is not here, or is damaged
            continue
        if (
            isinstance(thing, h5py.Dataset)
            and thing.shape is not None
            and thing.ndim >= 2
            and thing.dtype.kind in "iufb"
        ):
            found.append(name)
    return found


def _is_bound(dataset: Any) -> bool:
    """Whether a dataset is a coordinate."""
    name = dataset.name.rsplit("/", 1)[-1]
    if dataset.is_scale and (dataset.ndim <= 1 or _is_length(dataset)):
        return True
    return cf.is_bound(name, attributes(dataset), _dimension_names(dataset))


def _is_length(scale: Any) -> bool:
    """Whether a scale stands for the length of a dimension of NetCDF-4, and holds nothing."""
    return str(attributes(scale).get("NAME")).startswith("This is a netCDF dimension but not a netCDF variable")


def attributes(thing: Any) -> dict[str, Any]:
    """Attributes as Python has them; those that cannot be read are left out."""
    found: dict[str, Any] = {}
    for key in thing.attrs:
        try:
            value = thing.attrs[key]
        except (OSError, TypeError, ValueError):  # of a type that h5py does not know
            continue
        if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iufSOU":
            value = value.reshape(-1)[0]
        if isinstance(value, bytes):
            value = value.decode("utf-8", errors="replace")
        if isinstance(value, np.generic):
            value = value.item()
            value = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value
        found[key] = value
    return found


def _scales(dataset: Any) -> list[Any]:
    """The scale of each dimension, or None."""
    found = []
    for dimension in dataset.dims:
        try:
            found.append(dimension[0] if len(dimension) else None)
        except (RuntimeError, KeyError, ValueError):  # a reference that leads nowhere
            found.append(None)
    return found


def _dimension_names(dataset: Any) -> list[str | None]:
    found: list[str | None] = []
    for dimension, scale in zip(dataset.dims, _scales(dataset), strict=True):
        name = dimension.label or (scale.name.rsplit("/", 1)[-1] if scale is not None and scale.name else None)
        found.append(name or None)
    if dataset.ndim == 1 and dataset.is_scale:
        return [dataset.name.rsplit("/", 1)[-1]]
    return found


def _volume(h5py: Any, path: str, at: str, dataset: Any, means: Means, guessed: list[str]) -> Volume:
    """The volume that a dataset is; `at` is the file that holds it."""
    where = f"{at}::{dataset.name}"
    if dataset.shape is None or not dataset.shape:
        raise DataError(f"{where}: this dataset holds one number or none, and no volume")
    dtype, big = dtype_of(dataset.dtype, where)
    about = attributes(dataset)
    names = _dimension_names(dataset)
    beside: dict[str, cf.Coordinate] = {}
    for name, scale, length in zip(names, _scales(dataset), dataset.shape, strict=True):
        if name is None or scale is None or _is_length(scale):
            continue
        if scale.shape == (length,) and length <= LONGEST:
            beside[name] = cf.Coordinate(name, attributes(scale), _values(scale))
    letters, said = naming.of_array(
        where,
        dataset.shape,
        names if any(names) else None,
        {n: c.attributes for n, c in beside.items()},
        colours=dtype in ("uint8", "uint16"),
    )
    array = Array(dataset.name.rsplit("/", 1)[-1], dtype, tuple(int(n) for n in dataset.shape), letters, {})
    array.big_endian = big
    array.channels = list(range(array.length("c")))
    tables: list[bytes] = []
    reads = list(dict.fromkeys([path, at]))
    _place(h5py, at, dataset, array, tables, means, reads, guessed)
    by_axis = {a: beside[n] for a, n in zip(letters, names, strict=True) if n is not None and n in beside}
    located = cf.locate(letters, array.shape, by_axis)
    _element_sizes(about, letters, located)
    missing = next((m for key in ("_FillValue", "missing_value") if (m := cf.number(about.get(key))) is not None), None)
    channel, more = cf.channel_of(array.name, about, cf.signed_as_said(array, about, missing))
    count = array.length("c")
    kind = "scalar"
    channels = [channel]
    if letters.endswith("c") and count in (3, 4) and dtype in ("uint8", "uint16"):
        kind, channels = colour_channels(count)
    elif count > 1:
        kind = "channels"
        channels = [
            Channel(f"{channel.name} {n}", channel.units, scale=channel.scale, missing=channel.missing)
            for n in range(count)
        ]
    geometry = located.geometry
    is_netcdf = "_NCProperties" in dataset.file.attrs or any("_Netcdf4Dimid" in d.attrs for d in [dataset])
    return Volume(
        path=path,
        format="NetCDF-4" if is_netcdf else "HDF5",
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=[*guessed, *said, *located.guessed, *more],
        length_unit=located.length_unit,
        direction=geometry.direction,
        times=located.times,
        time_units=located.time_units,
        tables=tables,
        reads=reads,
    )


def _values(scale: Any) -> Any:
    """Reads a scale while the file is open; lines of text and records are no numbers."""
    values = np.asarray(scale[...]) if scale.dtype.kind in "iuf" else np.empty(0, dtype=object)
    return lambda: values


def _element_sizes(about: Mapping[str, Any], letters: str, located: cf.Located) -> None:
    """`element_size_um`, as tools of microscopy write it: z, y, x."""
    said = about.get("element_size_um")
    if said is None or located.length_unit != "voxel":
        return
    values = [float(v) for v in np.asarray(said, dtype=np.float64).reshape(-1)]
    if len(values) == 3 and all(math.isfinite(v) and v > 0 for v in values) and set("zyx") <= set(letters):
        located.geometry = Geometry(
            located.geometry.origin, (values[2], values[1], values[0]), located.geometry.direction
        )
        located.length_unit = "um"


def _place(
    h5py: Any,
    path: str,
    dataset: Any,
    array: Array,
    tables: list[bytes],
    means: Means,
    reads: list[str],
    guessed: list[str],
) -> None:
    """Where the numbers lie, or the file that they are converted into."""
    plan = dataset.id.get_create_plist()
    layout = plan.get_layout()
    where = f"{path}::{dataset.name}"
    as_stored = _as_stored(h5py, dataset)
    if (
        layout == h5py.h5d.CONTIGUOUS
        and plan.get_external_count() == 0
        and (as_stored or dataset.id.get_offset() is None)
    ):
        offset = dataset.id.get_offset()
        if offset is not None:
            array.place = contiguous(path, int(offset))
            if int(offset) + array.bytes > os.path.getsize(path):
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
    if layout == h5py.h5d.CHUNKED:
        codecs, unknown = _codecs(h5py, where, plan)
        if unknown is None and as_stored and _chunks(where, path, dataset, array, codecs, plan, tables):
            return
        if unknown:
            why = f"is compressed with {unknown}, which only the HDF5 library reads"
        elif as_stored:
            why = "has chunks without some of its filters"
        array.never_written = math.prod(_grid(dataset)) - int(dataset.id.get_num_chunks())
    others = _others(h5py, where, path, plan, array, guessed)
    made = converted(
        path,
        means,
        count=array.bytes,
        why=why,
        how=f"{dataset.name} {array.dtype}",
        write=boxes(dataset, array, means),
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
        lacking = math.prod(array.shape) - held
        if lacking > 0:
            guessed.append(f"{lacking:,} of its numbers lie in no part of it: the fill value stands there")
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
    size = os.path.getsize(path)
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


def boxes(dataset: Any, array: Array, means: Means) -> Callable[[BinaryIO, Callable[[int], None]], None]:
    """Writes the numbers box by box, so that each chunk is unpacked once."""
    shape, item = array.shape, array.item
    most = _BOX if means.memory_limit is None else min(_BOX, means.memory_limit // 8)
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
