"""`farfield serve --origin ... --cache`: the memory of a machine between clients and a slower place."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield.errors import AccessError, UsageError
from farfield.serving import ServeOptions
from farfield.serving import start as start_server
from farfield.serving.server import parse_cache_disk, parse_names, shown
from remote_servers import Fault, WebServer, eventually, page_server, use, web_server
from running import Command, Json, start

SHAPE = (40, 36, 44)
VALUES = (np.indices(SHAPE).sum(axis=0) * 523 % 65521).astype("<u2")


@pytest.fixture
def root(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ff: Command) -> Path:
    """A folder with a flow and a volume as stores, and a raw volume. Clients keep nothing on their disk."""
    use(monkeypatch, tmp_path, XDG_STATE_HOME=str(tmp_path / "xdg"), FARFIELD_NETWORK_CACHE="0")
    monkeypatch.setenv("FARFIELD_NETWORK_TIMEOUT", "3")
    made = tmp_path / "data"
    made.mkdir()
    shutil.copytree(store, made / "flow.zarr")
    head = b"NRRD0004\ntype: uint16\ndimension: 3\nsizes: 44 36 40\nendian: little\nencoding: raw\n\n"
    (made / "a.nrrd").write_bytes(head + VALUES.tobytes())
    ff("convert", made / "a.nrrd", made / "volume.zarr")
    return made


@pytest.fixture
def web(root: Path) -> Iterator[WebServer]:
    with web_server(root) as made:
        yield made


@contextmanager
def serving(*words: object) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A server as a process, and the addresses that it prints."""
    child = start("serve", *words, "--listen", ":0")
    assert child.stdout is not None
    try:
        first = child.stdout.readline()
        assert first.startswith("serving at"), first
        count = sum(word == "--origin" for word in words) + sum("=" in str(word) for word in words)
        yield child, [child.stdout.readline().split()[0] for _ in range(count)]
    finally:
        child.kill()
        child.communicate(timeout=30)


def reads(web: WebServer) -> int:
    """Requests for bytes. Others look at versions."""
    return sum(request.method == "GET" and request.status in (200, 206) for request in web.requests)


def results(flow: str, volume: str, folder: Path, ff: Command) -> list[bytes]:
    """Lines and a picture."""
    folder.mkdir()
    ff("trace", flow, "--seeds", "random:20:1", "--max-length", "2", "-o", folder / "lines.vtp")
    ff("render", volume, "-o", folder / "picture.png", "--size", "96x64")
    return [(folder / name).read_bytes() for name in ("lines.vtp", "picture.png")]


def test_results_are_those_of_the_files_and_come_from_the_origin_once(
    root: Path, web: WebServer, tmp_path: Path, ff: Command, ff_json: Json
) -> None:
    here = results(str(root / "flow.zarr"), str(root / "volume.zarr"), tmp_path / "here", ff)
    with serving("--origin", web.url("flow.zarr"), f"scan={web.url('volume.zarr')}", "--cache", "64MiB") as (
        child,
        urls,
    ):
        by_name = {url.rsplit("/", 1)[1]: url for url in urls}
        assert set(by_name) == {"flow.zarr", "scan"}
        first = results(by_name["flow.zarr"], by_name["scan"], tmp_path / "first", ff)
        assert first == here
        before = reads(web)
        assert before > 0
        assert results(by_name["flow.zarr"], by_name["scan"], tmp_path / "second", ff) == here
        assert reads(web) == before, "the second run came from memory"
        server = urls[0].rsplit("/", 1)[0]
        status = ff_json("serve", "--status", server)
        assert status["cache"]["limit"] == 64 << 20 and status["cache"]["used"] > 0
        assert status["from_memory"] > status["from_origin"] > 0 and status["origin_failed"] == 0
        assert re.search(r"memory cache: .* of 64\.0 MiB; [\d,]+ reads from it", ff("serve", "--status", server).stdout)
        child.send_signal(signal.SIGTERM)
        assert child.wait(15) == 0


@pytest.mark.parametrize("kind", ["http", "s3", "farfield", "local"])
def test_each_kind_of_origin(
    kind: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ff: Command
) -> None:
    with web_server(root, "bucket" if kind == "s3" else None) as web, page_server(root, tmp_path / "s") as near:
        if kind == "s3":
            for name, value in web.env.items():
                monkeypatch.setenv(name, value)
        address = {"farfield": f"{near.urls[0]}", "local": str(root)}.get(kind, web.url().rstrip("/"))
        words = ("--cache", "32MiB", *(["--cache-local"] if kind == "local" else []))
        with serving(f"all={address}", *words) as (_, (url,)):
            for _ in range(2):
                with farfield.open(f"{url}/a.nrrd") as ds:
                    assert np.array_equal(ds[:], VALUES)
                with farfield.open(f"{url}/volume.zarr") as ds:
                    assert np.array_equal(ds[:], VALUES)
            if kind != "http":
                assert "a.nrrd" in ff("info", f"{url}/*.nrrd").stdout


def test_an_origin_that_fails_is_an_error_and_never_a_fill(
    root: Path, web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ff: Command
) -> None:
    with serving(f"all={web.url().rstrip('/')}", "--cache", "32MiB") as (_, (url,)):
        web.stop()
        done = ff("info", f"{url}/a.nrrd", ok=(5,))
        assert "the origin of 127.0.0.1" in done.stderr, done.stderr
        web.start()
        assert eventually(lambda: ff("info", f"{url}/a.nrrd", ok=(0, 5)).returncode == 0, 20)
        web.fault = lambda _: Fault(status=403)
        done = ff("info", f"{url}/volume.zarr", ok=(5,))
        assert "the origin of 127.0.0.1" in done.stderr, done.stderr


def test_a_folder_outlives_the_server(root: Path, web: WebServer, tmp_path: Path, ff: Command) -> None:
    words = ("--origin", web.url("a.nrrd"), "--cache-disk", f"{tmp_path / 'kept'}:64MiB")
    with serving(*words) as (child, (url,)):
        with farfield.open(url) as ds:
            assert np.array_equal(ds[:], VALUES)
        child.send_signal(signal.SIGTERM)
        child.wait(15)
    before = reads(web)
    assert before > 0 and any((tmp_path / "kept").iterdir())
    with serving(*words) as (_, (url,)), farfield.open(url) as ds:
        assert np.array_equal(ds[:], VALUES)
    assert reads(web) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--origin", "DATA"), "an origin is an address"),
        (("--origin", "ftp://host/a"), "ftp:// addresses are not read"),
        (("--origin", "http://host/"), "cannot be a name"),
        (("--origin", "http://host/a", "a=DATA"), "given twice"),
        (("--origin", "http://host/a", "--cache", "much"), "not an amount of memory"),
        (("--origin", "http://host/a", "--cache-disk", "/tmp"), "a folder and its size"),
        (("d=DATA", "--cache", "1GiB"), "--cache-local"),
        (("d=DATA", "--cache-local"), "give its size"),
        (("d=DATA", "--cache-disk", "/tmp/x:1GiB"), "no address is served"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], said: str, root: Path, ff: Command) -> None:
    done = ff("serve", *(word.replace("DATA", str(root)) for word in words), "--listen", ":0", ok=(2,))
    assert said in done.stderr, done.stderr


def test_secrets_of_addresses_are_not_shown(root: Path, web: WebServer) -> None:
    assert parse_names(["https://me:pw@host/a.nrrd?sig=1"]) == [("a.nrrd", "https://me:pw@host/a.nrrd?sig=1")]
    assert shown("https://me:pw@host/a.nrrd?sig=1") == "https://host/a.nrrd?..."
    assert parse_cache_disk("/a:b:1KiB") == ("/a:b", 1024)
    with pytest.raises(UsageError, match="cannot be a name") as error:
        parse_names(["https://me:pw@host/a b?sig=1"])
    assert "pw" not in str(error.value) and "sig" not in str(error.value)


def test_from_python(root: Path, web: WebServer, tmp_path: Path) -> None:
    options = ServeOptions(
        names=parse_names([web.url("a.nrrd")]), listen="127.0.0.1:0", cache=8 << 20, state=tmp_path / "s"
    )
    with start_server(options) as server, farfield.open(server.urls[0]) as ds:
        assert np.array_equal(ds[:], VALUES)
        found = server.status()
        assert found["cache"]["used"] >= VALUES.nbytes and found["origin_reads"] > 0
        text = server.metrics()
        assert re.search(r"^farfield_cache_used_bytes \d+$", text, re.MULTILINE)
        assert server.take_notice() is None
    nothing = ServeOptions(
        names=parse_names([web.url("a.nrrd")]), listen="127.0.0.1:0", cache_disk=("/proc/none", 1 << 20)
    )
    with pytest.raises((AccessError, UsageError, farfield.FarfieldError), match="/proc/none"):
        start_server(nothing)
