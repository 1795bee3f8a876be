"""VTK's particle tracer over time steps in memory, in a new process: `python -m farfield_bench.tracing_peers OPTIONS`.

Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from farfield_bench.data import Array, Flow, arrays
from farfield_bench.peers import resident_peak_bytes, version, vtk_arrays, vtk_points

LOCATORS = {
    "static cells": "SetCellLocatorToStaticCellLocator",
    "jump and walk": "SetCellLocatorToJumpAndWalkCellLocator",
}
MESHES = {
    "static": "SetMeshOverTimeToStatic",
    "same topology": "SetMeshOverTimeToSameTopology",
    "different": "SetMeshOverTimeToDifferent",
}


class _InMemory:
    """A source of time steps in memory; VTK calls its methods.

    Each step is a block with its own object. A tracer holds a plain dataset as an object that the next step overwrites.
    Both ends of an interval would then be the later one.
    """

    def __init__(self, times: Sequence[float], steps: Sequence[Any]) -> None:
        self._times, self._steps = list(times), list(steps)

    def Initialize(self, algorithm: Any) -> None:  # noqa: N802 VTK calls it by this name
        algorithm.SetNumberOfInputPorts(0)
        algorithm.SetNumberOfOutputPorts(1)

    def FillInputPortInformation(self, algorithm: Any, port: int, info: Any) -> int:  # noqa: N802 VTK calls it by this name
        return 1

    def FillOutputPortInformation(self, algorithm: Any, port: int, info: Any) -> int:  # noqa: N802 VTK calls it by this name
        from vtkmodules.vtkCommonDataModel import vtkDataObject

        info.Set(vtkDataObject.DATA_TYPE_NAME(), "vtkMultiBlockDataSet")
        return 1

    def ProcessRequest(self, algorithm: Any, request: Any, inputs: Any, outputs: Any) -> int:  # noqa: N802 VTK calls it by this name
        from vtkmodules.vtkCommonDataModel import vtkDataObject
        from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline as Pipeline

        info = outputs.GetInformationObject(0)
        if request.Has(Pipeline.REQUEST_INFORMATION()):
            info.Set(Pipeline.TIME_STEPS(), self._times, len(self._times))
            info.Set(Pipeline.TIME_RANGE(), [self._times[0], self._times[-1]], 2)
        elif request.Has(Pipeline.REQUEST_DATA()):
            step = int(np.argmin(np.abs(np.array(self._times) - info.Get(Pipeline.UPDATE_TIME_STEP()))))
            output = info.Get(vtkDataObject.DATA_OBJECT())
            output.SetBlock(0, self._steps[step])
            output.GetInformation().Set(vtkDataObject.DATA_TIME_STEP(), self._times[step])
        return 1


def _steps(o: dict[str, Any]) -> list[Any]:
    """The time steps of a series, velocity at the points in the precision of the files."""
    from vtkmodules.vtkCommonCore import vtkPoints
    from vtkmodules.vtkCommonDataModel import vtkImageData, vtkStructuredGrid

    found: list[Any] = []
    for n, q in enumerate(o["q"]):
        flow = Flow(Path(o["grids"][n % len(o["grids"])]), Path(q), tuple(o["dims"]))
        xyz, density, momentum, _ = arrays(flow)
        if o.get("spacing"):
            step: Any = vtkImageData()
            step.SetDimensions(*flow.dims)
            step.SetSpacing(*o["spacing"])
        else:
            step = vtkStructuredGrid()
            step.SetDimensions(*flow.dims)
            if n < len(o["grids"]):
                points = vtkPoints()
                points.SetData(_vectors(xyz))
            step.SetPoints(points)
        velocity = _vectors(momentum / density)
        velocity.SetName("velocity")
        step.GetPointData().SetVectors(velocity)
        found.append(step)
    return found


def _vectors(planes: Array) -> Any:
    return vtk_arrays().numpy_to_vtk(np.ascontiguousarray(planes.reshape(3, -1).T), deep=True)


def _tracer(source: Any, seeds: Any, setting: dict[str, Any]) -> Any:
    from vtkmodules.vtkCommonDataModel import vtkDataObject
    from vtkmodules.vtkFiltersFlowPaths import vtkParticlePathFilter

    tracer = vtkParticlePathFilter()
    tracer.SetInputConnection(0, source.GetOutputPort())
    tracer.AddSourceConnection(seeds.GetOutputPort())
    tracer.SetInputArrayToProcess(0, 0, 0, vtkDataObject.FIELD_ASSOCIATION_POINTS, "velocity")
    tracer.SetIntegratorType(tracer.RUNGE_KUTTA4)
    tracer.SetComputeVorticity(False)
    tracer.SetForceSerialExecution(True)
    tracer.SetTerminalSpeed(0.0)
    getattr(tracer, MESHES[setting["mesh"]])()
    with warnings.catch_warnings():
        # Other versions have another name for this, and warn of the old one.
        warnings.simplefilter("ignore", DeprecationWarning)
        if setting["locator"] == "points":
            tracer.SetInterpolatorTypeToDataSetPointLocator()
        else:
            getattr(tracer, LOCATORS[setting["locator"]])()
    return tracer


def _ends(tracer: Any, count: int, last: float) -> Array:
    """Positions of particles at the last time, (N, 3); NaN for lost ones."""
    output = tracer.GetOutput()
    ends = np.full((count, 3), np.nan)
    if output.GetNumberOfPoints():
        data = output.GetPointData()
        at = vtk_arrays().vtk_to_numpy(output.GetPoints().GetData())
        which = vtk_arrays().vtk_to_numpy(data.GetArray("InjectedPointId"))
        age = vtk_arrays().vtk_to_numpy(data.GetArray("ParticleAge"))
        whole = age > last * (1 - 1e-5)
        ends[which[whole]] = at[whole]
    return ends


def particles(**o: Any) -> dict[str, Any]:
    """Repeated particle paths. Each of `settings` is a kind of locator and the tracer's setting for changes of the
    mesh. `located_cpu_s`: CPU seconds of a second tracer, which finds the locators on the datasets.
    """
    from vtkmodules.vtkCommonDataModel import vtkPolyData
    from vtkmodules.vtkCommonExecutionModel import vtkTrivialProducer
    from vtkmodules.vtkFiltersPython import vtkPythonAlgorithm

    steps = _steps(o)
    all_seeds = np.load(o["seeds"])
    points = vtkPolyData()
    points.SetPoints(vtk_points(all_seeds))
    seeds = vtkTrivialProducer()
    seeds.SetOutput(points)

    def fresh() -> Any:
        """A source of the same arrays in new objects, without locators."""
        source = vtkPythonAlgorithm()
        source.SetPythonObject(_InMemory(o["times"], [_copy(step) for step in steps]))
        return source

    def run(source: Any, setting: dict[str, Any]) -> tuple[float, float, Any]:
        tracer = _tracer(source, seeds, setting)
        wall, cpu = time.perf_counter(), time.process_time()
        tracer.Update()
        return time.perf_counter() - wall, time.process_time() - cpu, tracer

    found: list[dict[str, Any]] = []
    for setting in o["settings"]:
        rows = []
        for _ in range(setting["runs"]):
            source = fresh()
            wall, cpu, _ = run(source, setting)
            _, again, tracer = run(source, setting)
            rows.append({"wall_s": wall, "cpu_s": cpu, "located_cpu_s": again})
        ends = _ends(tracer, len(all_seeds), o["times"][-1] - o["times"][0])
        np.save(setting["ends"], ends)
        found.append({"setting": setting, "runs": rows, "lost": int(np.isnan(ends[:, 0]).sum())})
    return {"settings": found, "resident_peak_bytes": resident_peak_bytes(), "version": version("vtk")}


def _copy(step: Any) -> Any:
    copy = step.NewInstance()
    copy.ShallowCopy(step)
    return copy


if __name__ == "__main__":
    print(json.dumps(particles(**json.loads(sys.argv[1]))))
