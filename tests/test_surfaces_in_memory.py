"""Isosurfaces and planes as arrays: what they are, and that files of them are those that the command line writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.dataset.contours import extract_isosurface, extract_plane
from farfield.errors import UnknownName, UsageError
from running import farfield

SPACING = (1.0, 1.5, 2.0)
MIDDLE = (20.0, 21.0, 22.0)
RADIUS = 12.0


@pytest.fixture(scope="module")
def ball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Distances from a point that lies within; positions have a unit and a spacing that differs by axis."""
    x, y, z = (np.arange(n) * s for n, s in zip((41, 29, 23), SPACING, strict=True))
    distance = np.sqrt(
        (x[None, None, :] - MIDDLE[0]) ** 2 + (y[None, :, None] - MIDDLE[1]) ** 2 + (z[:, None, None] - MIDDLE[2]) ** 2
    )
    path = tmp_path_factory.mktemp("ball") / "ball.nrrd"
    head = (
        "NRRD0004\ntype: float\ndimension: 3\nsizes: 41 29 23\nspace: LPS\n"
        "space directions: (1,0,0) (0,1.5,0) (0,0,2)\nspace origin: (0,0,0)\nendian: little\nencoding: raw\n\n"
    )
    path.write_bytes(head.encode() + distance.astype("<f4").tobytes())
    return path


def test_a_surface_of_a_volume_is_where_the_value_is(ball: Path) -> None:
    with ff.open(ball, memory_limit="32MiB") as volume:
        surface = volume.contour([RADIUS], fields=["ball"])
        assert volume.stats()["peak_bytes"] <= 32 << 20
    away = np.linalg.norm(surface.points - MIDDLE, axis=1)
    assert abs(away - RADIUS).max() < 0.06 and not surface.partial
    assert abs(surface["ball"] - RADIUS).max() < 2e-3 and surface.units == {"points": "mm", "ball": "1"}
    # Lower values lie within: so do normals look, and so turn the triangles.
    assert surface.normals is not None
    inward = (np.asarray(MIDDLE) - surface.points) / away[:, None]
    assert (surface.normals * inward).sum(axis=1).min() > 0.99
    a, b, c = surface.points[surface.triangles].transpose(1, 0, 2).astype(float)
    across = np.cross(b - a, c - a)
    assert (across * (np.asarray(MIDDLE) - a)).sum(axis=1).min() >= 0
    area = np.linalg.norm(across, axis=1).sum() / 2
    assert area == pytest.approx(4 * np.pi * RADIUS**2, rel=0.01)
    # Every edge is that of two triangles: the surface has no border.
    edges = np.sort(surface.triangles[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert set(np.unique(edges, axis=0, return_counts=True)[1].tolist()) == {2}
    assert surface.summary["triangles"] == len(surface.triangles) and (surface.zone == 1).all()


def test_a_plane_of_a_volume_has_its_channels(ball: Path) -> None:
    with ff.open(ball) as volume:
        cut = volume.slice(normal=(0, 0, 1), origin=(0, 0, 13.0))
        bare = volume.slice("z", (0, 0, 13.0), fields=[])
    assert cut.names == ["ball"] and bare.names == [] and cut.normals is None
    assert abs(cut.points[:, 2] - 13.0).max() < 1e-5
    # Linear between the layers at 12 and 14.
    layers = [np.linalg.norm(cut.points[:, :2] - MIDDLE[:2], axis=1) ** 2 + (z - MIDDLE[2]) ** 2 for z in (12.0, 14.0)]
    on_nodes = np.isclose(cut.points[:, 0] % 1.0, 0, atol=1e-4) & np.isclose(cut.points[:, 1] % 1.5, 0, atol=1e-4)
    assert on_nodes.sum() > 500
    assert abs(cut["ball"] - np.mean(np.sqrt(layers), axis=0))[on_nodes].max() < 1e-3


@pytest.mark.parametrize("ending", ["vtp", "ply", "glb", "npz"])
@pytest.mark.parametrize("what", ["iso", "plane", "volume"])
def test_it_is_saved_as_it_would_have_been_written(
    what: str, ending: str, ball: Path, flow: str, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / f"ours.{ending}", tmp_path / f"theirs.{ending}"
    with ff.open({"iso": "demo:box", "plane": flow, "volume": ball}[what]) as data:
        if what == "plane":
            scalars = ["density", "momentum"]
            data.slice("y", fields=scalars, normals=True).save(ours)
            extract_plane(data, theirs, normal="y", scalars=scalars, normals=True)
        else:
            field, value = ("ball", 9.0) if what == "volume" else ("velocity_magnitude", 0.5)
            found = data.contour([value], field, fields=[field])
            assert len(found.triangles) > 100
            found.save(ours)
            extract_isosurface(data, theirs, field=field, values=[value], scalars=[field])
    assert ours.read_bytes() == theirs.read_bytes()


def test_a_plane_of_a_flow_has_what_is_stored_in_all_zones(flow: str) -> None:
    with ff.open(flow) as data:
        cut = data.slice("x")
        assert cut.names == [f["name"] for f in data.info()["fields"] if not f["derived"]]
        assert set(np.unique(cut.zone)) <= {1, 2, 3} and cut["momentum"].shape == (len(cut.points), 3)
        with pytest.raises(UnknownName, match="'pressure' was not sampled on this surface; there are: density"):
            cut["pressure"]
        with pytest.raises(AttributeError, match="cannot be set"):
            cut.points = np.zeros((0, 3))  # type: ignore[misc]


def test_what_makes_no_sense_is_said(flow: str, ball: Path, tmp_path: Path) -> None:
    with ff.open(flow) as data:
        with pytest.raises(UsageError, match=r"isosurfaces are a list of values, as in \[0.5\]"):
            data.contour(0.5, "density")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="an isosurface needs a value"):
            data.contour([], "density")
        with pytest.raises(UsageError, match="say which field has the values, as in scalars='density'"):
            data.contour([0.5])
        with pytest.raises(UnknownName, match="denisty"):
            data.contour([0.5], "denisty")
        with pytest.raises(UsageError, match="normal is x, y, z or three numbers"):
            data.slice((0, 0, 0))
        mesh = data.slice("x", fields=[])
        with pytest.raises(UsageError, match=r"\.vtp"):
            mesh.save(tmp_path / "cut.stl")
        with pytest.raises(UsageError, match="no/such"):
            mesh.save(tmp_path / "no/such/cut.vtp")
    with ff.open(ball) as volume:
        with pytest.raises(UnknownName, match="channel"):
            volume.contour([1.0], "density")
        with pytest.raises(UsageError, match="an isosurface's value is made of finite numbers, not nan"):
            volume.contour([float("nan")])
        with pytest.raises(UsageError, match="near is made of finite numbers, not inf"):
            volume.contour([1.0], near=(0, float("inf"), 0))
        with pytest.raises(UsageError, match="a plane's normal is made of finite numbers"):
            volume.slice((float("inf"), 0, 0))
        with pytest.raises(UsageError, match="a plane's origin is made of finite numbers"):
            volume.slice("x", (0, 0, float("nan")))


def test_the_part_near_a_point_is_the_nearest_in_space(tmp_path: Path) -> None:
    """Sheets in voxels ten times as high as they are wide: one some voxels off along x, one a voxel off along z."""
    data = np.zeros((20, 40, 40), "<f4")
    data[:9, :38, 24:] = 1
    data[12:] = 1
    data[9:12, :, 22:] = 0
    head = (
        "NRRD0004\ntype: float\ndimension: 3\nsizes: 40 40 20\nspace: LPS\n"
        "space directions: (1,0,0) (0,1,0) (0,0,10)\nspace origin: (0,0,0)\nendian: little\nencoding: raw\n\n"
    )
    path = tmp_path / "sheets.nrrd"
    path.write_bytes(head.encode() + data.tobytes())
    with ff.open(path) as volume:
        whole = volume.contour([0.5]).points
        for point in ((19.9, 20.0, 85.0), (14.9, 20.0, 82.0), (19.9, 20.0, 100.0)):
            near = volume.contour([0.5], near=point).points
            away = [np.linalg.norm(points - np.asarray(point), axis=1).min() for points in (whole, near)]
            assert away[0] == away[1], point


def test_a_part_that_cannot_be_read_is_said_to_be_so(ball: Path, tmp_path: Path) -> None:
    store, output = tmp_path / "ball.zarr", tmp_path / "near.vtp"
    farfield("convert", ball, store)
    words = ("extract", "isosurface", store, "--value", RADIUS, "-o", output, "--near")
    farfield(*words, "32,21,22")
    assert "does not come within 8 cells of the point" in farfield(*words, "0,0,0", ok=(2,)).stderr
    output.unlink()
    shard = next(store.glob("0/c*"))
    shard.unlink()
    error = farfield(*words, "32,21,22", ok=(1,)).stderr
    assert shard.name in error and "missing" in error and not output.exists()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_plane_in_either_outermost_face_is_that_face(axis: int, ball: Path) -> None:
    box = np.array([(0.0, 0.0, 0.0), (40.0, 42.0, 44.0)])
    sides = np.delete(box[1], axis)
    with ff.open(ball) as volume:
        for place, sign in ((0, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)):
            cut = volume.slice(sign * np.eye(3)[axis], box[place])
            assert (cut.points[:, axis] == box[place][axis]).all()
            a, b, c = cut.points[cut.triangles].transpose(1, 0, 2).astype(float)
            assert np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2 == pytest.approx(sides[0] * sides[1])
        assert not len(volume.slice(np.eye(3)[axis], box[1] + 1.0).triangles)


def test_nothing_there_is_an_empty_surface(ball: Path, tmp_path: Path) -> None:
    with ff.open(ball) as volume:
        none = volume.contour([1e6])
    assert none.points.shape == (0, 3) and none.triangles.shape == (0, 3) and not none.partial
    none.save(tmp_path / "none.npz")
    assert json.loads(str(np.load(tmp_path / "none.npz")["meta"]))["kind"] == "mesh"


def test_a_file_without_triangles_is_told_of(ball: Path, tmp_path: Path) -> None:
    output = tmp_path / "none.vtp"
    for words, why in (
        (("isosurface", ball, "--value", 1e6), "the field has no such value"),
        (("slice", ball, "--normal", "x", "--origin", "-5,0,0"), "the plane does not meet the data"),
    ):
        done = farfield("extract", *words, "-o", output)
        assert done.stderr == f"farfield: note: {why}: {output} has no triangles\n" and "0 triangles" in done.stdout
        assert not farfield("extract", *words, "-o", output, "-q").stderr


def test_a_source_that_is_not_there_is_said_before_a_field_that_is_missing(tmp_path: Path) -> None:
    gone, output = tmp_path / "gone.zarr", tmp_path / "cut.vtp"
    for words in (("slice", gone, "--normal", "x"), ("isosurface", gone, "--value", "1")):
        assert "no such file or folder" in farfield("extract", *words, "-o", output, ok=(1, 2)).stderr


def test_pyvista_sees_the_same(ball: Path) -> None:
    pytest.importorskip("pyvista")
    with ff.open(ball) as volume:
        surface = volume.contour([RADIUS], fields=["ball"])
        mesh = surface.to_pyvista()
        assert (mesh.n_points, mesh.n_cells) == (len(surface.points), len(surface.triangles))
        assert mesh.area == pytest.approx(4 * np.pi * RADIUS**2, rel=0.01)
        assert np.array_equal(mesh.point_data["ball"], surface["ball"])
        assert np.array_equal(mesh.point_data["Normals"], surface.normals)
        assert volume.contour([1e6]).to_pyvista().n_cells == 0


@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (0.5, 1.0, 3.0)])
@pytest.mark.parametrize("kind", ["mask", "noise"])
def test_surfaces_where_values_jump_are_as_large_as_those_of_vtk(
    tmp_path: Path, kind: str, spacing: tuple[float, float, float]
) -> None:
    vtk = pytest.importorskip("vtkmodules.vtkFiltersCore")
    from vtkmodules.util.numpy_support import numpy_to_vtk
    from vtkmodules.vtkCommonDataModel import vtkImageData
    from vtkmodules.vtkFiltersCore import vtkMassProperties

    n = 40
    at = np.arange(n) - 19.3
    if kind == "mask":
        data = ((at[:, None, None] ** 2 + at[None, :, None] ** 2 + at[None, None, :] ** 2) < 14.6**2).astype("u1")
    else:
        data = np.random.default_rng(5).integers(0, 2, (n, n, n)).astype("u1")
    head = (
        f"NRRD0004\ntype: uchar\ndimension: 3\nsizes: {n} {n} {n}\n"
        f"spacings: {spacing[0]} {spacing[1]} {spacing[2]}\nencoding: raw\n\n"
    )
    (tmp_path / "a.nrrd").write_bytes(head.encode() + data.tobytes())
    image = vtkImageData()
    image.SetDimensions(n, n, n)
    image.SetSpacing(*spacing)
    image.GetPointData().SetScalars(numpy_to_vtk(data.reshape(-1)))
    peer = vtk.vtkFlyingEdges3D()
    peer.SetInputData(image)
    peer.SetValue(0, 0.4)
    peer.Update()
    mass = vtkMassProperties()
    mass.SetInputData(peer.GetOutput())
    mass.Update()
    with ff.open(tmp_path / "a.nrrd", memory_limit="64MiB") as volume:
        surface = volume.contour([0.4])
    corners = np.asarray(surface.points, np.float64)[np.asarray(surface.triangles)]
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2
    assert len(surface.triangles) == peer.GetOutput().GetNumberOfPolys()
    assert abs(area / mass.GetSurfaceArea() - 1) < 0.001


def test_vertices_of_volumes_far_from_the_origin_are_not_the_same(tmp_path: Path) -> None:
    n = 24
    at = np.arange(n) - 11.4
    ball = np.sqrt(at[:, None, None] ** 2 + at[None, :, None] ** 2 + at[None, None, :] ** 2).astype("<f4")
    head = (
        f"NRRD0004\ntype: float\ndimension: 3\nsizes: {n} {n} {n}\nspace: LPS\n"
        "space directions: (0.1,0,0) (0,0.1,0) (0,0,0.1)\nspace origin: (5e6,4e5,0)\nendian: little\nencoding: raw\n\n"
    )
    (tmp_path / "far.nrrd").write_bytes(head.encode() + ball.tobytes())
    with ff.open(tmp_path / "far.nrrd", memory_limit="32MiB") as volume:
        surface = volume.contour([8.2])
    points = np.asarray(surface.points)
    assert points.dtype == np.float64 and len(np.unique(points, axis=0)) == len(points)
    radii = np.linalg.norm((points - [5e6 + 1.14, 4e5 + 1.14, 1.14]) * 10, axis=1)
    assert np.abs(radii - 8.2).max() < 0.02


@pytest.mark.parametrize(
    ("source", "scalars", "value"), [("demo:phantom", None, 60.0), ("demo:box", "velocity_magnitude", 0.5)]
)
def test_a_value_that_is_said_twice_is_one_surface(source: str, scalars: str | None, value: float) -> None:
    found = ff.open(source)
    once, twice = (found.contour(values, scalars=scalars) for values in ([value], [value, value]))
    assert len(once.points) > 0 and np.array_equal(once.points, twice.points)
