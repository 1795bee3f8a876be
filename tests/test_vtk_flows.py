"""Flows on uniform grids, in planes, and in volumes of any format: written by hand, followed by lines whose end is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from farfield.cli import run
from farfield.errors import DataError, UsageError
from farfield.scene.defaults import default_scene
from farfield.scene.flags import Shorthand
from farfield.sources.parsing import parse
from farfield.volume.formats.detection import is_volume
from test_vtk_zones import Array, element, write

SEED = (0.1, 0.5, 0.5)
# dx/dt = 1 + y, dy/dt = -0.2 x: (1 + y)^2 + 0.2 x^2 stays as it is until x = 2.
END = (2.0, math.sqrt(1.5**2 + 0.2 * 0.1**2 - 0.2 * 2**2) - 1, 0.5)
LINES = {"x": np.arange(11) * 0.2, "y": np.arange(6) * 0.2, "z": np.arange(6) * 0.2}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))


def bent_flow(dtype: str = "float32") -> tuple[Array, Array]:
    """Velocity [k, j, i, 3] at the points of LINES, and a scalar."""
    k, j, i = np.meshgrid(LINES["z"], LINES["y"], LINES["x"], indexing="ij")
    return np.stack([1 + j, -0.2 * i, 0 * i], axis=-1).astype(dtype), (i + 10 * j + 100 * k).astype(dtype)


def image(path: Path, arrays: dict[str, Array], about: str = 'Origin="0 0 0" Spacing="0.2 0.2 0.2"') -> Path:
    """An image as text; the arrays are those of its points."""
    first = next(iter(arrays.values()))
    extent = " ".join(f"0 {n - 1}" for n in first.shape[2::-1])
    body = "".join(
        element(name, data, " ".join(repr(v) for v in data.ravel().tolist()), format="ascii")
        for name, data in arrays.items()
    )
    path.write_text(
        f'<VTKFile type="ImageData" version="1.0" byte_order="LittleEndian"><ImageData WholeExtent="{extent}" {about}>'
        f'<Piece Extent="{extent}"><PointData>{body}</PointData></Piece></ImageData></VTKFile>'
    )
    return path


def end_of(source: str | Path, seed: tuple[float, ...] = SEED, field: str = "velocity") -> Array:
    """Where a line from the seed leaves; the source is taken apart as the commands do."""
    out = Path("end.npz")
    words = [
        "trace",
        str(source),
        "--seeds",
        "point:" + ",".join(map(str, seed)),
        "--field",
        field,
        "-o",
        str(out),
        "-q",
    ]
    assert run(words) == 0
    with np.load(out) as lines:
        return np.asarray(lines["points"][-1])


@pytest.fixture(autouse=True)
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_volume_with_a_vector_is_a_flow_and_by_name_a_volume(tmp_path: Path) -> None:
    flow, heat = bent_flow()
    path = image(tmp_path / "v.vti", {"heat": heat, "U": flow})
    assert not is_volume(path) and is_volume(f"{path}::heat") and is_volume(f"{path}::U")
    with ff.open(path) as ds:
        probed = ds.probe((0.5, 0.5, 0.5), fields=["heat", "U", "velocity"])
        assert probed is not None and probed.values["heat"] == pytest.approx(55.5)
        assert probed.values["velocity"] == pytest.approx((1.5, -0.1, 0)) == probed.values["U"]
        lines = ds.streamlines(seeds=[SEED])
        assert np.allclose(lines.points[-1], END, atol=1e-4)
        guessed = " ".join(ds.info(ranges=True)["guessed"])
        assert "v.vti::NAME opens one of its arrays as a volume" in guessed and "name velocity" in guessed
        assert ds.info()["zones"][0]["uniform"] == {"origin": [0, 0, 0], "spacing": [0.2, 0.2, 0.2]}
    with ff.open(f"{path}::heat") as volume:
        assert volume.shape == (6, 6, 11) and np.array_equal(volume[...], heat)
    with ff.open(path, volume={"variable": "heat"}) as volume:
        assert volume.kind == "scalar"


@pytest.mark.parametrize("names", ["u v w", "Vx Vy Vz", "velocity_x velocity_y velocity_z"])
def test_components_that_are_arrays_of_their_own_are_a_vector(names: str, tmp_path: Path) -> None:
    flow, heat = bent_flow()
    parts = dict(zip(names.split(), np.moveaxis(flow, -1, 0), strict=True))
    path = image(tmp_path / "v.vti", {**parts, "heat": heat})
    assert np.allclose(end_of(path), END, atol=1e-4)
    with ff.open(path) as ds:
        for name, data in parts.items():
            assert np.array_equal(ds[name][...], data), name


def test_colours_and_scalars_stay_volumes(tmp_path: Path) -> None:
    flow, heat = bent_flow()
    assert is_volume(image(tmp_path / "a.vti", {"heat": heat}))
    assert is_volume(image(tmp_path / "b.vti", {"heat": heat, "RGB": flow}))
    assert is_volume(image(tmp_path / "c.vti", {"rgb": (flow * 100).astype("uint8")}))
    with pytest.raises(
        UsageError, match=r"a volume of 1 number a voxel, and this command takes .* volumes with a vector"
    ):
        parse(tmp_path / "a.vti")


def test_a_turned_image_is_a_turned_grid(tmp_path: Path) -> None:
    """A quarter turn about z: i runs along y, j along -x."""
    flow, heat = bent_flow()
    about = 'Origin="1 2 3" Spacing="0.2 0.2 0.2" Direction="0 -1 0 1 0 0 0 0 1"'
    turned = np.stack([-flow[..., 1], flow[..., 0], flow[..., 2]], axis=-1)
    path = image(tmp_path / "v.vti", {"heat": heat, "velocity": turned}, about)
    x, y, z = SEED
    assert np.allclose(end_of(path, (1 - y, 2 + x, 3 + z)), (1 - END[1], 2 + END[0], 3 + END[2]), atol=1e-4)


def test_even_rectilinear_grids_too(tmp_path: Path) -> None:
    flow, _ = bent_flow("float64")
    path = write(tmp_path / "e.vtr", "RectilinearGrid", LINES, {"velocity": flow})
    assert not is_volume(path) and np.allclose(end_of(path), END, atol=1e-4)


@pytest.mark.parametrize("components", [2, 3])
@pytest.mark.parametrize("kind", ["vts", "vti", "vtr"])
def test_grids_in_a_plane_are_two_dimensional(kind: str, components: int, tmp_path: Path) -> None:
    """dx/dt = 1 + y, dy/dt = -2 x in the plane z = 5."""
    lines = {"x": np.arange(9) * 0.25, "y": np.arange(9) * 0.125, "z": np.array([5.0])}
    k, j, i = np.meshgrid(lines["z"], lines["y"], lines["x"], indexing="ij")
    flow = np.stack([1 + j, -2 * i, 7 + 0 * i], axis=-1)[..., :components]
    path = tmp_path / f"a.{kind}"
    if kind == "vti":
        image(path, {"velocity": flow}, 'Origin="0 0 5" Spacing="0.25 0.125 1"')
    elif kind == "vtr":
        write(path, "RectilinearGrid", lines, {"velocity": flow})
    else:
        write(path, "StructuredGrid", {"Points": np.stack([i, j, k], axis=-1)}, {"velocity": flow})
    end = (math.sqrt((1.5**2 + 2 * 0.5**2 - 1) / 2), 0)
    assert np.allclose(end_of(path, (0.5, 0.5))[:2], end, atol=1e-4)
    with ff.open(path) as ds:
        info = ds.info()
        assert info["dimension"] == 2 and "flat (z = 5)" in " ".join(info["guessed"])
        names = {f["name"] for f in info["fields"] if not f["derived"]}
        assert names == ({"velocity", "velocity_z"} if components == 3 else {"velocity"})
    assert run(["render", str(path), "-o", str(tmp_path / "a.png"), "--size", "80x60"]) == 0


def test_axes_may_decrease_and_stand_still_and_not_turn_back(tmp_path: Path) -> None:
    y, z = np.array([0.0, 0.1, 0.7, 1.0]), np.array([0.0, 0.4, 1.0])

    def grid(x: list[float]) -> Path:
        k, j, i = np.meshgrid(z, y, np.array(x), indexing="ij")
        lines = {"x": np.array(x), "y": y, "z": z}
        return write(tmp_path / "a.vtr", "RectilinearGrid", lines, {"s": i + 10 * j + 100 * k})

    for x in ([2.0, 1.5, 0.3, 0.0], [0.0, 0.3, 0.3, 2.0], [2.0, 0.3, 0.3, 0.0], [2.0, 1.0, 0.0]):
        with ff.open(grid(x)) as ds:
            for place in ((0.2, 0.4, 0.3), (1.2, 0.4, 0.3)):
                probed = ds.probe(place)
                assert probed is not None and probed.values["s"] == pytest.approx(place[0] + 4 + 30)
    for x in ([0.0, 1.0, 0.5, 2.0], [2.0, 1.0, 1.5, 0.0], [0.0, 1.0, 1.0, 0.5]):
        with pytest.raises(DataError, match="x coordinates go back and forth"):
            ff.open(grid(x))


def nrrd(path: Path, flow: Array) -> Path:
    sizes = " ".join(map(str, (3, *flow.shape[2::-1])))
    path.write_bytes(
        f"NRRD0004\ntype: float\ndimension: 4\nsizes: {sizes}\nspace dimension: 3\nspace directions: none (0.2,0,0) (0,0.2,0) "
        "(0,0,0.2)\nkinds: vector domain domain domain\nspace origin: (0,0,0)\nencoding: raw\nendian: little\n\n".encode()
        + flow.astype("<f4").tobytes()
    )
    return path


def hdf5(path: Path, flow: Array) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name, part in zip("uvw", np.moveaxis(flow, -1, 0), strict=True):
            file[name] = np.ascontiguousarray(part)
        file["heat"] = np.ones((9, 9, 20))
    return path


@pytest.mark.parametrize(("name", "make", "spacing"), [("v.nrrd", nrrd, 0.2), ("v.h5", hdf5, 1.0)])
def test_vectors_of_other_volumes_are_traced(
    name: str, make: Callable[[Path, Array], Path], spacing: float, tmp_path: Path
) -> None:
    """What says no spacing has voxels 1 apart, and a velocity per voxel."""
    flow, _ = bent_flow()
    path = make(tmp_path / name, flow / np.float32(0.2 / spacing))
    seed = tuple(v * spacing / 0.2 for v in SEED)
    assert np.allclose(end_of(path, seed), np.array(END) * spacing / 0.2, atol=1e-3)
    assert "taken as the vector velocity" in parse(path, quiet=True).remarks[0]
    with ff.open(path) as volume:
        assert not hasattr(volume, "streamlines") and not hasattr(volume, "other")
        with pytest.raises(AttributeError, match=r"no attribute 'streamlines'; .*: volume\.flow\(\)\.streamlines$"):
            volume.streamlines(seeds=[seed])
        with pytest.raises(AttributeError, match=r"no attribute 'other'$"):
            _ = volume.other
        if name == "v.nrrd":
            lines = volume.flow().streamlines(seeds=[seed])
            assert np.allclose(lines.points[-1], END, atol=1e-3)
    if name == "v.h5":
        assert np.allclose(end_of(f"{path}::u", seed), np.array(END) * spacing / 0.2, atol=1e-3)
        with pytest.raises(UsageError, match=r"heat: this is a volume of 1 number a voxel"):
            parse(f"{path}::heat")


def test_raw_numbers_that_are_said_to_be_vectors_are_a_flow(tmp_path: Path) -> None:
    flow, _ = bent_flow()
    flow.tofile(tmp_path / "v.raw")
    about = {"shape": (11, 6, 6), "dtype": "float32", "components": 3, "spacing": (0.2, 0.2, 0.2)}
    with ff.open(tmp_path / "v.raw", volume=about) as volume, volume.flow() as ds:
        assert np.allclose(ds.streamlines(seeds=[SEED]).points[-1], END, atol=1e-4)
    with pytest.raises(UsageError, match=r"raw numbers .* convert them first, as in farfield convert v\.raw v\.zarr"):
        parse(tmp_path / "v.raw")
    ff.convert(tmp_path / "v.raw", tmp_path / "v.zarr", volume=about)
    assert np.allclose(end_of(tmp_path / "v.zarr"), END, atol=1e-4)


def test_steps_of_a_volume_are_steps_of_its_flow(tmp_path: Path) -> None:
    """u = 1 + t: x goes from 0.1 to 0.1 + t + t^2 / 2."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "v.h5", "w") as file:
        for name, speed in (("u", 1.0), ("v", 0.0), ("w", 0.0)):
            file[name] = np.ones((3, 4, 5, 6)) * np.array([1.0, 1.5, 2.0])[:, None, None, None] * speed
    with ff.open(tmp_path / "v.h5::u") as volume, volume.flow() as ds:
        assert len(ds.times) == 3
        probed = ds.isel(time=2).probe((1.0, 1.0, 1.0))
        assert probed is not None and probed.values["velocity"] == pytest.approx((2, 0, 0))


def test_a_stored_velocity_has_a_speed_and_colours_first_pictures(tmp_path: Path) -> None:
    flow, scalar = bent_flow()
    path = image(tmp_path / "a.vti", {"velocity": flow, "p": scalar})
    speed = np.linalg.norm(flow.astype("f8"), axis=-1)
    with ff.open(path) as ds:
        assert "velocity_magnitude" in ds.fields
        assert np.allclose(ds["velocity_magnitude"][:], speed, rtol=1e-6)
    for shown in (default_scene(str(path)), Shorthand(seeds="random:9:1").scene(str(path))[0]):
        assert [o.color for o in shown.objects if o.kind == "lines"] == ["velocity_magnitude"]
        # Another reader of the file, or one of PLOT3D, has it without being told.
        assert shown.define == {}
        made = ff.render(shown.model_copy(update={"size": (160, 100)}), tmp_path / "a.png")
        low, high = made["maps"]["velocity_magnitude"]["range"]
        assert 0 < low < high <= speed.max() * (1 + 1e-6)
    # A scene that somebody wrote names it, too, and a store may keep it.
    scene = tmp_path / "a.json"
    scene.write_text(
        '{"version": 1, "source": "a.vti", "objects": '
        '[{"kind": "contour", "field": "velocity_magnitude", "values": [1.5]}], "size": [160, 100]}'
    )
    assert run(["render", str(scene), "-o", str(tmp_path / "b.png"), "-q"]) == 0
    assert run(["convert", str(path), str(tmp_path / "a.zarr"), "--fields", "velocity_magnitude", "-q"]) == 0
    with ff.open(tmp_path / "a.zarr") as ds:
        assert np.allclose(ds["velocity_magnitude"][:], speed, rtol=1e-6)
    with ff.open(path, define={"velocity_magnitude": "2 * p"}) as ds:  # a user's own wins
        assert np.allclose(ds["velocity_magnitude"][:], 2 * scalar)
