"""What `NAME.p3d.json` does to numbers: reference values make SI units, scales reconcile zones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from plot3d_files import Block, box, source_of, write
from running import Json

LENGTH, DENSITY, SOUND = 0.5, 1.225, 340.0
REFERENCE = {"length": LENGTH, "density": DENSITY, "sound_speed": SOUND}
SEEDS = [[0.6, 0.5, 0.3], [0.7, 0.5, 0.3], [0.8, 0.5, 0.3], [1.2, 0.4, 0.3]]


def settings(grid: Path, **values: Any) -> Path:
    path = grid.with_name(grid.stem + ".p3d.json")
    path.write_text(json.dumps(values))
    return path


def in_si(block: Block) -> Block:
    """The same flow as someone writes it who knows no reference values."""
    factors = [DENSITY, *[DENSITY * SOUND] * 3, DENSITY * SOUND**2]
    return Block([c * LENGTH for c in block.xyz], [q * f for q, f in zip(block.q, factors, strict=True)])


@pytest.fixture
def blocks() -> list[Block]:
    return [box(13, 12, 11), box(11, 12, 13, (1, 0, 0))]


@pytest.fixture
def flow(tmp_path: Path, blocks: list[Block]) -> str:
    grid, solution = write(tmp_path, blocks)
    settings(grid, reference=REFERENCE)
    return source_of(grid, solution)


@pytest.mark.parametrize("real", [4, 8])
def test_reference_values_make_si(real: int, blocks: list[Block], tmp_path: Path, ff_json: Json) -> None:
    folders = [tmp_path / "plain", tmp_path / "si"]
    for folder in folders:
        folder.mkdir()
    grid, solution = write(folders[0], blocks, real=real)
    settings(grid, reference={**REFERENCE, "temperature": 288.15})
    truth = write(folders[1], [in_si(b) for b in blocks], real=real)
    converted = tmp_path / "flow.zarr"
    ff_json("convert", source_of(grid, solution), converted, "--page", 8)
    near = 3e-7 if real == 4 else 1e-14
    seeds = np.array(SEEDS) * LENGTH
    traced = {"seeds": seeds, "scalars": ["pressure", "density"], "max_length": 2 * LENGTH}
    with ff.open(truth[0], q=truth[1]) as ds:
        expected = {
            n: ds.zones["zone2"][n][...] for n in ("xyz", "density", "momentum", "energy", "pressure", "velocity")
        }
        lines = ds.streamlines("velocity", **traced)
    for source in ({"source": grid, "q": solution}, {"source": converted}):
        with ff.open(**source) as ds:
            zone = ds.zones["zone2"]
            for name, values in expected.items():
                assert np.allclose(zone[name][...], values, rtol=10 * near, atol=10 * near * np.abs(values).max()), name
            units = {n: zone[n].units for n in (*expected, "temperature", "mach", "enthalpy")}
            assert units == {
                "xyz": "m", "density": "kg m-3", "momentum": "kg m-2 s-1", "energy": "J m-3", "pressure": "Pa",
                "velocity": "m s-1", "temperature": "K", "mach": "1", "enthalpy": "J kg-1",
            }  # fmt: skip
            # T / T_inf = gamma p / (rho a_inf^2), without dimensions 1.4 * 0.8 / 1.2.
            assert np.allclose(zone["temperature"][...], 288.15 * 1.4 * 0.8 / 1.2, rtol=100 * near)
            # The header's time, 3.25 L / a_inf.
            assert np.allclose(ds.times, [3.25 * LENGTH / SOUND]) and ds.info()["time_units"] == "s"
            found = ds.streamlines("velocity", **traced)
            assert np.allclose(found.points, lines.points, atol=1e-5 if real == 4 else 1e-9)
            assert np.allclose(found.time, lines.time, rtol=1e-4 if real == 4 else 1e-9)
            assert found.units == {"pressure": "Pa", "density": "kg m-3"}


def test_units_are_said_everywhere(flow: str, ff: Any, ff_json: Json, tmp_path: Path) -> None:
    info = ff_json("info", flow)
    fields = {f["name"]: (f["units"], f["long_name"]) for f in info["fields"]}
    assert fields["velocity"] == ("m s-1", "velocity") and fields["density"] == ("kg m-3", "density")
    # Nothing says which gas it is: temperature and what needs no unit stay as they were.
    assert fields["temperature"] == ("1", "temperature, R = 1") and fields["entropy"][0] == "1"
    assert info["time_units"] == "s" and info["settings"]["reference"]["length"] == LENGTH
    where = [str(0.5 * LENGTH)] * 3
    found = ff_json("probe", flow, *where)
    assert found["units"]["pressure"] == "Pa" and found["units"]["position"] == "m"
    assert abs(found["values"]["density"] - 1.2 * DENSITY) < 1e-9
    assert "[Pa]" in ff("probe", flow, *where).stdout
    out = tmp_path / "lines.npz"
    ff("trace", flow, "--seeds", f"point:{','.join(where)}", "--scalars", "pressure", "--max-length", 1, "-o", out)
    meta = json.loads(str(np.load(out)["meta"]))
    assert meta["units"] == {"points": "m", "time": "s", "pressure": "Pa"}
    vtp = tmp_path / "lines.vtp"
    ff("trace", flow, "--seeds", f"point:{','.join(where)}", "--scalars", "pressure", "--max-length", 1, "-o", vtp)
    assert b"Pa" in vtp.read_bytes()
    # What times are in, also where lines are coloured by them.
    traced = ff_json("trace", flow, "--seeds", "random:5:1", "--max-length", 1, "-o", out)
    assert traced["time_unit"] == "s"
    scene = {"source": flow, "objects": [{"kind": "lines", "trace": {"seeds": "random:5:1"}, "color": "time"}]}
    (tmp_path / "scene.json").write_text(json.dumps(scene))
    drawn = ff_json("render", tmp_path / "scene.json", "-o", tmp_path / "p.png", "--size", "160x90")
    assert drawn["maps"]["time"]["units"] == "s"


def test_without_dimensions_labels_say_by_what(flow_blocks: list[Block], tmp_path: Path, ff_json: Json) -> None:
    grid, solution = write(tmp_path, flow_blocks)
    info = ff_json("info", source_of(grid, solution))
    labels = {f["name"]: f["long_name"] for f in info["fields"]}
    assert labels["density"] == "density / rho_inf" and labels["velocity"] == "velocity / a_inf"
    assert {f["units"] for f in info["fields"]} == {"1"} and info["time_units"] == "1"


def test_what_is_asked_of_temperature(blocks: list[Block], tmp_path: Path) -> None:
    grid, solution = write(tmp_path, blocks)
    for more, value, unit in (
        ({}, 0.8 / 1.2, "1"),
        ({"gas_constant": 287.05}, 0.8 / 1.2 * SOUND**2 / 287.05, "K"),
    ):
        settings(grid, reference={**REFERENCE, **more})
        with ff.open(grid, q=solution) as ds:
            assert (
                np.allclose(ds.zones["zone1"]["temperature"][0, 0, 0], value)
                and ds.zones["zone1"]["temperature"].units == unit
            )


def test_scales_reconcile_zones(blocks: list[Block], tmp_path: Path, ff_json: Json) -> None:
    """A zone in millimetres beside one in metres is the dataset all in metres."""
    mixed = [blocks[0], Block([c * 1000.0 for c in blocks[1].xyz], blocks[1].q)]
    folders = [tmp_path / "metres", tmp_path / "mixed"]
    for folder in folders:
        folder.mkdir()
    metres = write(folders[0], blocks)
    grid, solution = write(folders[1], mixed)
    # Before there are settings, so that boxes of the unscaled data are in the cache.
    with ff.open(grid, q=solution) as ds:
        assert ds.probe((1.5, 0.5, 0.5)) is None
    settings(grid, zones={"zone2": {"scale": 0.001}})
    store = tmp_path / "mixed.zarr"
    ff_json("convert", source_of(grid, solution), store, "--page", 8)
    traced = {"seeds": SEEDS, "integration_direction": "both", "max_length": 3.0}
    with ff.open(metres[0], q=metres[1]) as ds:
        lines = ds.streamlines("velocity", **traced)
    found = []
    for source in ({"source": grid, "q": solution}, {"source": store}):
        with ff.open(**source) as ds:
            assert ds.probe((1.5, 0.5, 0.5)) is not None
            found.append(ds.streamlines("velocity", **traced))
    # 1000 and 0.001 do not cancel to the last bit.
    assert np.allclose(found[0].points, lines.points, atol=1e-9) and found[0].reason.tolist() == lines.reason.tolist()
    assert len(set(found[0].zone.tolist())) == 2
    assert np.array_equal(found[0].points, found[1].points) and np.array_equal(found[0].time, found[1].time)
    boxes = [z["box"] for z in ff_json("info", store)["zones"]]
    assert np.allclose(boxes, [[[0, 0, 0], [1, 1, 1]], [[1, 0, 0], [2, 1, 1]]], atol=0.1)


def test_mistakes_name_the_settings(blocks: list[Block], tmp_path: Path, ff: Any) -> None:
    grid, solution = write(tmp_path, blocks)
    source = source_of(grid, solution)
    for said, says in (
        ({"reference": {"length": 1.0}}, "length but not density and sound_speed"),
        ({"zones": {"wing": {"scale": 2.0}}}, "scales 'wing', but the zones are: zone1, zone2"),
        ({"zone-names": ["a", "b", "c"]}, "names 3 zones, but there are 2"),
        ({"precision": 32}, "precision 32"),
        ({"zones": {"zone1": {"scale": -1}}}, "positive"),
    ):
        path = settings(grid, **said)
        wrong = ff("info", source, ok=(1, 2)).stderr
        assert says in wrong and path.name in wrong, wrong
    # A grid alone has no flow: its length is enough.
    settings(grid, reference={"length": 1.0})
    assert "positions in m" in ff("info", grid).stdout and "[m]" in ff("probe", grid, 0.5, 0.5, 0.5).stdout


@pytest.mark.parametrize("si", [False, True])
def test_velocities_divided_by_that_of_the_free_stream(tmp_path: Path, si: bool) -> None:
    """Uniform flow at Mach 0.5, once divided by a_inf and once by U_inf, as `reference` says: what is made of it is the same."""
    mach, gamma = 0.5, 1.4
    reference: dict[str, object] = {"length": 2.0, "density": 1.2, "sound_speed": 300.0} if si else {}
    found = []
    for name, by in (("a", 1.0), ("u", mach)):
        block = box(5, 4, 4)
        one = np.ones_like(block.xyz[0])
        energy = 1 / (gamma * (gamma - 1)) + 0.5 * mach**2
        block.q = [one, one * mach / by, 0 * one, 0 * one, one * energy / by**2]
        (tmp_path / name).mkdir()
        grid, solution = write(tmp_path / name, [block], time=3.0 * by)
        said = {"reference": {**reference, **({"velocity": "freestream"} if name == "u" else {})}}
        grid.with_name("flow.p3d.json").write_text(json.dumps(said))
        with ff.open(source_of(grid, solution)) as ds:
            values = ds.probe((0.5, 0.5, 0.5) if not si else (1.0, 1.0, 1.0)).values
            assert values["mach"] == pytest.approx(mach) and values["pressure_coefficient"] == pytest.approx(
                0, abs=1e-9
            )
            scale = 1.2 * 300.0**2 if si else 1.0
            assert values["pressure"] == pytest.approx(scale / gamma) and values["energy"] == pytest.approx(
                scale * energy
            )
            assert values["velocity"][0] == pytest.approx(mach * (300.0 if si else 1.0))
            assert values["entropy"] == pytest.approx(0, abs=1e-9)
            assert ds.time_values[0] == pytest.approx(3.0 * (2.0 / 300.0 if si else 1.0))
            assert not ds.stats()["warnings"]
            found.append(values)
    assert found[0].keys() == found[1].keys()
