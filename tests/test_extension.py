"""The package on the real extension: what comes back is right, and what is wrong is said."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield as ff
from farfield import _native
from plot3d_files import Block, box, source_of, write
from running import Command, Json, begun, start

RAKE = [[0.6, 0.5, 0.3], [0.7, 0.5, 0.3], [0.8, 0.5, 0.3]]


@pytest.mark.parametrize(
    ("form", "order", "real", "iblank", "zones"),
    list(itertools.product(("fortran", "binary"), "<>", (4, 8), (False, True), (1, 3))),
)
def test_variants(form: str, order: str, real: int, iblank: bool, zones: int, tmp_path: Path) -> None:
    blocks = [box(7, 6, 5), box(4, 9, 3, (1, 0, 0)), box(5, 5, 8, (2, 0, 0))][:zones]
    for b in blocks:
        b.iblank = np.ones(b.xyz[0].shape, "i4") if iblank else None
    grid, solution = write(tmp_path, blocks, form=form, order=order, real=real)
    with ff.open(grid, q=solution, memory_limit="64MiB") as ds:
        assert [z.dims for z in ds.zones.values()] == [b.dims for b in blocks]
        assert all(z.iblank == iblank for z in ds.zones.values())
        last = ds.zones[f"zone{zones}"]
        tolerance = 1e-6 if real == 4 else 0
        assert np.allclose(last["xyz"][...], blocks[-1].xyz, atol=tolerance)
        assert np.allclose(last["momentum"][...], blocks[-1].q[1:4], atol=tolerance)
        assert last["density"].dtype == np.dtype(f"f{real}") == last["density"][0, 0, 0].dtype


def test_fields_and_slices(flow: str, store: Path, flow_blocks: list[Block]) -> None:
    for source in (flow, store):
        with ff.open(source) as ds:
            assert len(ds.zones) == 3 and "velocity" in ds.fields
            for name, block in zip(ds.zones, flow_blocks, strict=True):
                energy = ds.zones[name]["energy"]
                for index in (
                    (slice(None),),
                    (3, slice(2, 9, 3), -1),
                    (slice(None, None, -2), slice(4, 4), 0),
                    (..., slice(1, 4)),
                ):
                    assert np.array_equal(energy[index], block.q[4][index]), (name, index)
                pressure = ds.zones[name]["pressure"][...]
                assert np.allclose(pressure, 0.8, atol=1e-9)
            with pytest.raises(KeyError, match="density"):
                ds.zones["zone1"]["no_such"]
            with pytest.raises(ValueError, match="zone1"):
                ds["density"]


def test_probe(flow: str, flow_blocks: list[Block]) -> None:
    with ff.open(flow) as ds:
        p = ds.probe((0.5, 0.5, 0.5))
        assert p is not None
        assert abs(p.values["density"] - 1.2) < 1e-12 and abs(p.values["pressure"] - 0.8) < 1e-3
        again = ds.probe_ijk(p.zone, p.ijk)
        assert again is not None and np.allclose(again.position, (0.5, 0.5, 0.5), atol=1e-9)
        node = ds.probe_ijk("zone2", (3, 4, 5))
        assert node is not None
        assert np.allclose(node.position, [c[4, 3, 2] for c in flow_blocks[1].xyz])
        assert ds.probe((9, 9, 9)) is None
        only = ds.probe((0.5, 0.5, 0.5), fields=["mach"])
        assert only is not None and list(only.values) == ["mach"]
        with pytest.raises(KeyError, match="no_such"):
            ds.probe((0.5, 0.5, 0.5), fields=["no_such"])
        with pytest.raises(KeyError, match="zone3"):
            ds.probe_ijk("zone9", (1, 1, 1))


def test_streamlines_are_helices(flow: str, store: Path) -> None:
    for source in (flow, store):
        with ff.open(source, workers=1) as ds:
            lines = ds.streamlines(
                seeds=RAKE,
                integration_direction="forward",
                max_length=0.4,
                tolerance=1e-8,
                scalars=["density", "velocity"],
            )
        assert len(lines) == 3 and lines.reason.tolist() == ["length"] * 3 and lines.reason_backward is None
        for line, seed in zip(lines, RAKE, strict=True):
            radius = np.hypot(line[:, 0] - 0.5, line[:, 1] - 0.5)
            assert np.array_equal(line[0], seed) and np.abs(radius - (seed[0] - 0.5)).max() < 3e-3
            length = np.linalg.norm(np.diff(line, axis=0), axis=1).sum()
            assert 0.39 < length < 0.401
        assert lines["velocity"].shape == (len(lines.points), 3) and np.allclose(lines["density"], 1.2)
        assert lines.time.shape == lines.zone.shape == (len(lines.points),)
        assert set(np.unique(lines.zone)) <= {1, 2, 3}
        with pytest.raises(KeyError, match="density"):
            lines["mach"]


def test_what_a_plane_would_hold_is_no_place_in_space(flow: str, tmp_path: Path) -> None:
    with ff.open(flow) as ds:
        for seeds in (np.zeros((3, 2)), [(0.5, 0.5)], "point:0.5,0.5"):
            with pytest.raises(ValueError, match=r"3-D|x,y,z"):
                ds.streamlines(seeds=seeds)
        with pytest.raises(ValueError, match="3-D"):
            ds.probe((0.5, 0.5))
        with pytest.raises(ValueError, match="3-D"):
            ds.probe_ijk("zone1", (1, 1))


def test_numpy_numbers_and_one_name_are_fine(flow: str) -> None:
    with ff.open(flow) as ds:
        lines = ds.streamlines(seeds=RAKE, max_steps=np.int64(5), tolerance=np.float32(1e-4), scalars="mach")  # type: ignore[arg-type]
        assert lines["mach"].shape == (len(lines.points),)
        for bad in ({"tolerance": float("nan")}, {"max_length": float("inf")}):
            with pytest.raises(ValueError, match=next(iter(bad))):
                ds.streamlines(seeds=RAKE, **bad)  # type: ignore[arg-type]


def test_no_bound_on_steps_is_none(flow: str, tmp_path: Path) -> None:
    """None is not the default: lines go on until something else ends them, be it memory."""
    how: dict[str, Any] = {"seeds": RAKE[2:], "integration_direction": "forward", "max_step": 1e-3}
    with ff.open(flow) as ds:
        free, many, usual = (ds.streamlines(**how, **m) for m in ({"max_steps": None}, {"max_steps": 10**6}, {}))
    assert usual.reason.tolist() == ["steps"] and "steps" not in free.reason.tolist()
    assert np.diff(free.offsets).min() > 2001 and free.points.tobytes() == many.points.tobytes()
    closed = box(9, 9, 9)
    closed.q[3][...] = 0.0
    grid, solution = write(tmp_path, [closed])
    with ff.open(grid, q=solution, memory_limit="6MiB") as ds:
        seed = [(0.55, 0.5, 0.5)]
        with pytest.raises(ff.MemoryLimitError, match=r"--memory-limit"):
            ds.streamlines(seeds=seed, max_steps=None)
        assert ds.streamlines(seeds=seed, max_steps=None, max_length=2.0).reason.tolist() == ["length"]


def test_lines_for_pyvista(flow: str) -> None:
    with ff.open(flow) as ds:
        outside = [(9.0, 9.0, 9.0)]
        one_way = ds.streamlines(
            seeds=[*outside, *RAKE, *outside],
            integration_direction="forward",
            max_length=0.3,
            scalars=["mach", "velocity"],
        )
        mesh = one_way.to_pyvista()
        none = ds.streamlines(seeds=outside).to_pyvista()
    assert (mesh.n_points, mesh.n_cells, mesh.n_lines) == (len(one_way.points), 3, 3)
    assert mesh.cell_data["seed"].tolist() == [1, 2, 3] and mesh.cell_data["reason"].tolist() == ["length"] * 3
    assert "reason_backward" not in mesh.cell_data and mesh.point_data["velocity"].shape == (len(one_way.points), 3)
    for n, seed in enumerate(mesh.cell_data["seed"]):
        points = one_way.points[one_way.offsets[seed] : one_way.offsets[seed + 1]]
        assert np.array_equal(mesh.get_cell(n).points, points)
    assert abs(mesh.compute_arc_length()["arc_length"].max() - 0.3) < 1e-3
    assert (none.n_points, none.n_lines) == (0, 0)


def test_what_makes_a_probe_doubtful_is_said(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    import farfield

    blocks = [box(7, 6, 5), box(7, 6, 5, (1, 0, 0))]
    for b in blocks:
        b.iblank = np.ones(b.xyz[0].shape, "i4")
    blocks[0].iblank[:, :, :2] = 0  # type: ignore[index]
    blocks[0].iblank[:, :, 4] = -2  # type: ignore[index]
    source = source_of(*write(tmp_path, blocks))
    notes = {1.5: "the cell is blanked out", 4.5: "a corner of the cell is interpolated from zone 2", 3.5: None}
    with farfield.open(source) as ds:
        for i, note in notes.items():
            found = ds.probe_ijk("zone1", (i, 2, 2))
            assert found is not None and found.note == note, i
            assert ff_json("probe", source, "--ijk", "zone1", i, 2, 2)["note"] == note
            said = ff("probe", source, "--ijk", "zone1", i, 2, 2).stdout
            assert (note in said) if note else ("note" not in said), said
        whole = ds.probe((1.5, 0.5, 0.5))
        assert whole is not None and whole.note is None and ds.probe((0.1, 0.5, 0.5)) is None


def test_a_step_that_is_not_there(flow: str, store: Path, ff: Command, tmp_path: Path) -> None:
    for source in (flow, store):
        for words in (
            ("trace", source, "--seeds", "random:3:1", "-o", tmp_path / "l.npz"),
            ("probe", source, 0.5, 0.5, 0.5),
        ):
            assert "time step 1" in ff(*words, "--step", 1, ok=(2,)).stderr
    assert not (tmp_path / "l.npz").exists()


def test_a_forked_child_is_told_to_open_it_again(store: Path) -> None:
    code = (
        "import os, sys, signal, farfield as ff\n"
        "ds = ff.open(sys.argv[1]); ds.probe((0.5, 0.5, 0.5)); child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20)\n"
        "    try: ds.probe((0.5, 0.5, 0.5)); os._exit(7)\n"
        "    except ValueError as error: ds.close(); os._exit(0 if 'fork' in str(error) else 8)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or ds.probe((0.5, 0.5, 0.5)) is None)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(store)], check=False, timeout=60).returncode == 0


def test_both_directions_make_one_line_a_seed(flow: str) -> None:
    with ff.open(flow) as ds:
        lines = ds.streamlines(seeds=RAKE, integration_direction="both", max_length=0.2)
        empty = ds.streamlines(seeds=[[9.0, 9.0, 9.0], RAKE[0]], max_length=0.2)
    assert len(lines) == 3 and lines.reason_backward is not None and len(lines.reason_backward) == 3
    for n, seed in enumerate(RAKE):
        part = slice(lines.offsets[n], lines.offsets[n + 1])
        time_ = lines.time[part]
        assert (np.diff(time_) > 0).all() and time_[0] < 0 < time_[-1]
        assert np.array_equal(lines.points[part][time_ == 0][0], seed)
    assert (
        len(empty) == 2 and len(next(iter(empty))) == 0 and empty.reason[0] == "left" and empty.summary["outside"] == 1
    )


@pytest.mark.parametrize("suffix", [".npz", ".vtp"])
def test_saving_is_what_the_command_line_writes(suffix: str, flow: str, ff: Command, tmp_path: Path) -> None:
    import farfield

    np.save(tmp_path / "s.npy", np.array(RAKE))
    ff(
        "trace",
        flow,
        "--seeds",
        tmp_path / "s.npy",
        "--max-length",
        0.3,
        "--scalars",
        "mach",
        "-o",
        tmp_path / f"cli{suffix}",
    )
    with farfield.open(flow) as ds:
        lines = ds.streamlines(seeds=RAKE, max_length=0.3, scalars=["mach"])
        lines.save(tmp_path / f"api{suffix}")
    assert (tmp_path / f"cli{suffix}").read_bytes() == (tmp_path / f"api{suffix}").read_bytes()
    if suffix == ".npz":
        with np.load(tmp_path / "cli.npz", allow_pickle=False) as z:
            assert z["points"].dtype == np.float64 and z["offsets"].dtype == np.int64 and z["offsets"].shape == (4,)
            assert np.array_equal(z["points"], lines.points) and z["reason"].tolist() == lines.reason.tolist()
    else:
        import pyvista

        read, made = pyvista.read(tmp_path / "cli.vtp"), lines.to_pyvista()
        assert np.array_equal(read.points, made.points) and np.array_equal(read.lines, made.lines)
        assert all(np.array_equal(read.point_data[n], made.point_data[n]) for n in ("mach", "time", "zone"))
        assert all(
            read.cell_data[n].tolist() == made.cell_data[n].tolist() for n in ("seed", "reason", "reason_backward")
        )
    with pytest.raises(ValueError, match=r"\.vtp"):
        lines.save(tmp_path / "lines.txt")


def test_numbers_of_a_run(flow: str, store: Path, process_json: Json, tmp_path: Path) -> None:
    for source in (flow, store):
        j = process_json("trace", source, "--seeds", "random:20:1", "-o", tmp_path / "l.npz", "--memory-limit", "64MiB")
        assert (
            j["limit_bytes"] == 64 * 2**20
            and 0 < j["peak_bytes"] <= j["limit_bytes"]
            and j["base_bytes"] <= 160 * 2**20
        )
        assert 0 < j["pages"]["touched"] <= j["pages"]["total"] and j["bytes_read"] > 0 and j["reads"] > 0
        assert j["lines"] == 20 == sum(j["reasons"].values()) and not j["partial"]


def test_convert(flow: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    target = tmp_path / "s.zarr"
    estimate = ff_json("convert", flow, target, "--dry-run", "--codec", "none")
    assert not target.exists() and estimate["dry_run"]
    made = ff_json("convert", flow, target, "--codec", "none")
    size = sum(f.stat().st_size for f in target.rglob("*") if f.is_file())
    assert made["bytes_out"] == size and abs(estimate["bytes_out"] - size) < 0.1 * size + 20000
    assert ff_json("validate", target)["ok"]
    assert "exist" in ff("convert", flow, target, ok=(1, 2)).stderr
    ff("convert", flow, target, "--overwrite")
    first = next(f for f in sorted(target.rglob("*")) if f.is_file() and f.name != "zarr.json")
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 4
    first.write_bytes(bytes(data))
    assert ff("validate", target, ok=(1,)).stderr.startswith("farfield: error: ")


def test_surfaces(flow: str, ff: Command, ff_json: Json, flow_blocks: list[Block], tmp_path: Path) -> None:
    j = ff_json(
        "extract", "grid-surface", flow, "--surface", "zone2:k=1", "--scalars", "density", "-o", tmp_path / "s.vtp"
    )
    ni, nj, _ = flow_blocks[1].dims
    assert j["points"] == ni * nj and j["cells"] == (ni - 1) * (nj - 1)
    assert "--surface" in ff("extract", "grid-surface", flow, "-o", tmp_path / "w.vtp", ok=(2,)).stderr  # no walls here
    assert not (tmp_path / "w.vtp").exists()


def test_pictures(flow: str, ff: Command, ff_json: Json, tmp_path: Path) -> None:
    picture = tmp_path / "p.png"
    env = {"DISPLAY": "", "FARFIELD_WORKERS": "2"}
    j = ff_json("render", flow, "--size", "320x180", "-o", picture, "--save-scene", tmp_path / "s.json", env=env)
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and data[16:24] == (320).to_bytes(4, "big") + (180).to_bytes(4, "big")
    assert len(data) > 4000 and j["maps"]
    ff("render", tmp_path / "s.json", "-o", tmp_path / "again.png")
    assert (tmp_path / "again.png").read_bytes() == data
    ff("trace", flow, "--seeds", "random:10:1", "--scalars", "mach", "-o", tmp_path / "l.vtp")
    j = ff_json(
        "render", "--lines", tmp_path / "l.vtp", "--color", "mach", "--range", "0:1", "--size", "200x100", "-o", picture
    )
    assert j["maps"]["mach"]["range"] == [0, 1]
    err = ff("render", "--lines", tmp_path / "l.vtp", "--color", "no_such", "-o", picture, ok=(2,)).stderr
    assert "no_such" in err and "mach" in err


def test_errors_are_of_their_kind(flow: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"no/such\.xyz"):
        ff.open("/no/such.xyz")
    (tmp_path / "noise.xyz").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(ff.FarfieldError, match=r"noise\.xyz"):
        ff.open(tmp_path / "noise.xyz")
    with ff.open(flow) as ds:
        for bad in ({"vectors": "no_such"}, {"vectors": "density"}, {"scalars": ["no_such"]}, {"integration_direction": "up"},
                    {"tolerance": -1.0}, {"seeds": np.zeros((3, 5))}, {"seeds": "random:x:1"}):  # fmt: skip
            with pytest.raises((KeyError, ValueError)) as caught:
                ds.streamlines(**{"seeds": RAKE, **bad})  # type: ignore[arg-type]
            assert str(caught.value) and isinstance(caught.value, ff.FarfieldError)
    with pytest.raises(ValueError):
        ds.probe((0.5, 0.5, 0.5))  # closed


def test_a_limit_too_small_says_what_would_do(flow: str, ff: Command, tmp_path: Path) -> None:
    done = ff("trace", flow, "--seeds", "random:3:1", "--memory-limit", "64KiB", "-o", tmp_path / "x.npz", ok=(4,))
    assert "memory limit" in done.stderr and not (tmp_path / "x.npz").exists()


def test_the_limit_can_be_changed(store: Path) -> None:
    with ff.open(store, memory_limit="64MiB") as ds:
        first = ds.streamlines(seeds="random:30:2", max_steps=100)
        ds.set_memory_limit("32MiB")
        second = ds.streamlines(seeds="random:30:2", max_steps=100)
        assert ds.stats()["limit_bytes"] == 32 * 2**20
    assert first.points.tobytes() == second.points.tobytes()


def test_the_limit_may_be_lowered_during_a_run(store: Path, tmp_path: Path) -> None:
    """Results and lines under way that no longer fit go to disk or are begun again; the bytes are the same."""
    written = []
    for low in (None, "8MiB"):
        with ff.open(store, memory_limit="256MiB", workers=2) as ds:
            used = []

            def lower(phase: str, done: float, total: float) -> bool:
                if phase == "tracing" and done > 2000 and low and not used:  # noqa: B023
                    used.append(ds.stats()["peak_bytes"])  # noqa: B023
                    ds.set_memory_limit(low)  # noqa: B023
                return True

            target = tmp_path / f"{low}.npz"
            options = {"seeds": "random:40000:1", "direction": "both", "max_steps": 400, "scalars": ["pressure"]}
            result = ds.trace(target, options=options, progress=lower)
            assert result["stats"]["limit_bytes"] == (8 if low else 256) * 2**20
            if low:
                assert used and used[0] > 8 * 2**20, "there was nothing to give back"
        written.append(np.load(target)["points"].tobytes())
    assert written[0] == written[1]


def test_readers_do_not_notice_the_end_of_a_trace(store: Path) -> None:
    """What one thread asks for is not cancelled when another's run is over."""
    with ff.open(store, memory_limit="4MiB", workers=2) as ds:
        stop, wrong, probed = threading.Event(), [], 0

        def trace() -> None:
            while not stop.is_set():
                ds.streamlines(seeds="random:10:1", max_steps=20)

        threads = [threading.Thread(target=trace) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            end = time.monotonic() + 3
            while time.monotonic() < end:
                for zone in ds.zones.values():
                    zone["density"][0, 0, :2], zone["energy"][-1, -1, :2]
                    probed += 1
        except ff.FarfieldError as e:
            wrong.append(e)
        stop.set()
        for t in threads:
            t.join()
    assert not wrong and probed > 10, wrong


def test_boxes_are_made_once_for_many(flow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads on a file whose boxes are not made yet, and a progress function that asks for numbers meanwhile."""
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    with ff.open(flow) as ds:
        phases, refused, results = set(), [], []

        def progress(phase: str, done: float, total: float) -> bool:
            phases.add(phase)
            assert ds.stats()["limit_bytes"] > 0
            if phase == "indexing" and done > 0:
                try:
                    ds.probe(RAKE[0])
                except ff.UsageError as e:
                    refused.append(str(e))
            return True

        def trace(**how: Any) -> None:
            results.append(ds.streamlines(seeds=np.array(RAKE), **how).points.tobytes())

        threads = [threading.Thread(target=trace, kwargs={"progress": progress}) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        assert not any(t.is_alive() for t in threads)
    assert len(results) == 3 and len(set(results)) == 1
    assert "indexing" in phases
    assert all("are being made" in r for r in refused)


def test_progress_cancels(store: Path, tmp_path: Path) -> None:
    seen = []

    def stop(phase: str, done: float, total: float) -> bool:
        seen.append((phase, done, total))
        return False

    with ff.open(store) as ds, pytest.raises(ff.Interrupted):
        ds.streamlines(seeds="random:20000:1", progress=stop)
    assert seen and all(isinstance(p, str) and d >= 0 and t >= 0 for p, d, t in seen)


def test_an_exception_in_progress_comes_out(store: Path) -> None:
    def fail(phase: str, done: float, total: float) -> bool:
        raise ZeroDivisionError("mine")

    with ff.open(store) as ds, pytest.raises(ZeroDivisionError, match="mine"):
        ds.streamlines(seeds="random:20000:1", progress=fail)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_run_can_be_stopped(number: signal.Signals, store: Path, tmp_path: Path) -> None:
    target = tmp_path / "i.npz"
    child = start("trace", store, "--seeds", "random:4000000:1", "-o", target, "--events", tmp_path / "e.json")
    begun(child, tmp_path / "e.json")
    time.sleep(0.5)  # into the middle of it
    assert child.poll() is None, "the run was over before it could be interrupted"
    child.send_signal(number)
    sent = time.monotonic()
    _, err = child.communicate(timeout=20)
    assert child.returncode == 130 and time.monotonic() - sent < 3 and "Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"] and json.loads((tmp_path / "e.json").read_text())


def test_events(store: Path, ff: Command, tmp_path: Path) -> None:
    ff("trace", store, "--seeds", "random:5:1", "-o", tmp_path / "l.npz", "--events", tmp_path / "e.json")
    events = json.loads((tmp_path / "e.json").read_text())
    rows = events["traceEvents"] if isinstance(events, dict) else events
    assert any(r.get("ph") in ("X", "B", "i") for r in rows)


def test_the_demo_in_small(ff_json: Json, tmp_path: Path) -> None:
    j = ff_json("demo", "--small", "--dir", tmp_path)
    assert (tmp_path / "taper.png").stat().st_size > 10000
    assert j["trace"]["lines"] == 60 and j["trace"]["pages"]["touched"] < j["trace"]["pages"]["total"]
    assert j["trace"]["peak_bytes"] <= j["trace"]["limit_bytes"] == 8 * 2**20
    standard = ("wall_s", "cpu_s", "wait_s", "base_bytes", "peak_bytes", "limit_bytes", "pages", "bytes_read", "reads")
    assert {key: j[key] for key in standard} == {key: j["trace"][key] for key in standard}
    assert j["total_s"] > j["wall_s"]


def test_help_is_quick(process: Command) -> None:
    times = []
    for _ in range(5):
        begun = time.monotonic()
        process("--help")
        times.append(time.monotonic() - begun)
    assert min(times) < 0.3


def test_sources_that_the_extension_cannot_open_are_usage_errors() -> None:
    resources = json.dumps({"memory_limit": 64 << 20})
    for source, what in (
        ("{}", "a source is a 'path', or a 'volume'"),
        ('{"path": "a", "paht": "b"}', "source: unknown field `paht`"),
        ('{"volume": {}}', "source: missing field"),
        ("[", "source: "),
    ):
        with pytest.raises(ff.UsageError) as error:
            _native.Dataset.open(source, resources)
        assert what in str(error.value), source
