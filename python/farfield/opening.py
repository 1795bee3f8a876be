"""Opens datasets of every kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from farfield.errors import UsageError
from farfield.flow.dataset import Dataset
from farfield.flow.definitions import Definitions, added
from farfield.flow.opening import open_source
from farfield.runtime.progress import Report
from farfield.runtime.resources import Resources
from farfield.sources import parsing, places
from farfield.volume.formats.detection import is_volume
from farfield.volume.formats.options import Options

Path = str | os.PathLike[str]


@places.opening()
def open(
    source: Path,
    *,
    q: Path | Iterable[Path] | None = None,
    function: Path | Iterable[Path] | None = None,
    memory_limit: str | int | None = None,
    workers: int | None = None,
    readers: int | None = None,
    replacement: str | None = None,
    events: Path | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    define: Definitions | None = None,
    volume: Mapping[str, Any] | None = None,
    progress: bool | Report | None = None,
) -> Dataset:
    """Opens a dataset without reading its pages: a `Dataset` of zones, or a `VolumeDataset`.

    The file decides which class it is. For type checkers and editors the result is a `Dataset` with the members of
    both kinds. So they complete and check code behind `with farfield.open(path) as ds:`. At run time, a member that
    the kind lacks raises an `AttributeError`; test with `hasattr(ds, "spacing")`.

    Args:
        source: A grid file, the folder of a store, a `.p3d` file, `grid.xyz+q=sol_*.q`, or `demo:NAME`. Or a volume:
            Zarr and OME-Zarr, NIfTI, NRRD, DICOM, TIFF, VTK XML, HDF5, NetCDF, MetaImage, raw numbers, a folder of
            images. `FILE::NAME` selects one of several variables of a volume's file.
            Each path may be an address at a server (`s3://bucket/a.zarr`), and each pattern a list of files (`@names.txt`).
        q: Solution files in order of time, or patterns.
        function: Function files, likewise.
        memory_limit: Bytes, `"2GiB"`, or a share of the memory of the machine or its cgroup, `"50%"`. It applies to
            this dataset alone.
        workers: Threads that compute; 0 for one per core. A small limit reduces them to one per 2 MiB, but at least
            two.
        readers: Reads in flight; 0 for a number that suits the source.
        replacement: Policy that picks pages for eviction: `"clock"`, `"lru"`, `"sieve"`, `"s3-fifo"` or `"2q"`.
        events: File for the log of events, for `farfield report` and `replay`. When the dataset is closed, a name
            ending in .json becomes a Chrome trace, one ending in .parquet a table.
        plot3d: What the PLOT3D files leave open, as in the options `--plot3d-...`: format, byte_order, precision,
            zones, iblank, dimension, order, kind; and `dt`, the time between steps of files without times.
        zone_order: Zones in the order of search for a point that lies in several.
        define: Derived fields: a mapping of names to expressions, or a list of `"NAME = EXPRESSION"`, as in `--define`.
        volume: What a volume's file omits or has wrong: shape (voxels along x, y and z), dtype, byte_order,
            header_bytes, components, spacing, origin, length_unit, kind, missing, component (of complex numbers),
            invert (whether the lowest value is white), variable.
        progress: A function `report(phase, done, total) -> bool`, or True or False for a bar; None for a bar on
            terminals.

    Defaults of arguments that are None, in this order: `FARFIELD_*`, ./farfield.toml, the user's file, the built-in
    default.

    Raises:
        DataError: if a file does not exist or breaks the rules of its format.
        AmbiguousError: if more than one reading of a file fits; the message lists them.
        UsageError: if an argument is invalid.

    >>> import farfield as ff
    >>> with ff.open("demo:box") as ds:
    ...     ds.zones["zone1"].dims
    (49, 41, 33)
    """
    resources = Resources.of(
        memory_limit=memory_limit,
        workers=workers,
        readers=readers,
        replacement=replacement,
        events=events,
        progress=progress,
    )
    options = Options.of(volume)
    if is_volume(source, options):
        given = {"q": q, "function": function, "plot3d": plot3d, "zone_order": zone_order, "define": define}
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong is not None:
            raise UsageError(f"{os.fspath(source)}: a volume has no zones; remove {wrong}")

        from farfield.volume.opening import open_volume

        return open_volume(source, resources, options=options)
    if options != Options():
        raise UsageError(f"{os.fspath(source)}: not a volume; remove the options of volumes")
    found = parsing.parse(source, q=q, function=function)
    plot3d = added(plot3d, define)
    return open_source(found, resources, plot3d=plot3d, zone_order=zone_order)


@places.opening()
def volume_options(source: Path, volume: Mapping[str, Any] | None) -> Options | None:
    """Options of a source that is a volume; None for a dataset of zones.

    Raises:
        UsageError: if a dataset of zones has options of volumes.
    """
    told = Options.of(volume)
    if is_volume(source, told):
        return told
    if volume:
        raise UsageError(f"{os.fspath(source)}: not a volume; remove the options of volumes")
    return None


def refuse_options_of_flows(source: Path, given: Mapping[str, Any]) -> None:
    """Refuses options of flows for a source that is a volume.

    Raises:
        UsageError: naming the first of these options.
    """
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise UsageError(f"{os.fspath(source)}: a volume has no zones; remove {wrong}")
