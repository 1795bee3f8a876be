"""Volumes by VTK, each arm in a new process: `python -m farfield_bench.volume_peers NAME OPTIONS`.

Prints one JSON object. Options name a file of raw 8-bit voxels, k slowest, and its `dims`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from farfield_bench.peers import resident_peak_bytes, version, vtk_arrays

VOLUME_PEERS: dict[str, Callable[..., dict[str, Any]]] = {}
SLAB = 64
"""Layers of cells per slab, from 65 planes."""


def _peer(work: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    VOLUME_PEERS[work.__name__] = work
    return work


class _Clock:
    """Wall and processor time of this process, all threads, since the object was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"wall_s": time.perf_counter() - self.wall, "cpu_s": time.process_time() - self.cpu}


def _image(voxels: Any, first: int = 0) -> Any:
    """Voxels [k, j, i] as VTK's image, not copied; plane `first` comes first. Keep the array for as long as the image."""
    from vtkmodules.vtkCommonDataModel import vtkImageData

    nz, ny, nx = voxels.shape
    image = vtkImageData()
    image.SetDimensions(nx, ny, nz)
    image.SetOrigin(0.0, 0.0, float(first))
    image.GetPointData().SetScalars(vtk_arrays().numpy_to_vtk(voxels.reshape(-1), deep=False))
    return image


def _in_memory(o: dict[str, Any]) -> Any:
    import numpy as np

    return np.fromfile(o["file"], np.uint8).reshape(o["dims"][::-1])


def _volume(o: dict[str, Any], image: Any) -> Any:
    """A VTK volume without shading, with a sample every `dt` voxels and the same number of samples in each frame."""
    from vtkmodules.vtkCommonDataModel import vtkPiecewiseFunction
    from vtkmodules.vtkRenderingCore import vtkColorTransferFunction, vtkVolume, vtkVolumeProperty
    from vtkmodules.vtkRenderingVolume import vtkFixedPointVolumeRayCastMapper, vtkGPUVolumeRayCastMapper

    # The mappers do not share all of these methods.
    mapper: Any = vtkGPUVolumeRayCastMapper() if o["mapper"] == "gpu" else vtkFixedPointVolumeRayCastMapper()
    mapper.SetInputData(image)
    mapper.AutoAdjustSampleDistancesOff()
    mapper.LockSampleDistanceToInputSpacingOff()
    mapper.SetImageSampleDistance(1.0)
    mapper.SetSampleDistance(o["dt"])
    if o["mapper"] == "gpu":
        mapper.UseJitteringOff()
        mapper.SetMaxMemoryInBytes(4 << 30)
        mapper.SetMaxMemoryFraction(1.0)
    else:
        mapper.SetInteractiveSampleDistance(o["dt"])
        mapper.SetNumberOfThreads(len(os.sched_getaffinity(0)))
    opacity, colour = vtkPiecewiseFunction(), vtkColorTransferFunction()
    for value, a in o["opacities"]:
        opacity.AddPoint(value, a)
    for value, rgb in o["colours"]:
        colour.AddRGBPoint(value, *rgb)
    looks = vtkVolumeProperty()
    looks.SetScalarOpacity(opacity)
    looks.SetColor(colour)
    looks.SetScalarOpacityUnitDistance(1.0)
    looks.SetInterpolationTypeToLinear()
    looks.ShadeOff()
    volume = vtkVolume()
    volume.SetMapper(mapper)
    volume.SetProperty(looks)
    return volume


def _look(camera: Any, view: dict[str, Any]) -> None:
    camera.SetPosition(*view["position"])
    camera.SetFocalPoint(*view["target"])
    camera.SetViewUp(*view["up"])
    camera.SetViewAngle(view["fov_degrees"])


@_peer
def rays(**o: Any) -> dict[str, Any]:
    """Pictures of a volume in memory from `views`, by the mapper `fixed` (vtkFixedPointVolumeRayCastMapper) or `gpu`
    (vtkGPUVolumeRayCastMapper, drawn by Mesa's software driver). The result leaves out the first frame, which builds
    tables and textures.
    """
    # No screen, and no graphics card even if there is one.
    os.environ["VTK_DEFAULT_OPENGL_WINDOW"] = "vtkEGLRenderWindow"
    os.environ.update(LIBGL_ALWAYS_SOFTWARE="1", GALLIUM_DRIVER="llvmpipe", VTK_DEFAULT_EGL_DEVICE_INDEX="0")
    import numpy as np
    import vtkmodules.vtkRenderingOpenGL2
    import vtkmodules.vtkRenderingVolumeOpenGL2  # noqa: F401 registers what draws
    from vtkmodules.vtkCommonCore import vtkUnsignedCharArray
    from vtkmodules.vtkRenderingCore import vtkRenderer, vtkRenderWindow

    voxels = _in_memory(o)
    window, renderer = vtkRenderWindow(), vtkRenderer()
    window.SetOffScreenRendering(1)
    window.SetMultiSamples(0)
    window.SetSize(*o["size"])
    window.AddRenderer(renderer)
    renderer.SetBackground(0.0, 0.0, 0.0)
    renderer.AddVolume(_volume(o, _image(voxels)))
    camera = renderer.GetActiveCamera()
    _look(camera, o["views"][0])
    renderer.ResetCameraClippingRange()
    first = _Clock()
    window.Render()
    found: dict[str, Any] = {"first": first.read(), "frames": []}
    for view in o["views"]:
        for _ in range(o.get("rounds", 1)):
            _look(camera, view)
            renderer.ResetCameraClippingRange()
            clock = _Clock()
            window.Render()
            # Reading the picture waits for its last pixel.
            pixels = vtkUnsignedCharArray()
            window.GetRGBACharPixelData(0, 0, o["size"][0] - 1, o["size"][1] - 1, 0, pixels, 0)
            found["frames"].append({"view": view["name"], **clock.read()})
        if "save" in o:
            picture = vtk_arrays().vtk_to_numpy(pixels).reshape(o["size"][1], o["size"][0], 4)[::-1, :, :3]
            np.save(f"{o['save']}-{view['name']}.npy", picture)
    lines = window.ReportCapabilities().splitlines()
    driver = next((line.split(":", 1)[1].strip() for line in lines if "renderer string" in line), "unknown")
    return {**found, "driver": driver, "resident_peak_bytes": resident_peak_bytes(), "version": version("vtk")}


def _edges(image: Any, level: float) -> Any:
    from vtkmodules.vtkFiltersCore import vtkFlyingEdges3D

    edges = vtkFlyingEdges3D()
    edges.SetInputData(image)
    edges.SetValue(0, level)
    edges.ComputeNormalsOff()
    edges.ComputeGradientsOff()
    edges.ComputeScalarsOff()
    return edges


def _sequential() -> None:
    """One core."""
    from vtkmodules.vtkCommonCore import vtkSMPTools

    vtkSMPTools.SetBackend("Sequential")


def _area(surface: Any) -> float:
    import numpy as np

    points = vtk_arrays().vtk_to_numpy(surface.GetPoints().GetData())
    corners = vtk_arrays().vtk_to_numpy(surface.GetPolys().GetConnectivityArray()).reshape(-1, 3)
    total = 0.0
    for n in range(0, len(corners), 1 << 18):
        a, b, c = (points[corners[n : n + (1 << 18), m]].astype(np.float64) for m in range(3))
        total += float(np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())
    return total / 2


@_peer
def contour(**o: Any) -> dict[str, Any]:
    """The isosurface at `level` of a volume in memory by vtkFlyingEdges3D, without normals, on one core, `rounds` times."""
    _sequential()
    voxels = _in_memory(o)
    rounds = []
    for _ in range(o.get("rounds", 1)):
        edges = _edges(_image(voxels), o["level"])
        clock = _Clock()
        edges.Update()
        rounds.append(clock.read())
        surface = edges.GetOutput()
    return {
        "rounds": rounds,
        "triangles": surface.GetNumberOfPolys(),
        "points": surface.GetNumberOfPoints(),
        "area": _area(surface),
        "resident_peak_bytes": resident_peak_bytes(),
        "version": version("vtk"),
    }


def _mapped_slabs(o: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    """Planes of slab after slab of the mapped file. Finished planes are released, so that they do not count as memory."""
    import mmap

    import numpy as np

    nx, ny, nz = o["dims"]

    with open(o["file"], "rb") as file:
        # Closed with its last array.
        memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    memory.madvise(mmap.MADV_SEQUENTIAL)
    for first in range(0, nz - 1, SLAB):
        planes = min(SLAB + 1, nz - first)
        yield first, np.frombuffer(memory, np.uint8, planes * ny * nx, first * ny * nx).reshape(planes, ny, nx)
        memory.madvise(mmap.MADV_DONTNEED, 0, (first + planes - 1) * ny * nx // mmap.PAGESIZE * mmap.PAGESIZE)


def _read_slabs(o: dict[str, Any]) -> Iterator[tuple[int, Any]]:
    """Planes of slab after slab, read into one buffer; the plane shared by two slabs stays."""
    import numpy as np

    nx, ny, nz = o["dims"]
    buffer = np.empty((SLAB + 1, ny, nx), np.uint8)
    with open(o["file"], "rb", buffering=0) as file:
        kept = 0
        for first in range(0, nz - 1, SLAB):
            planes = min(SLAB + 1, nz - first)
            rest = memoryview(buffer[kept:planes].reshape(-1).data)
            while rest:
                rest = rest[file.readinto(rest) :]
            yield first, buffer[:planes]
            buffer[0], kept = buffer[SLAB], 1


def _surfaces(o: dict[str, Any]) -> Iterator[Any]:
    for first, planes in (_read_slabs if o.get("read") else _mapped_slabs)(o):
        edges = _edges(_image(planes, first), o["level"])
        edges.Update()
        yield edges.GetOutput()


@_peer
def contour_slabs(**o: Any) -> dict[str, Any]:
    """The same from the file: vtkFlyingEdges3D gets 65 planes at a time, mapped or (`read`) read, and its triangles are
    counted and freed. `area`: another pass measures the area, after the readings of clock and peak.
    """
    from vtkmodules.vtkCommonCore import vtkSMPTools

    if o.get("one_core"):
        _sequential()
    else:
        # Its own default is one core.
        vtkSMPTools.SetBackend("STDThread")
        vtkSMPTools.Initialize(len(os.sched_getaffinity(0)))
    import numpy as np

    _edges(_image(np.zeros((2, 2, 2), np.uint8)), 1.0).Update()  # its imports come before the clock starts
    clock = _Clock()
    triangles = sum(surface.GetNumberOfPolys() for surface in _surfaces(o))
    found = {**clock.read(), "triangles": triangles, "resident_peak_bytes": resident_peak_bytes()}
    if o.get("area"):
        found["area"] = sum(_area(surface) for surface in _surfaces(o) if surface.GetNumberOfPolys())
    return {**found, "version": version("vtk")}


if __name__ == "__main__":
    print(json.dumps(VOLUME_PEERS[sys.argv[1]](**json.loads(sys.argv[2]))))
