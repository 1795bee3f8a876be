"""Peers of Farfield, each in a new process: `python -m farfield_bench.peers NAME OPTIONS`.

Prints one JSON object.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PEERS: dict[str, Callable[..., dict[str, Any]]] = {}


def _peer(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    PEERS[work.__name__] = work
    return work


def resident_peak_bytes() -> int:
    """VmHWM of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def vtk_arrays() -> Any:
    """VTK's bridge to NumPy, which has no types."""
    return importlib.import_module("vtkmodules.util.numpy_support")


def _tracer(vtk_data: Any, seeds: Any, o: dict[str, Any]) -> Any:
    from vtkmodules.vtkCommonDataModel import vtkDataObject, vtkPolyData
    from vtkmodules.vtkFiltersFlowPaths import vtkStreamTracer

    sources = vtkPolyData()
    sources.SetPoints(vtk_points(seeds))
    tracer = vtkStreamTracer()
    tracer.SetInputData(vtk_data)
    tracer.SetSourceData(sources)
    tracer.SetInputArrayToProcess(0, 0, 0, vtkDataObject.FIELD_ASSOCIATION_POINTS, o.get("array", "velocity"))
    tracer.SetIntegratorTypeToRungeKutta45()
    {
        "forward": tracer.SetIntegrationDirectionToForward,
        "backward": tracer.SetIntegrationDirectionToBackward,
        "both": tracer.SetIntegrationDirectionToBoth,
    }[o.get("direction", "forward")]()
    tracer.SetIntegrationStepUnit(2)  # lengths of cells
    tracer.SetMaximumPropagation(o["max_length"])
    tracer.SetMaximumNumberOfSteps(o.get("max_steps", 2000))
    tracer.SetTerminalSpeed(1e-12)
    tracer.SetComputeVorticity(False)
    if o.get("point_locator"):
        tracer.SetInterpolatorTypeToDataSetPointLocator()
    else:
        tracer.SetInterpolatorTypeToCellLocator()
    _adjust(tracer, o)
    return tracer


def _adjust(tracer: Any, o: dict[str, Any]) -> None:
    """Tolerance and steps. Defaults are VTK's: error 1e-6, steps of 0.01 to 0.5 cells."""
    tracer.SetMaximumError(o.get("error", 1e-6))
    tracer.SetMinimumIntegrationStep(o.get("least_step", 0.01))
    tracer.SetMaximumIntegrationStep(o.get("most_step", 0.5))
    tracer.SetInitialIntegrationStep(min(0.5, o.get("most_step", 0.5)))


def vtk_points(seeds: Any) -> Any:
    """Points in double precision of an array (N, 3)."""
    import numpy as np
    from vtkmodules.vtkCommonCore import vtkPoints

    points = vtkPoints()
    points.SetDataTypeToDouble()
    points.SetData(vtk_arrays().numpy_to_vtk(np.ascontiguousarray(seeds, dtype=np.float64), deep=True))
    return points


def _measured(tracer: Any) -> dict[str, Any]:
    tracer.Modified()
    wall, cpu = time.perf_counter(), time.process_time()
    tracer.Update()
    found = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    lines = tracer.GetOutput()
    return {**found, "points": lines.GetNumberOfPoints(), "lines": lines.GetNumberOfLines()}


def _save(tracer: Any, path: str, array: str) -> None:
    """Points, offsets, times, velocity and the seed of each line. Seeds outside have no line."""
    import numpy as np

    lines = tracer.GetOutput()
    offsets = vtk_arrays().vtk_to_numpy(lines.GetLines().GetOffsetsArray())
    order = vtk_arrays().vtk_to_numpy(lines.GetLines().GetConnectivityArray())
    data = lines.GetPointData()
    np.savez(
        path,
        points=vtk_arrays().vtk_to_numpy(lines.GetPoints().GetData())[order].astype(np.float64),
        offsets=offsets.astype(np.int64),
        time=vtk_arrays().vtk_to_numpy(data.GetArray("IntegrationTime"))[order],
        velocity=vtk_arrays().vtk_to_numpy(data.GetArray(array))[order],
        seed=vtk_arrays().vtk_to_numpy(lines.GetCellData().GetArray("SeedIds")),
        reason=vtk_arrays().vtk_to_numpy(lines.GetCellData().GetArray("ReasonForTermination")),
    )


def _in_memory(o: dict[str, Any]) -> Any:
    """A single-zone flow as a structured grid with velocity at its points, arrays read by NumPy."""
    import numpy as np
    from vtkmodules.vtkCommonCore import vtkPoints
    from vtkmodules.vtkCommonDataModel import vtkStructuredGrid

    from farfield_bench.data import Flow, arrays

    flow = Flow(Path(o["grid"]), Path(o["q"]), tuple(o["dims"]))
    xyz, density, momentum, _ = arrays(flow)
    grid = vtkStructuredGrid()
    grid.SetDimensions(*flow.dims)
    points = vtkPoints()
    points.SetData(vtk_arrays().numpy_to_vtk(np.ascontiguousarray(xyz.reshape(3, -1).T), deep=True))
    grid.SetPoints(points)
    velocity = vtk_arrays().numpy_to_vtk(np.ascontiguousarray((momentum / density).reshape(3, -1).T), deep=True)
    velocity.SetName("velocity")
    grid.GetPointData().AddArray(velocity)
    return grid


@_peer
def vtk_in_core(**o: Any) -> dict[str, Any]:
    """Repeated traces over one grid in memory. Each of `settings` runs twice or more; the first run builds the locator."""
    import numpy as np

    grid = _in_memory(o)
    tracer = _tracer(grid, np.load(o["seeds"]), o)
    begun = time.process_time()
    tracer.Update()
    found: dict[str, Any] = {"first_cpu_s": time.process_time() - begun, "settings": []}
    for setting in o["settings"]:
        _adjust(tracer, setting)
        rows = [_measured(tracer) for _ in range(setting.get("runs", 1))]
        found["settings"].append({"setting": setting, "runs": rows})
        if "save" in setting:
            _save(tracer, setting["save"], "velocity")
    return {**found, "resident_peak_bytes": resident_peak_bytes(), "version": version("vtk")}


def _plot3d(o: dict[str, Any]) -> Any:
    """VTK's own reader of the PLOT3D files that the experiments write."""
    from vtkmodules.vtkIOParallel import vtkMultiBlockPLOT3DReader

    reader = vtkMultiBlockPLOT3DReader()
    reader.SetFileName(o["grid"])
    reader.SetQFileName(o["q"])
    reader.BinaryFileOn()
    reader.MultiGridOn()
    reader.HasByteCountOn()
    reader.SetByteOrderToLittleEndian()
    reader.SetScalarFunctionNumber(-1)
    reader.SetVectorFunctionNumber(-1)
    return reader


@_peer
def vtk_file(**o: Any) -> dict[str, Any]:
    """From PLOT3D files to lines, by VTK's own reader."""
    import numpy as np

    reader = _plot3d(o)
    begun = time.perf_counter()
    reader.SetVectorFunctionNumber(200)
    reader.Update()
    read_s = time.perf_counter() - begun
    block = reader.GetOutput().GetBlock(0)
    names = [block.GetPointData().GetArrayName(n) for n in range(block.GetPointData().GetNumberOfArrays())]
    tracer = _tracer(block, np.load(o["seeds"]), {**o, "array": "Velocity"})
    row = _measured(tracer)
    if "save" in o:
        _save(tracer, o["save"], "Velocity")
    return {
        **row,
        "read_s": read_s,
        "arrays": names,
        "resident_peak_bytes": resident_peak_bytes(),
        "version": version("vtk"),
    }


def version(package: str) -> str:
    """Version of a package; empty if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # empty: not installed
        return ""


def _order(pages: int, seed: int) -> list[int]:
    """The order of `farfield_bench._native.bench`, so that all readers ask for the same pages."""
    order = list(range(pages))
    x = seed
    for i in range(pages - 1, 0, -1):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        j = (x >> 33) % (i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def _boxes(shape: tuple[int, ...], page: tuple[int, ...], o: dict[str, Any]) -> list[tuple[slice, ...]]:
    """Requests as index expressions of an array [t, (c,) k, j, i]: one `box`, spans along k, j and i, or random pages."""
    if "box" in o:
        return [(slice(0, 1), *([slice(None)] if len(shape) == 5 else []), *(slice(a, b) for a, b in o["box"]))]
    counts = [-(-n // p) for n, p in zip(shape[-3:], page[-3:], strict=True)]
    found = []
    for number in _order(counts[0] * counts[1] * counts[2], o["seed"])[: o["count"]]:
        at = (number // counts[2] // counts[1], number // counts[2] % counts[1], number % counts[2])
        box = tuple(slice(a * p, min((a + 1) * p, n)) for a, p, n in zip(at, page[-3:], shape[-3:], strict=True))
        found.append((slice(0, 1), *([slice(None)] if len(shape) == 5 else []), *box))
    return found


def _first(boxes: list[tuple[slice, ...]], o: dict[str, Any]) -> tuple[slice, ...]:
    """Reads before the clock starts, to load indexes: one of the requested pages, or a corner outside every box."""
    return tuple(slice(0, 1) for _ in boxes[0]) if "box" in o else boxes[0]


def _values(parts: Iterable[Any]) -> str:
    """A checksum of values in the order [c, k, j, i], for comparing readers."""
    import zlib

    import numpy as np

    total = 0
    for part in parts:
        total = zlib.crc32(np.ascontiguousarray(part, dtype="<f4").tobytes(), total)
    return f"{total:08x}"


def _rounds(read: Callable[[], None], o: dict[str, Any]) -> list[dict[str, float]]:
    rounds = []
    for _ in range(o["rounds"]):
        wall, cpu = time.perf_counter(), time.process_time()
        read()
        rounds.append({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu})
    return rounds


def _zarr_array(o: dict[str, Any]) -> tuple[Any, list[tuple[slice, ...]]]:
    import zarr

    array = zarr.open_array(o["store"], path=o["array"], mode="r")
    return array, _boxes(array.shape, array.chunks, o)


@_peer
def zarr_pages(**o: Any) -> dict[str, Any]:
    """Random pages by zarr-python, one read each; `zarrs`: with the pipeline of the zarrs package."""
    import zarr

    if o.get("zarrs"):
        zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    array, boxes = _zarr_array(o)
    array[_first(boxes, o)]

    def read() -> None:
        for box in boxes:
            array[box]

    found = {"rounds": _rounds(read, o), "version": version("zarrs" if o.get("zarrs") else "zarr")}
    return {**found, "values": _values(array[box] for box in boxes)}


@_peer
def tensorstore_pages(**o: Any) -> dict[str, Any]:
    """Random pages by TensorStore, in batches of reads in flight, no cache."""
    import tensorstore as ts

    _, boxes = _zarr_array(o)
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{o['store']}/{o['array']}/"},
        # The cache holds shard indexes only: pages are read each time, as in all arms.
        "context": {"cache_pool": {"total_bytes_limit": 0}, "file_io_concurrency": {"limit": o["depth"]}},
    }
    array = ts.open(spec, read=True, open=True).result()
    array[_first(boxes, o)].read().result()

    def read() -> None:
        for n in range(0, len(boxes), o["batch"]):
            futures = [array[box].read() for box in boxes[n : n + o["batch"]]]
            for future in futures:
                future.result()

    found = {"rounds": _rounds(read, o), "version": version("tensorstore")}
    return {**found, "values": _values(array[box].read().result() for box in boxes)}


@_peer
def h5py_make(**o: Any) -> dict[str, Any]:
    """The same array as an HDF5 file with the same chunks and its checksum filter."""
    import h5py

    array, _ = _zarr_array(o)
    with h5py.File(o["file"], "w") as file:
        target = file.create_dataset("a", array.shape, array.dtype, chunks=array.chunks, fletcher32=True)
        step = array.chunks[-3]
        for k in range(0, array.shape[-3], step):
            span = (slice(None),) * (len(array.shape) - 3) + (slice(k, k + step),)
            target[span] = array[span]
    return {"bytes": Path(o["file"]).stat().st_size}


@_peer
def h5py_pages(**o: Any) -> dict[str, Any]:
    """Random pages by h5py, one read each, no chunk cache."""
    import h5py

    with h5py.File(o["file"], "r", rdcc_nbytes=0) as file:
        array = file["a"]
        boxes = _boxes(array.shape, array.chunks, o)
        array[_first(boxes, o)]

        def read() -> None:
            for box in boxes:
                array[box]

        found = {"rounds": _rounds(read, o), "version": version("h5py")}
        return {**found, "values": _values(array[box] for box in boxes)}


@_peer
def mmap_boxes(**o: Any) -> dict[str, Any]:
    """The same boxes of momentum out of the PLOT3D file, mapped by NumPy: no chunks, no checksums."""
    import numpy as np

    from farfield_bench.data import Flow, arrays

    momentum = list(arrays(Flow(Path(o["grid"]), Path(o["q"]), tuple(o["dims"]))))[2]
    boxes = [box[1:] for box in _boxes((1, *momentum.shape), tuple(o["page"]), o)]

    def read() -> None:
        for box in boxes:
            np.array(momentum[box])

    found = {"rounds": _rounds(read, o), "version": version("numpy")}
    return {**found, "values": _values(momentum[box] for box in boxes)}


@_peer
def farfield_boxes(**o: Any) -> dict[str, Any]:
    """The same by Farfield's Python package, one read each."""
    import farfield as ff

    with ff.open(o["store"], memory_limit=o["memory_limit"], progress=False) as ds:
        array = ds["momentum"]
        asked = _boxes((1, 3, *o["shape"]), tuple(o["page"]), o)
        boxes: list[Any] = [(..., *box[-3:]) for box in asked]
        array[(..., *_first(asked, o)[-3:])]

        def read() -> None:
            for box in boxes:
                array[box]

        found = {"rounds": _rounds(read, o), "version": ff.__version__}
        return {**found, "values": _values(array[box] for box in boxes)}


@_peer
def vtk_box(**o: Any) -> dict[str, Any]:
    """A box of momentum by VTK's reader of PLOT3D, which reads its files whole, and its filter that extracts grids."""
    import numpy as np
    from vtkmodules.vtkFiltersExtraction import vtkExtractGrid

    (k0, k1), (j0, j1), (i0, i1) = o["box"]
    # Its imports come before the clock starts.
    _plot3d(o)
    cut = vtkExtractGrid()
    cut.SetVOI(i0, i1 - 1, j0, j1 - 1, k0, k1 - 1)

    def read() -> None:
        reader = _plot3d(o)
        reader.Update()
        cut.SetInputData(reader.GetOutput().GetBlock(0))
        cut.Update()

    found = {"rounds": _rounds(read, o), "version": version("vtk")}
    rows = vtk_arrays().vtk_to_numpy(cut.GetOutput().GetPointData().GetArray("Momentum"))
    return {**found, "values": _values([np.moveaxis(rows.reshape(k1 - k0, j1 - j0, i1 - i0, 3), -1, 0)])}


if __name__ == "__main__":
    # A module run as a script exists under two names; this one has the registry.
    print(json.dumps(PEERS[sys.argv[1]](**json.loads(sys.argv[2]))))
