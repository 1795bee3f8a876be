"""Pages of servers on the local disk: what a second process reads from there, work without a network, and changed files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import farfield
from plot3d_files import box, cut, source_of, write
from remote_servers import WebServer, page_server, use, web_server
from running import Done, process

VALUES = np.random.default_rng(3).integers(1, 60000, (40, 40, 40)).astype("<u2")
HEAD = b"NRRD0004\ntype: uint16\ndimension: 3\nsizes: 40 40 40\nendian: little\nencoding: raw\n\n"


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    use(monkeypatch, tmp_path)
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.nrrd").write_bytes(HEAD + VALUES.tobytes())
    write(root, cut(box(25, 15, 13), 2), stem="f")
    farfield.convert(source_of(root / "f.xyz", root / "f.q"), root / "f.zarr", page=8, progress=False)
    with web_server(root) as made:
        yield made


def convert(address: str, target: Path, *more: object, ok: tuple[int, ...] = (0,)) -> Done:
    """Reads all of a source, in a process of its own."""
    return process("convert", address, target, *more, ok=ok, env=dict(os.environ))


def tree(folder: Path) -> dict[str, bytes]:
    found = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    # A digest of the source with the time of its change, which is unknown offline, and a checksum of all.
    found["zarr.json"] = re.sub(rb'"(?:[0-9a-f]{8}|[0-9a-f]{32})"', b'"#"', found["zarr.json"])
    return found


@pytest.mark.parametrize("name", ["a.nrrd", "f.zarr"])
def test_a_second_process_asks_about_once_for_each_file(name: str, web: WebServer, tmp_path: Path) -> None:
    counts = []
    for n in range(2):
        web.forget()
        convert(web.url(name), tmp_path / f"{n}.zarr")
        counts.append(web.counts())
    assert tree(tmp_path / "0.zarr") == tree(tmp_path / "1.zarr")
    assert max(counts[1].values()) <= 3 and counts[1].total() < counts[0].total()
    bodies = [r for r in web.requests if r.method == "GET" and r.status in (200, 206)]
    assert len(bodies) <= len(counts[1]), [(r.path, r.range) for r in bodies]


def test_offline(web: WebServer, tmp_path: Path) -> None:
    for name in ("a.nrrd", "f.zarr"):
        convert(web.url(name), tmp_path / f"{name}-0.zarr")
    probed = process("probe", web.url("f.zarr"), "zone1", 2, 2, 2, "--ijk", env=dict(os.environ)).stdout
    web.stop()
    web.forget()
    for name in ("a.nrrd", "f.zarr"):
        convert(web.url(name), tmp_path / f"{name}-1.zarr", "--offline")
        assert tree(tmp_path / f"{name}-0.zarr") == tree(tmp_path / f"{name}-1.zarr")
    again = process("probe", web.url("f.zarr"), "zone1", 2, 2, 2, "--ijk", "--offline", env=dict(os.environ))
    assert again.stdout == probed and not web.requests


@pytest.mark.parametrize("server", ["http", "farfield"])
def test_pages_that_are_not_kept(server: str, web: WebServer, tmp_path: Path) -> None:
    large = np.random.default_rng(4).integers(1, 60000, (128, 128, 128)).astype("<u2")
    (web.root / "a.nrrd").write_bytes(HEAD.replace(b"40 40 40", b"128 128 128") + large.tobytes())
    with page_server(web.root, tmp_path / "state") as pages:
        address = web.url("a.nrrd") if server == "http" else f"{pages.urls[0]}/a.nrrd"
        process("info", address, env=dict(os.environ))
        done = convert(address, tmp_path / "o.zarr", "--offline", ok=(5,))
        assert "offline" in done.stderr and address in done.stderr, done.stderr
        assert not (tmp_path / "o.zarr").exists()
        done = process("info", address.replace("a.nrrd", "other.nrrd"), "--offline", ok=(1, 5), env=dict(os.environ))
        assert "offline" in done.stderr, done.stderr


def test_without_a_cache(web: WebServer, tmp_path: Path) -> None:
    for n in range(2):
        web.forget()
        convert(web.url("a.nrrd"), tmp_path / f"{n}.zarr", "--network-cache", 0)
        asked = [
            tuple(map(int, request.range.removeprefix("bytes=").split("-")))
            for request in web.requests
            if request.range
        ]
        assert len(web.requests) >= 3 and sum(last - first + 1 for first, last in asked) > VALUES.nbytes
    info = process("cache", "info", "--json", env=dict(os.environ)).stdout
    assert '"records": 0' in info or '"records":0' in info


def test_info_and_clear(web: WebServer, tmp_path: Path) -> None:
    import json

    convert(web.url("a.nrrd"), tmp_path / "0.zarr")
    env = dict(os.environ)
    found = json.loads(process("cache", "info", "--json", env=env).stdout)["network"]
    assert found["records"] > 0 and found["bytes"] >= VALUES.nbytes and found["limit_bytes"] == 10 << 30
    assert "network" in process("cache", "info", env=env).stdout
    assert json.loads(process("cache", "clear", "network", "--json", env=env).stdout)["bytes"] >= VALUES.nbytes
    assert json.loads(process("cache", "info", "--json", env=env).stdout)["network"]["records"] == 0
    web.forget()
    convert(web.url("a.nrrd"), tmp_path / "1.zarr")
    assert tree(tmp_path / "0.zarr") == tree(tmp_path / "1.zarr") and web.counts()["a.nrrd"] >= 2


@pytest.mark.parametrize("server", ["http", "farfield"])
def test_a_file_that_was_replaced_has_its_new_bytes(server: str, web: WebServer, tmp_path: Path) -> None:
    with page_server(web.root, tmp_path / "state") as pages:
        address = web.url("a.nrrd") if server == "http" else f"{pages.urls[0]}/a.nrrd"
        for n in range(3):
            values = VALUES + n
            new = web.root / "new"
            new.write_bytes(HEAD + values.tobytes())
            os.replace(new, web.root / "a.nrrd")
            convert(address, tmp_path / f"{n}.zarr", "--levels", 1)
            with farfield.open(tmp_path / f"{n}.zarr") as ds:
                assert np.array_equal(ds[:], values)
