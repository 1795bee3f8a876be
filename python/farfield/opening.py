"""Opens datasets of every kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from farfield.errors import UsageError
from farfield.flow.definitions import Definitions, added
from farfield.flow.opening import open_source
from farfield.runtime.progress import Report
from farfield.runtime.settings import Settings
from farfield.sources import parsing
from farfield.volume.formats.detection import is_volume
from farfield.volume.formats.options import Options

Path = str | os.PathLike[str]


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
) -> Any:
    """Opens a dataset without reading its pages: a `Dataset` of zones, or a `VolumeDataset`.

    Args:
        source: A grid file, a store's folder, a `.p3d` file, `grid.xyz+q=sol_*.q`, or `demo:NAME`; or a volume: Zarr and OME-Zarr,
            NIfTI, NRRD, DICOM, TIFF, VTK XML, HDF5, NetCDF, MetaImage, raw numbers, a folder of images. `FILE::NAME` names one of
            several variables of a volume's file.
        q: Solution files, in order of time; patterns are fine.
        function: Function files, likewise.
        memory_limit: Bytes, `"2GiB"`, or a share of the machine or its cgroup, `"50%"`; of this dataset: each that is open has its
            own.
        workers: Threads that compute; 0 for one a core. A small limit has fewer of them: one for each 2 MiB, two at least.
        readers: Reads in flight; 0 for what suits the source.
        replacement: Which page goes: `"clock"`, `"lru"`, `"sieve"`, `"s3-fifo"` or `"2q"`.
        events: A file that gets a log of what happens, for `farfield report` and `replay`; of a name that ends in .json a
            Chrome trace is made when the dataset is closed, of .parquet a table.
        plot3d: What sniffing cannot tell, as the options `--plot3d-...` have it: format, byte_order, precision, zones, iblank,
            dimension, order, kind; and `dt`, the time between the steps of files that do not give their times.
        zone_order: Zones in the order in which they are asked where several hold a position.
        define: Fields made of others: names and expressions, or a list of `"NAME = EXPRESSION"`, as `--define` has them.
        volume: What a volume's file does not say itself, or says wrong: shape (voxels along x, y and z), dtype, byte_order,
            header_bytes, components, spacing, origin, length_unit, kind, missing, component (of complex
            numbers), invert (whether the lowest value is white), variable.
        progress: A function `report(phase, done, total) -> bool`, True or False for a bar; None shows one on terminals.

    What is None comes from `FARFIELD_*`, ./farfield.toml or the user's file, then the default.

    Raises:
        DataError: if a file is not there or is not what its format asks for.
        AmbiguousError: if more than one reading of a file adds up; the message lists them.
        UsageError: if an argument makes no sense.

    >>> import farfield as ff
    >>> with ff.open("demo:box") as ds:
    ...     ds.zones["zone1"].dims
    (49, 41, 33)
    """
    chosen = Settings(
        {"memory_limit": memory_limit, "workers": workers, "readers": readers, "replacement": replacement}
    )
    options = Options.of(volume)
    if is_volume(source, options):
        given = {"q": q, "function": function, "plot3d": plot3d, "zone_order": zone_order, "define": define}
        wrong = next((name for name, value in given.items() if value is not None), None)
        if wrong is not None:
            raise UsageError(f"{os.fspath(source)}: this is a volume, which has no zones: leave {wrong} away")

        from farfield.volume.opening import open_volume

        return open_volume(source, chosen, options=options, events=events, progress=progress)
    if options != Options():
        raise UsageError(f"{os.fspath(source)}: this is no volume: leave the options of volumes away")
    found = parsing.parse(source, q=q, function=function)
    plot3d = added(plot3d, define)
    return open_source(found, chosen, events=events, plot3d=plot3d, zone_order=zone_order, progress=progress)


def volume_options(source: Path, volume: Mapping[str, Any] | None) -> Options | None:
    """What is said of the volume that a source is; None where it is a dataset of zones.

    Raises:
        UsageError: if something is said of a volume that is none.
    """
    told = Options.of(volume)
    if is_volume(source, told):
        return told
    if volume:
        raise UsageError(f"{os.fspath(source)}: this is no volume: leave the options of volumes away")
    return None


def refuse_options_of_flows(source: Path, given: Mapping[str, Any]) -> None:
    """Refuses what only datasets of zones are asked, where a source is a volume.

    Raises:
        UsageError: naming the first of these options.
    """
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise UsageError(f"{os.fspath(source)}: this is a volume, which has no zones: leave {wrong} away")
