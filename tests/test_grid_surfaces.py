"""Grid surfaces of any range: points with one index fixed, from one index to another along the other axes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield.errors import UsageError
from farfield.flow.grid_surfaces import parse_surface
from plot3d_files import Block, box, source_of, write
from running import Command, Json


def bent(ni: int, nj: int, nk: int, at: tuple[float, float, float]) -> Block:
    """A block of a curved grid whose density is another number at each point."""
    block = box(ni, nj, nk, at)
    x, y, z = block.xyz
    block.xyz = [x + 0.1 * np.sin(3 * y), y + 0.1 * np.cos(2 * z), z + 0.05 * x * y]
    block.q[0] = 1.0 + np.arange(x.size, dtype=float).reshape(x.shape) / x.size
    return block


@pytest.fixture(scope="module")
def blocks() -> list[Block]:
    return [bent(23, 19, 17, (0, 0, 0)), bent(9, 30, 12, (2, 0, 0))]


@pytest.fixture(scope="module")
def source(blocks: list[Block], tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(source_of(*write(tmp_path_factory.mktemp("bent"), blocks, real=8)))


def wanted(block: Block, said: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Positions [point, 3] and densities of a surface, the faster axis first: by NumPy, from the arrays [k, j, i]."""
    surface = parse_surface(said)
    dims = dict(zip("kji", block.xyz[0].shape, strict=True))
    box = {axis: slice(None) for axis in "ijk"}
    number = dims[surface.axis] if surface.index == "end" else surface.index
    box[surface.axis] = slice(number - 1, number)
    for axis, first, last in surface.within:
        box[axis] = slice((first or 1) - 1, last)
    cut = tuple(box[axis] for axis in "kji")
    flat = [np.asarray(c)[cut].ravel() for c in (*block.xyz, block.q[0])]
    return np.stack(flat[:3], axis=-1), flat[3]


@pytest.mark.parametrize(
    ("zone", "said"),
    [
        (0, "zone1:k=1,i=2:9"),
        (0, "zone1:k=end,i=5:23,j=18:19"),
        (0, "zone1:k=8,j=:4"),
        (0, "zone1:i=12,j=7:,k=2:16"),
        (1, "zone2:j=30,k=3:5,i=1:end"),
        (1, "zone2: i=4:8, j=1"),
    ],
)
@pytest.mark.parametrize("page", [4, 16])
def test_parts_are_those_of_the_arrays(
    zone: int, said: str, page: int, source: str, blocks: list[Block], tmp_path: Path, ff_json: Json
) -> None:
    store, out = tmp_path / "s.zarr", tmp_path / "s.npz"
    ff.convert(source, store, page=page)
    found = ff_json("extract", "grid-surface", store, "--surface", said, "--scalars", "density", "-o", out)
    points, density = wanted(blocks[zone], said)
    held = np.load(out)
    assert np.array_equal(held["points"], points) and np.array_equal(held["density"], density)
    (listed,) = found["surfaces"]
    assert listed["points"] == len(points) == found["points"]
    surface = parse_surface(said)
    assert (listed["zone"], listed["axis"]) == (surface.zone, surface.axis)
    for axis, first, last in surface.within:
        whole = blocks[zone].xyz[0].shape["kji".index(axis)]
        ends = [first or 1, last or whole]
        assert listed.get("within", {}).get(axis, [1, whole]) == ends


def triangles_of(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
    """Properties of a .ply's vertices, and its triangles, by its header alone."""
    head, body = path.read_bytes().split(b"end_header\n", 1)
    lines = head.decode().splitlines()
    kinds = {"float": "<f4", "double": "<f8", "int": "<i4"}
    properties = [line.split()[1:] for line in lines if line.startswith("property") and " list " not in line]
    count = {kind: int(n) for kind, n in (line.split()[1:] for line in lines if line.startswith("element"))}
    vertices = np.frombuffer(body, [(name, kinds[kind]) for kind, name in properties], count["vertex"])
    faces = np.frombuffer(body, [("n", "u1"), ("of", "<i4", 3)], count["face"], vertices.nbytes)
    assert len(body) == vertices.nbytes + faces.nbytes and (faces["n"] == 3).all()
    return {name: np.asarray(vertices[name]) for _, name in properties}, np.asarray(faces["of"])


@pytest.mark.parametrize("limit", [None, "8MiB"])
def test_triangles_are_the_quadrilaterals_of_the_arrays(
    limit: str | None, source: str, blocks: list[Block], tmp_path: Path, ff_json: Json
) -> None:
    said = ["zone1:k=8", "zone2:j=30,k=3:5"]
    surfaces = [word for text in said for word in ("--surface", text)]
    resources = ["--memory-limit", limit] if limit else []
    found = ff_json(
        "extract",
        "grid-surface",
        source,
        *surfaces,
        "--scalars",
        "density,velocity",
        "-o",
        tmp_path / "s.ply",
        *resources,
    )
    vertices, faces = triangles_of(tmp_path / "s.ply")
    held = [wanted(blocks[n], text) for n, text in enumerate(said)]
    points = np.concatenate([points for points, _ in held])
    assert found["points"] == len(points) and found["cells"] == len(faces) == 2 * (22 * 18 + 8 * 2)
    assert np.array_equal(np.stack([vertices[a] for a in "xyz"], axis=-1), points)
    assert np.array_equal(vertices["density"], np.concatenate([density for _, density in held]))
    assert {"velocity_x", "velocity_y", "velocity_z"} < set(vertices)
    assert np.array_equal(vertices["zone"], np.repeat([1, 2], [len(points) for points, _ in held]))
    # Of the first: each cell's area, as that of the two triangles along the shorter diagonal, and its winding.
    corner = points[: 23 * 19].reshape(19, 23, 3)
    a, b, c, d = corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]
    along = (((c - a) ** 2).sum(-1) <= ((d - b) ** 2).sum(-1))[..., None]
    area = np.where(
        along, np.cross(b - a, c - a) + np.cross(c - a, d - a), np.cross(b - a, d - a) + np.cross(c - b, d - b)
    )
    first, second, third = (points[faces[: 2 * 22 * 18, n]] for n in range(3))
    found_area = np.cross(second - first, third - first).reshape(18, 22, 2, 3).sum(2)
    assert np.allclose(found_area, area, rtol=0, atol=1e-12)
    # A point's normal lies between those of its cells.
    normals = np.stack([vertices["nx"], vertices["ny"], vertices["nz"]], axis=-1)
    assert np.allclose(np.linalg.norm(normals, axis=1), 1, atol=1e-6)
    inner = sum(area[j : 17 + j, i : 21 + i] for j in (0, 1) for i in (0, 1))
    inner /= np.linalg.norm(inner, axis=-1, keepdims=True)
    assert np.allclose(normals[: 23 * 19].reshape(19, 23, 3)[1:-1, 1:-1], inner, atol=1e-6)


def test_a_glb_has_what_a_ply_has(source: str, tmp_path: Path) -> None:
    with ff.open(source) as ds:
        for name in ("s.glb", "s.ply"):
            found = ff.extract_surface(ds, tmp_path / name, surfaces=["zone1:k=8"], scalars=["density"])
    data = (tmp_path / "s.glb").read_bytes()
    length = int.from_bytes(data[12:16], "little")
    document, body = json.loads(data[20 : 20 + length]), data[28 + length :]
    (mesh,) = document["meshes"]
    (primitive,) = mesh["primitives"]

    def numbers(accessor: int, kind: str, columns: int) -> np.ndarray[Any, Any]:
        of = document["accessors"][accessor]
        view = document["bufferViews"][of["bufferView"]]
        return np.frombuffer(body, kind, of["count"] * columns, view["byteOffset"]).reshape(-1, columns)

    vertices, faces = triangles_of(tmp_path / "s.ply")
    middle = document["nodes"][0]["translation"]
    at = numbers(primitive["attributes"]["POSITION"], "<f4", 3) + middle
    assert np.allclose(at, np.stack([vertices[a] for a in "xyz"], axis=-1), atol=1e-6)
    assert np.array_equal(numbers(primitive["indices"], "<u4", 1).reshape(-1, 3), faces)
    assert np.array_equal(
        numbers(primitive["attributes"]["_DENSITY"], "<f4", 1)[:, 0], vertices["density"].astype("<f4")
    )
    assert found["points"] == len(at) and mesh["extras"]["fields"]["_DENSITY"]["name"] == "density"


def test_holes_have_no_triangles_and_leave_no_points(tmp_path: Path) -> None:
    block = bent(9, 8, 3, (0, 0, 0))
    block.iblank = np.ones(block.xyz[0].shape, np.int32)
    block.iblank[:, 3:5, 4] = 0
    block.iblank[:, 0, 0] = 0
    source = source_of(*write(tmp_path, [block], real=8))
    with ff.open(source) as ds:
        whole = ff.extract_surface(ds, tmp_path / "s.npz", surfaces=["zone1:k=2"])
        found = ff.extract_surface(ds, tmp_path / "s.ply", surfaces=["zone1:k=2"])
    vertices, faces = triangles_of(tmp_path / "s.ply")
    assert found["cells"] == len(faces) == 2 * whole["cells"]
    assert found["points"] == len(vertices["x"]) == 9 * 8 - 3 == len(np.unique(faces))


def test_a_part_reads_no_pages_of_the_rest(source: str, tmp_path: Path, ff_json: Json) -> None:
    store = tmp_path / "s.zarr"
    ff.convert(source, store, page=4)
    read = [
        ff_json("extract", "grid-surface", store, "--surface", said, "-o", tmp_path / "s.npz")["pages"]["touched"]
        for said in ("zone1:k=1", "zone1:k=1,i=1:4,j=1:4")
    ]
    # Pages of 4 x 5 points: 6 x 4 of them or one; indexes and boxes are the same.
    assert read[0] - read[1] == 6 * 4 - 1, read


def test_parts_make_the_whole(source: str, tmp_path: Path) -> None:
    with ff.open(source) as ds:
        parts = ["zone1:k=5,j=1:8", "zone1:k=5,j=8:19"]
        ff.extract_surface(ds, tmp_path / "parts.npz", surfaces=parts, scalars=["density", "mach"])
        ff.extract_surface(ds, tmp_path / "whole.npz", surfaces=["zone1:k=5"], scalars=["density", "mach"])
    parts, whole = np.load(tmp_path / "parts.npz"), np.load(tmp_path / "whole.npz")
    ni = 23
    for name in ("points", "density", "mach"):
        # The row that both have.
        both = np.concatenate([parts[name][: 8 * ni], parts[name][9 * ni :]])
        assert both.tobytes() == whole[name].tobytes(), name


def test_a_scene_draws_parts(source: str, tmp_path: Path, ff: Command, ff_json: Json) -> None:
    shown = ff_json(
        "render", source, "--surface", "zone1:k=end,i=:9,j=4:9", "--color", "density", "-o", tmp_path / "a.png",
        "--size", "120x90", "--save-scene", tmp_path / "scene.json",
    )  # fmt: skip
    (drawn,) = [d for d in shown["drawn"] if d["kind"] == "surface"]
    assert drawn["name"] == "zone1:k=17,i=1:9,j=4:9" and drawn["primitives"] == 8 * 5
    saved = json.loads((tmp_path / "scene.json").read_text())
    assert [o["surface"] for o in saved["objects"] if o["kind"] == "surface"] == ["zone1:k=end,i=:9,j=4:9"]
    ff("render", tmp_path / "scene.json", "-o", tmp_path / "b.png")
    assert (tmp_path / "b.png").read_bytes() == (tmp_path / "a.png").read_bytes()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("zone1:k=1,i=2:99", "zone1: i = 99 is not within 1 to 23"),
        ("zone1:k=18,i=2:9", "zone1: k = 18 is not within 1 to 17"),
        ("zone1:k=1,i=9:2", "i ends before it begins"),
        ("zone1:k=1,i=7:7", "zone1:k=1,i=7:7 is a line, not a surface; give two points or more along both axes"),
        ("zone1:k=1,i=30:", "zone1: i = 30 is not within 1 to 23"),
        ("zone1:k=1,i=4", "is a line or a point"),
        ("zone1:i=2:4", "is a box, not a surface"),
        ("zone1:k=1,k=2:4", "says k twice"),
        ("zone1:k=0", "is not a grid surface"),
        ("zone1:k=1,i=2-4", "is not a grid surface"),
        ("zone1:k=1,i=0:4", "is not a grid surface"),
        ("zone3:k=1,i=2:4", "no zone named 'zone3'"),
    ],
)
def test_what_is_wrong_is_said(said: str, why: str, source: str, tmp_path: Path, ff: Command) -> None:
    done = ff("extract", "grid-surface", source, "--surface", said, "-o", tmp_path / "s.vtp", ok=(2,))
    assert why in done.stderr, done.stderr
    assert not (tmp_path / "s.vtp").exists()


@pytest.mark.parametrize("text", ["zone1:k=1", "a:b:j=end,k=3:4", "wing:i=4,j=:7,k=2:", "z one:k=2,i=:"])
def test_what_is_written_is_read_again(text: str) -> None:
    assert str(parse_surface(text)) == text and parse_surface(str(parse_surface(text))) == parse_surface(text)


def test_from_python() -> None:
    with pytest.raises(UsageError, match="not a grid surface"):
        parse_surface("zone1")
