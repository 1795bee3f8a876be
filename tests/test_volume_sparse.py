"""Stores of which little was written: what was never written is not looked at page by page, and nothing else changes by that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield as ff
from farfield.scene.volumes import first_scene


def store(path: Path, dims: tuple[int, int, int], fill: Any, *, dtype: str = "u2", **layout: Any) -> Any:
    return zarr.create_array(path, shape=dims, dtype=dtype, fill_value=fill, **layout)


LAYOUTS: dict[str, dict[str, Any]] = {
    "v2": {"chunks": (16, 16, 16), "zarr_format": 2},
    "v2 nested": {"chunks": (16, 16, 16), "zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "v3": {"chunks": (16, 16, 16), "zarr_format": 3},
    "v3 shards": {"chunks": (16, 16, 16), "shards": (32, 32, 32), "zarr_format": 3},
    "v3 plain": {"chunks": (16, 16, 16), "zarr_format": 3, "compressors": None},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_written_is_found_among_what_was_not(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    array = store(tmp_path / "a.zarr", (100, 90, 150), 7, **LAYOUTS[layout])
    array[40:50, 33:47, 70:81] = np.arange(10 * 14 * 11, dtype="u2").reshape(10, 14, 11) + 100
    array[99, 89, 149] = 3
    expected = np.asarray(array[...])
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        assert np.array_equal(volume[:], expected)
        checked = volume.stats()["pages"]
    # 7 x 6 x 10 pages, of which the two boxes touch some.
    page = 16
    written = {tuple(int(n) // page for n in at) for at in np.argwhere(expected != 7)}
    chunks = 7 * 6 * 10
    assert checked["never_written"] == chunks - len(written)
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        before = first_scene(volume, str(tmp_path / "a.zarr"))
        pictures = [ff.render(before, tmp_path / "p.png", size=(64, 48)) and (tmp_path / "p.png").read_bytes()]
        info = volume.info(ranges=True)
        assert info["channels"][0]["range"] == [3, 1639] and info["ranges_known"]
        stats = volume.stats()["pages"]
        assert stats["fills"] >= chunks - len(written) and stats["never_written"] >= chunks - len(written)
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        assert volume.info()["channels"][0]["range"] == [3, 1639]
        assert np.array_equal(volume[30:60, 20:60, 60:100], expected[30:60, 20:60, 60:100])
        ff.render(before, tmp_path / "p.png", size=(64, 48))
        pictures.append((tmp_path / "p.png").read_bytes())
    assert pictures[0] == pictures[1]


def test_half_of_a_store_is_no_less_than_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most was written what was not has its range, too."""
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    array = store(tmp_path / "a.zarr", (64, 64, 64), 9, chunks=(16, 16, 16))
    array[:, :, :48] = 20
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        assert volume.info(ranges=True)["channels"][0]["range"] == [9, 20]
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        # A face where 20 and 9 meet, and none elsewhere.
        points = volume.contour([15]).points
    assert len(points) and np.all((points[:, 0] > 47) & (points[:, 0] < 48))


@pytest.mark.parametrize("fill", [-9999.9, float("nan"), 0.0])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_ranges_know_the_fill_value(fill: float, dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    array = store(tmp_path / "a.zarr", (64, 64, 64), fill, dtype=dtype, chunks=(8, 8, 8))
    array[8:16, 8:16, 8:16] = np.linspace(1, 2, 512).reshape(8, 8, 8)
    with ff.open(tmp_path / "a.zarr", memory_limit="32MiB") as volume:
        low, high = volume.info(ranges=True)["channels"][0]["range"]
    number = np.asarray(array[...])
    assert low == pytest.approx(np.nanmin(number), rel=1e-6) and high == pytest.approx(np.nanmax(number), rel=1e-6)


def test_an_isosurface_of_a_sparse_store_is_whole(tmp_path: Path) -> None:
    """A sphere within one shard, whose surface comes to its edges: as of the same numbers written whole."""
    at = np.indices((96, 96, 96)) - 40.0
    ball = np.clip(30 - np.sqrt((at**2).sum(axis=0)), 0, None).astype("f4")
    sparse = store(tmp_path / "a.zarr", ball.shape, 0, dtype="f4", chunks=(8, 8, 8))
    for k, j, i in np.ndindex(12, 12, 12):
        box = tuple(slice(8 * n, 8 * n + 8) for n in (k, j, i))
        if ball[box].any():
            sparse[box] = ball[box]
    dense = store(tmp_path / "b.zarr", ball.shape, 0, dtype="f4", chunks=(8, 8, 8), config={"write_empty_chunks": True})
    dense[...] = ball
    found = []
    for name in ("a.zarr", "b.zarr"):
        with ff.open(tmp_path / name, memory_limit="32MiB") as volume:
            found.append(volume.contour([0.5]))
    assert np.array_equal(found[0].points, found[1].points) and len(found[0].points) > 1000


def test_a_terabyte_of_nothing_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """10^12 bytes with five shards: what is asked of the system follows from what was written, not from what could be."""
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    from farfield_bench.suites.volume_unlevelled import sparse_store

    path = tmp_path / "a.zarr"
    sparse_store(path, 10_000, 5)
    with ff.open(path, memory_limit="256MiB") as volume:
        info = volume.info(ranges=True)
        pages = volume.stats()["pages"]
    assert info["channels"][0]["range"] == [0, 54]
    # Five shards of 1000 pages and their indexes; 157^3 pages in all.
    assert pages["faults"] < 5200 and pages["fills"] == 157**3 - 5
    assert pages["never_written"] == 157**3 - 5
    with ff.open(path, memory_limit="256MiB") as volume:
        assert volume[5, 5, 5] == 50 and volume[9999, 9999, 9999] == 0
        scene = first_scene(volume, str(path))
        picture = ff.render(scene, tmp_path / "p.png", size=(64, 48))
    assert picture["stats"]["pages"]["faults"] < 60_000


def test_a_folder_that_cannot_be_listed_is_no_folder_of_nothing(tmp_path: Path) -> None:
    """Only "not found" means that nothing was written."""
    array = store(tmp_path / "a.zarr", (32, 32, 32), 1, chunks=(16, 16, 16))
    array[...] = 5
    if os.geteuid() == 0:
        (tmp_path / "a.zarr" / "c").rename(tmp_path / "c")
        (tmp_path / "a.zarr" / "c").write_text("a file where a folder should be")
    else:
        (tmp_path / "a.zarr" / "c").chmod(0)
    with pytest.raises(ff.FarfieldError):
        _ = ff.open(tmp_path / "a.zarr")[:]


def test_a_dataset_takes_few_addresses(tmp_path: Path) -> None:
    """A process has 2^47 bytes of addresses: a thousand datasets are held at once."""
    np.save(tmp_path / "x.npy", np.zeros(3))
    header = b"NRRD0005\ntype: uint8\ndimension: 3\nsizes: 32 32 32\nencoding: raw\n\n"
    (tmp_path / "a.nrrd").write_bytes(header + bytes(32**3))

    def addresses() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")

    before = addresses()
    held = [ff.open(tmp_path / "a.nrrd") for _ in range(20)]
    assert all(volume[0, 0, 0] == 0 for volume in held)
    assert (addresses() - before) / len(held) < 2**47 / 1000 / 8
    for volume in held:
        volume.close()


@pytest.mark.parametrize("projection", ["composite", "maximum"])
def test_a_volume_without_levels_is_read_about_once(projection: str, tmp_path: Path) -> None:
    """16 MiB of bytes within 8 MiB: the picture is that of ample memory, and what is touched is read less than three times."""
    n = 256
    k, j, i = np.indices((n, n, n), dtype="u2", sparse=True)
    data = ((k * 3 + j * 5 + i * 7) % 251).astype("u1")
    header = f"NRRD0005\ntype: uint8\ndimension: 3\nsizes: {n} {n} {n}\nencoding: raw\n\n".encode()
    (tmp_path / "a.nrrd").write_bytes(header + data.tobytes())
    scene = {
        "source": str(tmp_path / "a.nrrd"),
        "objects": [
            {
                "kind": "volume",
                "projection": projection,
                **({"opacity": [[0, 0.05], [255, 0.05]]} if projection == "composite" else {}),
            }
        ],
    }
    pictures, read = [], []
    for limit in ("1GiB", "8MiB"):
        found = ff.render(scene, tmp_path / "p.png", size=(160, 120), memory_limit=limit)
        pictures.append((tmp_path / "p.png").read_bytes())
        read.append(found["stats"]["bytes_read"])
    assert pictures[0] == pictures[1]
    assert read[1] < 3 * read[0], read
