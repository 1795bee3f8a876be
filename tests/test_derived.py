"""Fields made of others: gradients and users' own, on the command line and from Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import farfield as ff
from plot3d_files import Block, box, cut, source_of, write
from running import Command, Json

GRADIENTS = [
    "vorticity_magnitude",
    "q_criterion",
    "lambda2",
    "helicity",
    "divergence",
    "strain_rate",
    "swirling_strength",
]


@pytest.fixture
def flow(tmp_path: Path) -> str:
    """Rigid rotation at rate 1 about z, rising with 0.1, in two zones."""
    return source_of(*write(tmp_path, cut(box(17, 14, 12), 2)))


def test_rigid_rotation_has_the_gradients_that_it_has(flow: str, ff_json: Json) -> None:
    fields = ",".join([*GRADIENTS, "vorticity", "grad_density", "gradient(pressure)", "swirl"])
    values = ff_json("probe", flow, 0.4, 0.5, 0.6, "--fields", fields)["values"]
    truth = {
        "vorticity_magnitude": 2.0,
        "q_criterion": 1.0,
        "lambda2": -1.0,
        "helicity": 0.2,
        "divergence": 0.0,
        "strain_rate": 0.0,
        "swirling_strength": 1.0,
    }
    for name, value in truth.items():
        assert values[name] == pytest.approx(value, abs=1e-7), name
    assert values["vorticity"] == pytest.approx([0, 0, 2], abs=1e-9)
    assert values["grad_density"] == pytest.approx([0, 0, 0], abs=1e-9)
    assert values["gradient(pressure)"] == pytest.approx([0, 0, 0], abs=1e-9)


def test_whatever_takes_a_field_takes_these(flow: str, tmp_path: Path, ff_json: Json) -> None:
    define = ["--define", "half = vorticity_magnitude / 2", "--define", "more = half + 1"]
    listed = {f["name"]: f for f in ff_json("info", flow, *define)["fields"]}
    assert listed["vorticity"]["derived"] and listed["vorticity"]["components"] == 3
    assert listed["more"]["definition"] == "half + 1"
    lines = tmp_path / "lines.npz"
    traced = ff_json("trace", flow, "--seeds", "point:0.5,0.6,0.3", "--scalars", "more,vorticity", *define, "-o", lines)
    with np.load(lines) as found:
        assert np.allclose(found["more"], 2.0, atol=1e-6)
        assert np.allclose(found["vorticity"], [0, 0, 2], atol=1e-6)
    # Of what no line touches nothing is made.
    assert 0 < traced["pages"]["derived"] < 80
    ff_json(
        "extract",
        "grid-surface",
        flow,
        "--surface",
        "zone1:k=2",
        "--scalars",
        "more",
        *define,
        "-o",
        tmp_path / "s.vtp",
    )
    picture = ff_json(
        "render",
        flow,
        "--surface",
        "zone1:k=2",
        "--color",
        "more",
        *define,
        "-o",
        tmp_path / "p.png",
        "--size",
        "64x48",
    )
    assert [m["field"] for m in picture["maps"].values()] == ["more"]


def test_lines_along_the_vorticity_go_up(flow: str, tmp_path: Path, ff_json: Json) -> None:
    lines = tmp_path / "lines.npz"
    ff_json("trace", flow, "--seeds", "point:0.4,0.5,0.5", "--field", "vorticity", "-o", lines)
    with np.load(lines) as found:
        points = found["points"]
    assert np.allclose(points[:, :2], [0.4, 0.5], atol=1e-6) and np.ptp(points[:, 2]) > 0.8


def test_the_same_under_every_limit_and_page(flow: str, tmp_path: Path) -> None:
    stores = [tmp_path / f"p{page}" for page in (4, 8)]
    for page, store in zip((4, 8), stores, strict=True):
        ff.convert(flow, store, page=page, progress=False)
    define = {"a": "q_criterion + 0.3 * lambda2", "b": "div(grad(pressure))"}
    truth = None
    for source in (flow, *map(str, stores)):
        for limit in ("1GiB", "4MiB"):
            with ff.open(source, memory_limit=limit, define=define) as ds:
                found = [ds.zones["zone2"][name][...] for name in ("vorticity", "lambda2", "a", "b")]
            truth = truth or found
            for one, other in zip(truth, found, strict=True):
                assert np.array_equal(one, other, equal_nan=True)


def test_expressions_are_what_numpy_makes_of_them(flow: str) -> None:
    with ff.open(flow) as ds:
        zone = ds.zones["zone1"]
        ds.define(
            "e", "where(velocity.x > 0, sqrt(pressure / density), -sound_speed) * 2 ^ 3 + min(velocity.x, velocity_y)"
        )
        u, v, p, rho = (zone[n][...] for n in ("velocity_x", "velocity_y", "pressure", "density"))
        truth = np.where(u > 0, np.sqrt(p / rho), -np.sqrt(1.4 * p / rho)) * 8 + np.minimum(u, v)
        assert np.allclose(zone["e"][...], truth, rtol=1e-12)
        assert zone["cross(velocity, vorticity)"].shape[0] == 3
        before = ds.stats()["pages"]["derived"]
        zone["strain_rate"][0, 0, 0]
        assert ds.stats()["pages"]["derived"] == before + 1
        with pytest.raises(ff.UsageError, match="defined already"):
            ds.define("e", "density")
        with pytest.raises(ff.UsageError, match="already"):
            ds.define("pressure", "density")


def test_units_are_reckoned_with(tmp_path: Path, ff_json: Json) -> None:
    grid, solution = write(tmp_path, [box(9, 9, 9)])
    grid.with_name("flow.p3d.json").write_text(
        json.dumps({"reference": {"length": 2.0, "density": 1.2, "sound_speed": 340.0, "temperature": 288.15}})
    )
    source = source_of(grid, solution)
    define = ["--define", "kn = to(magnitude(velocity), 'kn')", "--define", "c = to(temperature, 'degC')"]
    found = ff_json(
        "probe",
        source,
        "--ijk",
        "zone1",
        3,
        4,
        5,
        "--fields",
        "kn,c,velocity_magnitude,temperature,vorticity,q_criterion",
        *define,
    )
    values, units = found["values"], found["units"]
    assert values["kn"] == pytest.approx(values["velocity_magnitude"] * 3600 / 1852, rel=1e-12)
    assert values["c"] == pytest.approx(values["temperature"] - 273.15, rel=1e-9)
    assert values["vorticity"][2] == pytest.approx(2 * 340 / 2, rel=1e-6)
    assert (units["kn"], units["c"], units["vorticity"], units["q_criterion"]) == ("kn", "degC", "s-1", "s-2")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = density +", "column 14: expected a number, a name or a function, found the end"),
        ("a = densitty * 2", "column 5: there is no field 'densitty'; there are density, momentum"),
        ("a = density + velocity", "column 13: cannot add a scalar and a vector"),
        ("a = density + pressure", "cannot add 'rho_inf' and 'rho_inf a_inf2'"),
        ("a = to(density, 'kn')", "it is in 'rho_inf', which cannot be given in 'kn'"),
        ("a = grad(velocity)", "grad() takes a scalar"),
        ("a = a + 1", "the definition of 'a' goes in a circle: a -> a"),
        ("pressure = density", "'pressure' is a field of the data already"),
        ("density", "'density' is no definition; write NAME = EXPRESSION"),
        ("a = sin(density) > 'm'", "expected a number, a name or a function, found the unit 'm'"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str, flow: str, ff: Command) -> None:
    done = ff("probe", flow, 0.5, 0.5, 0.5, "--define", text, ok=(2,))
    assert said in done.stderr


def test_a_division_by_zero_is_what_ieee_makes_of_it(flow: str) -> None:
    with ff.open(flow, define={"up": "density / (x - x)", "none": "(x - x) / (x - x)"}) as ds:
        zone = ds.zones["zone1"]
        assert np.isposinf(zone["up"][...]).all() and np.isnan(zone["none"][...]).all()


def test_a_field_does_not_depend_on_what_else_is_asked_for(tmp_path: Path, ff_json: Json) -> None:
    """A gradient of a gradient, beside what it is made of: its unit and its numbers, to the bit, in files of single precision."""
    grid, solution = write(tmp_path, [box(15, 14, 12)], real=4)
    reference = {"reference": {"length": 0.5, "density": 1.2, "sound_speed": 340.0}}
    grid.with_name(f"{grid.stem}.p3d.json").write_text(json.dumps(reference))
    flow = source_of(grid, solution)
    for one, two, unit in (
        ("grad_mach_x", "grad_grad_mach_x", "m-2"),
        ("grad_pressure_x", "grad_grad_pressure_x", "kg m-3 s-2"),
        ("grad(mach)", "div(grad(mach))", "m-2"),
    ):
        found = [
            ff_json("probe", flow, 0.2, 0.25, 0.3, "--fields", fields)
            for fields in (two, f"{one},{two}", f"{two},{one}", one)
        ]
        assert [f["units"][two] for f in found[:3]] == [unit] * 3
        values = [f["values"][two] for f in found[:3]]
        assert values[0] == values[1] == values[2], (two, values)
        assert found[1]["values"][one] == found[2]["values"][one] == found[3]["values"][one]
    ff.convert(flow, tmp_path / "few.zarr", fields=["grad_mach_x", "grad_grad_mach_x"], progress=False)
    with ff.open(tmp_path / "few.zarr") as ds:
        units = {f["name"]: f["units"] for f in ds.info()["fields"]}
    assert units["grad_mach_x"] == "m-1" and units["grad_grad_mach_x"] == "m-2"


def test_ranges_of_what_is_defined_pass_pages_by(tmp_path: Path, ff_json: Json) -> None:
    block = box(33, 30, 28)
    store = tmp_path / "store"
    ff.convert(source_of(*write(tmp_path, [block])), store, page=8, progress=False)
    found = ff_json("info", store, "--ranges", "--define", "s = velocity.x * 2 + velocity.y")
    row = next(f for f in found["fields"] if f["name"] == "s")
    s = (block.q[1] * 2 + block.q[2]) / block.q[0]
    assert row["range"] == pytest.approx([s.min(), s.max()], rel=1e-12)
    assert row["pages_skipped"] > 10
    assert found["pages"]["derived"] + row["pages_skipped"] == next(z["pages"] for z in found["zones"])


def test_vtk_agrees_inside(tmp_path: Path) -> None:
    vtk = pytest.importorskip("vtk")
    from vtk.util.numpy_support import numpy_to_vtk, vtk_to_numpy

    # The gradient of a field that is no polynomial, by another's code: both are of second order.
    n = (41, 37, 33)
    b = box(*n)
    x, y, z = b.xyz
    u = [np.sin(2 * z) + np.cos(y), np.cos(2 * x), np.sin(x + y)]
    rho = b.q[0]
    energy = 2.0 + 0.5 * rho * sum(c * c for c in u)
    made = Block(b.xyz, [rho, *(rho * c for c in u), energy])
    grid = vtk.vtkStructuredGrid()
    grid.SetDimensions(*n)
    points = vtk.vtkPoints()
    points.SetData(numpy_to_vtk(np.stack([c.ravel() for c in b.xyz], -1), deep=True))
    grid.SetPoints(points)
    velocity = numpy_to_vtk(np.stack([c.ravel() for c in u], -1), deep=True)
    velocity.SetName("velocity")
    grid.GetPointData().AddArray(velocity)
    gradient = vtk.vtkGradientFilter()
    gradient.SetInputData(grid)
    gradient.SetInputArrayToProcess(0, 0, 0, 0, "velocity")
    for switch in (gradient.SetComputeVorticity, gradient.SetComputeQCriterion, gradient.SetComputeDivergence):
        switch(True)
    gradient.Update()
    data = gradient.GetOutput().GetPointData()
    inside = (slice(1, -1),) * 3
    with ff.open(source_of(*write(tmp_path, [made]))) as ds:
        for ours, theirs in (("vorticity", "Vorticity"), ("q_criterion", "Q-criterion"), ("divergence", "Divergence")):
            peer = vtk_to_numpy(data.GetArray(theirs)).reshape(*n[::-1], -1)
            own = np.moveaxis(np.atleast_3d(ds[ours][...]), 0, -1) if ours == "vorticity" else ds[ours][...][..., None]
            # Both take central differences inside, so that they differ by rounding alone.
            assert np.abs(own[inside] - peer[inside]).max() < 1e-9 * np.abs(peer[inside]).max() + 1e-12, ours


@pytest.mark.parametrize("asked", [("kn", "back"), ("back", "kn")])
def test_units_within_definitions_are_kept(asked: tuple[str, str]) -> None:
    """Whatever was asked for first: a definition in knots means so many knots in another."""
    define = {
        "kn": "to(2 'm/s' * density / density, 'kn')",
        "back": "to(kn, 'm/s')",
        "frost": "to(where(density > 0, -40 'degC', 0 'degC'), 'K')",
    }
    with ff.open("demo:box", define=define) as ds:
        found = {name: float(ds.zones["zone1"][name][1, 2, 3]) for name in asked}
        assert found["kn"] == pytest.approx(2 * 3600 / 1852, rel=1e-6) and found["back"] == pytest.approx(2, rel=1e-6)
        assert float(ds.zones["zone1"]["frost"][1, 2, 3]) == pytest.approx(233.15, rel=1e-6)


@pytest.mark.parametrize("first", ["grad_density_x", "grad_density"])
def test_components_of_gradients_do_not_wait_for_the_gradient(first: str, flow: str, ff_json: Json) -> None:
    grid, solution = flow.split("+q=")
    names = ["grad_density_x", "grad_density_z", "grad_velocity_x", "grad_vorticity_z_y", "grad_own_y"]
    with ff.open(grid, q=solution, define={"own": "density * x * y", "part": "grad_own_y * 2"}) as ds:
        zone = ds.zones["zone1"]
        zone[first][0, 0, 0]
        shapes = [zone[name].ndim for name in names]
        # The gradient of velocity_x is a vector, for the velocity has none; so have those of other vectors' components.
        assert shapes == [3, 3, 4, 3, 3]
        for name in ("density", "own"):
            whole = zone[f"grad_{name}"][...]
            for c, axis in enumerate("xyz"):
                assert np.array_equal(zone[f"grad_{name}_{axis}"][...], whole[c])
        x = zone["xyz"][...][0]
        assert np.allclose(zone["grad_own_y"][...], 1.2 * x, atol=0.02)
        assert np.array_equal(zone["part"][...], 2 * zone["grad_own_y"][...])
        assert np.array_equal(zone["grad_velocity_x"][...], zone["grad(velocity_x)"][...])
        assert np.allclose(zone["grad_velocity_x_y"][...], -1, atol=1e-9)
    # In a definition as well, whatever was asked for before.
    with ff.open(grid, q=solution, define={"turning": "vorticity_z / 2 + grad_pressure_x / (1 'rho_inf a_inf')"}) as ds:
        assert np.allclose(ds.zones["zone1"]["turning"][...], 1, atol=1e-9)
    probed = ff_json("probe", flow, 0.4, 0.5, 0.6, "--fields", "grad_pressure_y,grad_velocity_x")["values"]
    assert probed["grad_pressure_y"] == pytest.approx(0, abs=1e-9)
    assert probed["grad_velocity_x"] == pytest.approx([0, -1, 0], abs=1e-9)


def test_a_scalar_has_no_components(flow: str) -> None:
    with ff.open(flow) as ds, pytest.raises(ff.UnknownName, match="density_x"):
        ds.zones["zone1"]["density_x"]


def test_what_is_defined_for_one_view_is_there_for_all(flow: str) -> None:
    with ff.open(flow) as ds:
        before = ds.isel(time=0)
        assert "late" not in before.fields
        ds.define("late", "density * 2")
        after = ds.isel(time=0)
        assert "late" in before.fields and "late" in after.fields and "late" in ds.sel(time=3.25).fields
        after.define("later", "late * 3")
        for view in (ds, before, after):
            zone = view.zones["zone2"]
            assert {"late", "later"} <= set(zone.fields) and zone["later"].shape == zone["density"].shape


def test_the_limit_that_a_derived_page_asks_for_does(tmp_path: Path) -> None:
    """One large page: at the smallest limit there is no room to make it, and what the error says is enough."""
    store = tmp_path / "one.zarr"
    grid, solution = write(tmp_path, [box(60, 58, 56)], real=4)
    ff.convert(source_of(grid, solution), store, page=64, progress=False)
    mixed = "velocity.x * density / (1 'rho_inf a_inf') + magnitude(curl(velocity)) / (1 'a_inf / L')"
    for name in ("vorticity", mixed, "div(grad(pressure))"):
        with ff.open(store) as ds:
            truth = ds[name][...]
        limit, told = "4MiB", list[str]()
        while True:
            try:
                with ff.open(store, memory_limit=limit) as ds:
                    assert np.array_equal(ds[name][...], truth, equal_nan=True)
                    held = ds.stats()
                    assert held["peak_bytes"] <= held["limit_bytes"]
                break
            except ff.MemoryLimitError as error:
                told.append(str(error))
                needs = re.search(r"needs about ([\d.]+ \w+);", told[-1])
                assert needs and len(told) < 4, told
                limit = needs[1]
        assert told, "the smallest limit was enough: this shows nothing"
