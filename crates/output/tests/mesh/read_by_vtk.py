"""Compares the balls of `main.rs` in a folder, as VTK and NumPy read them, with what they are: `read_by_vtk.py FOLDER RINGS`."""

import json
import sys
from pathlib import Path

import numpy as np
from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkIOGeometry import vtkGLTFReader
from vtkmodules.vtkIOPLY import vtkPLYReader
from vtkmodules.vtkIOXML import vtkXMLPolyDataReader

folder, n = Path(sys.argv[1]), int(sys.argv[2])
ring, at = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
theta, phi = np.pi * (ring + 0.5) / n, 2 * np.pi * at / n
direction = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1).reshape(-1, 3)
points = direction + np.array([1000.0, -20.0, 0.5])
mach = np.arange(n * n, dtype=float)
velocity = np.stack([direction[:, 1], -direction[:, 0], np.full(n * n, 2.0)], axis=-1)
zone = np.arange(n).repeat(n) % 3 + 1
p, q = np.arange(n), (np.arange(n) + 1) % n
strip = np.stack([np.stack([p, n + p, q], axis=-1), np.stack([q, n + p, n + q], axis=-1)], axis=1).reshape(-1, 3)
triangles = (strip[None] + n * np.arange(n - 1)[:, None, None]).reshape(-1, 3)


def read(reader, name):
    """What a reader makes of a file."""
    reader.SetFileName(str(folder / name))
    reader.Update()
    assert reader.GetErrorCode() == 0, name
    return reader.GetOutput()


def cells(data):
    """Corners of its triangles."""
    assert data.GetNumberOfPolys() == data.GetNumberOfCells() == len(triangles)
    return vtk_to_numpy(data.GetPolys().GetConnectivityArray()).reshape(-1, 3)


def array(data, name):
    """An array of point data or field data."""
    found = data.GetArray(name)
    assert found is not None, (name, [data.GetArrayName(i) for i in range(data.GetNumberOfArrays())])
    return vtk_to_numpy(found)


def unit(of):
    """The unit that an array says."""
    from vtkmodules.vtkCommonCore import vtkDataArray

    return of.GetInformation().Get(vtkDataArray.UNITS_LABEL())


seen = []
data = read(vtkXMLPolyDataReader(), "a.vtp")
assert np.abs(vtk_to_numpy(data.GetPoints().GetData()) - points).max() < 1e-12
assert (cells(data) == triangles).all() and data.GetPolys().IsStorage64Bit() == 0
of = data.GetPointData()
assert of.GetNormals() is not None and np.abs(vtk_to_numpy(of.GetNormals()) - direction).max() < 1e-7
assert of.GetScalars().GetName() == "mach" and of.GetVectors().GetName() == "velocity"
assert (array(of, "mach") == mach).all() and (array(of, "zone") == zone).all()
assert np.abs(array(of, "velocity") - velocity).max() < 1e-6
assert unit(of.GetArray("velocity")) == "m/s" and unit(data.GetPoints().GetData()) == "m"
fields = data.GetFieldData()
assert fields.GetAbstractArray("source").GetValue(0) == "ball" and array(fields, "partial").tolist() == [0]
seen.append("vtp")

data = read(vtkPLYReader(), "a.ply")
assert np.abs(vtk_to_numpy(data.GetPoints().GetData()) - points).max() < 1e-4  # it reads single precision
assert (cells(data) == triangles).all()
assert np.abs(vtk_to_numpy(data.GetPointData().GetNormals()) - direction).max() < 1e-7
seen.append("ply")

blocks = read(vtkGLTFReader(), "a.glb")
while not blocks.IsA("vtkPolyData"):
    assert blocks.GetNumberOfBlocks() == 1
    blocks = blocks.GetBlock(0)
# It has moved the points to where the node says, in single precision.
assert np.abs(vtk_to_numpy(blocks.GetPoints().GetData()) - points).max() < 1e-4
assert (cells(blocks) == triangles).all()
of = blocks.GetPointData()
assert np.abs(vtk_to_numpy(of.GetNormals()) - direction).max() < 1e-6
for name, expected in (("_MACH", mach), ("_VELOCITY", velocity), ("_ZONE", zone)):
    assert np.abs(array(of, name) - expected).max() < 1e-6, name
seen.append("glb")

with np.load(folder / "a.npz") as of:
    assert np.abs(of["points"] - points).max() < 1e-12 and (of["triangles"] == triangles).all()
    assert (of["mach"] == mach).all() and (of["zone"] == zone).all() and of["normals"].dtype == np.float32
    meta = json.loads(str(of["meta"]))
    assert meta["kind"] == "mesh" and meta["units"] == {"points": "m", "mach": "1", "velocity": "m/s"}
seen.append("npz")
print(*seen)
