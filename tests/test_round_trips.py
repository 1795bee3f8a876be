"""Requests of opening and of a first number at a real web server: how many, how many of them wait for others, and that none
is asked twice.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import farfield
import test_places_formats as formats
from farfield_bench.suites.remote_first import sparse_pyramid
from plot3d_files import box, cut, source_of, write
from remote_servers import Fault, use, web_server
from running import Command, Json

DELAY = 0.15
"""Longer than other work of the machine delays a request."""


def own_flow(root: Path) -> None:
    write(root, cut(box(33, 25, 17), 2), stem="f")
    farfield.convert(source_of(root / "f.xyz", root / "f.q"), root / "flow.zarr", page=8, progress=False)


def own_volume(root: Path) -> None:
    np.arange(64**3, dtype=np.uint16).reshape(64, 64, 64).tofile(root / "a_64x64x64_uint16.raw")
    farfield.convert(str(root / "a_64x64x64_uint16.raw"), root / "volume.zarr", progress=False)


def sharded(root: Path) -> None:
    array = zarr.create_array(
        root / "s.zarr", shape=(64, 64, 64), chunks=(16, 16, 16), shards=(32, 32, 32), dtype="uint16"
    )
    array[:] = np.arange(64**3, dtype=np.uint16).reshape(64, 64, 64)


def unsharded(root: Path) -> None:
    for version in (2, 3):
        array = zarr.create_array(
            root / f"u{version}.zarr",
            shape=(64, 64, 64),
            chunks=(32, 32, 32),
            dtype="uint16",
            zarr_format=version,
            fill_value=7,
        )
        array[:32] = np.arange(32 * 64**2, dtype=np.uint16).reshape(32, 64, 64)


def ome(root: Path) -> None:
    shutil.copytree(Path(__file__).parent / "cases/volumes/ome04_omero", root / "ome.zarr")


def headers(root: Path) -> None:
    formats.nrrd(root)
    own_volume(root)


CASES: dict[str, tuple[Callable[[Path], None], str, int, int]] = {
    "own flow": (own_flow, "flow.zarr", 5, 4),
    "own volume": (own_volume, "volume.zarr", 2, 2),
    "sharded": (sharded, "s.zarr", 2, 2),
    "unsharded v2": (unsharded, "u2.zarr", 2, 1),
    "unsharded v3": (unsharded, "u3.zarr", 2, 1),
    "OME-Zarr": (ome, "ome.zarr/i.zarr", 2, 1),
    "NRRD": (headers, "a.nrrd", 1, 1),
    "raw": (headers, "a_64x64x64_uint16.raw", 1, 1),
}
"""What makes a source, its name, and the round trips of opening it and of a first number."""


def first(of: Any) -> float:
    """A first number."""
    if hasattr(of, "zones"):
        return float(next(iter(of.probe((0.5, 0.4, 0.3), fields=["density"]).values.values())))
    return float(np.asarray(of[1:2, 1:2, 1:2]).ravel()[0])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_opening_and_a_first_number(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_CACHE="0")
    root = tmp_path / "root"
    root.mkdir()
    make, at, opening, number = CASES[name]
    make(root)
    with web_server(root) as web:
        web.delay = DELAY
        with farfield.open(web.url(at)) as ds:
            asked = Counter((request.path, request.range) for request in web.requests)
            assert max(asked.values()) == 1, "asked twice"
            assert all(request.method == "GET" for request in web.requests), "a check without bytes"
            assert web.round_trips() <= opening, web.requests
            web.forget()
            found = first(ds)
            assert web.round_trips() <= number, web.requests
    with farfield.open(str(root / at)) as ds:
        assert first(ds) == found


def test_a_chunk_costs_one_request_there_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_CACHE="0")
    unsharded(tmp_path)
    here = np.asarray(zarr.open_array(tmp_path / "u3.zarr", mode="r")[...])
    with web_server(tmp_path) as web, farfield.open(web.url("u3.zarr")) as ds:
        web.forget()
        assert np.array_equal(ds[:], here)
        assert [request.method for request in web.requests] == ["GET"] * 8
        assert max(web.counts().values()) == 1
        assert sorted(request.status for request in web.requests) == [206] * 4 + [404] * 4


def test_a_chunk_that_is_longer_than_its_numbers_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first read asks for what a chunk has in general, and a longer file is read to its end."""
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_CACHE="0")
    codec = zarr.codecs.GzipCodec(level=0)
    array = zarr.create_array(
        tmp_path / "a.zarr", shape=(8, 8, 8), chunks=(8, 8, 8), dtype="uint8", compressors=[codec] * 90, filters=None
    )
    array[...] = np.arange(512, dtype=np.uint8).reshape(8, 8, 8)
    size = (tmp_path / "a.zarr/c/0/0/0").stat().st_size
    assert size > 512 + 512 // 8 + 1024
    with web_server(tmp_path) as web, farfield.open(web.url("a.zarr")) as ds:
        assert np.array_equal(ds[:], np.asarray(array[...]))


@pytest.mark.parametrize("may_list", [True, False])
def test_info_says_the_bytes_of_a_bucket(
    may_list: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ff_json: Json
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    unsharded(root)
    sharded(root)
    with web_server(root, "bucket") as bucket:
        use(monkeypatch, tmp_path, FARFIELD_NETWORK_CACHE="0", **bucket.env)
        bucket.fault = lambda asked: None if may_list or "list-type" not in asked.query else Fault(status=403)
        for name in ("u2.zarr", "u3.zarr", "s.zarr"):
            here = ff_json("info", root / name)["bytes_disk"]
            assert ff_json("info", bucket.url(name))["bytes_disk"] == (here if may_list else None)
    with web_server(root) as web:
        assert ff_json("info", web.url("u3.zarr"))["bytes_disk"] is None


def test_what_a_web_server_cannot_list_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ff: Command, ff_json: Json
) -> None:
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_CACHE="0")
    root = tmp_path / "root"
    root.mkdir()
    own_volume(root)
    (root / "volume.zarr/stranger").write_text("x")
    assert ff_json("validate", root / "volume.zarr", ok=(1,))["failed"] == 1
    with web_server(root) as web:
        found = ff_json("validate", web.url("volume.zarr"))
        assert found["ok"] and found["not_listed"]
        assert "were not looked for" in ff("validate", web.url("volume.zarr")).stdout
    (root / "volume.zarr/stranger").unlink()
    found = ff_json("validate", root / "volume.zarr")
    assert found["ok"] and not found["not_listed"]


def test_a_picture_of_a_sparse_store_reads_each_page_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ff: Command
) -> None:
    """Pages that were never written are made without a read, and do not push the written ones out."""
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_CACHE="0")
    root = tmp_path / "root"
    root.mkdir()
    sides = sparse_pyramid(root / "s.zarr", 1000, 5, 40)
    assert sides[-1] <= 64
    size = ("--size", "640x360", "--memory-limit", "16MiB")
    ff("render", root / "s.zarr", *size, "-o", tmp_path / "here.png")
    with web_server(root) as web:
        web.delay = 0.02
        ff("render", web.url("s.zarr"), *size, "-o", tmp_path / "there.png")
        # Pages, and not the indexes at the ends of shards.
        pages = [request for request in web.requests if not (request.range or "").startswith("bytes=-")]
        asked = Counter((request.path, request.range) for request in pages)
    assert max(asked.values()) == 1, asked.most_common(4)
    assert (tmp_path / "there.png").read_bytes() == (tmp_path / "here.png").read_bytes()
