"""Stores through the real command line: what is made of which source, where it is made, and what is said of it."""

from __future__ import annotations

import os
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from plot3d_files import Block, box, source_of, write
from running import Command, Json


def density(store: Path, ff_json: Json) -> float:
    return float(ff_json("probe", store, "--ijk", "zone1", 2, 2, 2)["values"]["density"])


def test_a_store_of_another_run_is_not_resumed(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    """Two runs of one case have files of the same names and sizes, and stores that only their values tell apart."""
    sources = []
    for n, factor in enumerate((1.0, 7.0)):
        folder = tmp_path / f"run{n}"
        folder.mkdir()
        whole = box(9, 8, 7)
        grid, solution = write(folder, [Block(whole.xyz, [factor * q for q in whole.q])])
        for path in (grid, solution):
            os.utime(path, (1e9, 1e9))
        sources.append(source_of(grid, solution))
    store = tmp_path / "s.zarr"
    ff("convert", sources[0], store)
    assert ff_json("convert", sources[0], store, "--resume")["resumed"]
    said = ff("convert", sources[1], store, "--resume", ok=(1,)).stderr
    assert str(store) in said and "another source" in said and "--overwrite" in said
    assert abs(density(store, ff_json) - 1.2) < 1e-9
    assert not ff_json("convert", sources[1], store, "--overwrite", "--resume")["resumed"]
    assert abs(density(store, ff_json) - 8.4) < 1e-9
    # A file that takes the place of another, as old as that.
    shutil.copytree(tmp_path / "run0", tmp_path / "kept")
    for name in ("flow.xyz", "flow.q"):
        os.utime(tmp_path / "kept" / name, (1e9, 1e9))
        os.replace(tmp_path / "kept" / name, tmp_path / "run1" / name)
    assert not ff_json("convert", sources[1], store, "--overwrite", "--resume")["resumed"]
    assert abs(density(store, ff_json) - 1.2) < 1e-9


def test_a_folder_of_the_users_is_left_alone(flow: str, tmp_path: Path, ff: Command) -> None:
    thesis = tmp_path / "u.zarr.partial" / "mine" / "thesis.tex"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    for more in ((), ("--overwrite",), ("--resume",)):
        said = ff("convert", flow, tmp_path / "u.zarr", *more, ok=(1,)).stderr
        assert "u.zarr.partial" in said and "'mine'" in said and "another target" in said
        assert thesis.read_text() == "years of work" and not (tmp_path / "u.zarr").exists()


def test_two_runs_on_one_file_make_its_index_once(tmp_path: Path, process: Command) -> None:
    """They start together on an empty cache, and both end well, with the same lines."""
    flow = source_of(*write(tmp_path, [box(81, 61, 41)]))
    env = {"FARFIELD_CACHE_DIR": str(tmp_path / "cache")}

    def run(n: int) -> None:
        process("trace", flow, "--seeds", "random:20:1", "-o", tmp_path / f"{n}.npz", env=env)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(run, range(3)))
    points = [np.load(tmp_path / f"{n}.npz")["points"].tobytes() for n in range(3)]
    assert points[0] == points[1] == points[2] != b""
    made = [p.name for p in (tmp_path / "cache" / "data").iterdir() if p.name != ".records"]
    assert len(made) == 1 and made[0].endswith(".index"), made


def test_padding_in_memory_is_what_the_ledger_counts(tmp_path: Path, ff_json: Json) -> None:
    grid, _ = write(tmp_path, [box(33, 33, 33)], real=4)
    store = tmp_path / "s.zarr"
    planned = ff_json("convert", grid, store, "--page", 4, "--dry-run")
    made = ff_json("convert", grid, store, "--page", 4)
    assert made["padding_memory"] == planned["padding_memory"] > 5
    # Of a page of 4x4x4 points of three floats, 768 bytes, a frame is 4096.
    edge = made["zones"][0]["page"]
    pages = np.prod([-(-33 // e) for e in edge])
    assert made["padding_memory"] == pages * 4096 / (33**3 * 12)


def test_many_zones_take_memory_that_is_counted(tmp_path: Path, ff: Command, ff_json: Json) -> None:
    """Zones of one point: names and sizes are all that there is, and they are charged."""
    grids = {}
    for n in (500, 32_000):
        values = np.random.default_rng(n).random(3 * n).astype("<f4")
        grids[n] = tmp_path / f"{n}.xyz"
        grids[n].write_bytes(struct.pack("<i", n) + struct.pack("<3i", 1, 1, 1) * n + values.tobytes())
    ff("info", grids[500], "--memory-limit", "8MiB")
    said = ff("info", grids[32_000], "--memory-limit", "16MiB", ok=(4,)).stderr
    assert "32000 zones" in said and "raise --memory-limit to that" in said
    enough = said.split("needs about ")[1].split(";")[0].replace(" ", "")
    info = ff_json("info", grids[32_000], "--memory-limit", enough)
    assert len(info["zones"]) == 32_000 and info["pages"]["total"] == 64_000 + 32_000


def test_a_source_that_validate_would_not_read_whole(flow: str, store: Path, ff: Command) -> None:
    q = flow.split("+q=")[1]
    for words in (("info",), ("validate",)):
        said = ff(*words, source_of(store, q), ok=(2,)).stderr
        assert str(store) in said and "takes no grid, q or function files" in said
    ff("validate", store)


def test_what_cannot_be_read_says_what_to_do(store: Path, tmp_path: Path, ff: Command) -> None:
    damaged = tmp_path / "s.zarr"
    shutil.copytree(store, damaged)
    shard = damaged / "zone2" / "energy" / "c.0.0.0.0"
    os.truncate(shard, shard.stat().st_size - 7)
    said = ff("convert", damaged, tmp_path / "t.zarr", ok=(1,)).stderr
    for word in (str(shard), "ends at byte", "cut off", "convert its source again"):
        assert word in said, said
    grid, _ = write(tmp_path, [box(5, 4, 3)], form="binary", count=False)
    (tmp_path / "s.f").write_bytes(struct.pack("<4i", 5, 4, 3, 1) + np.arange(60.0).astype("<f8").tobytes())
    names = tmp_path / "s.f.nam"
    names.write_bytes("Dichte \u00fc\n".encode("latin-1"))
    said = ff("info", f"{grid}+function={tmp_path}/s.f", ok=(1,)).stderr
    assert str(names) in said and "save it as UTF-8" in said and "rename it" in said, said
    names.write_bytes("Dichte \u00fc\n".encode())
    ff("info", f"{grid}+function={tmp_path}/s.f")
