"""Servers in trouble: each fault has its exit code and a message that names the server; no fill is taken for an error."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import farfield
from farfield.errors import AccessError, DataError
from remote_servers import Fault, Request, WebServer, free_port, page_server, use, web_server
from running import Command, start

DEADLINE_S = 1.0
"""Of these tests, in place of a minute."""
VALUES = np.random.default_rng(1).integers(1, 60000, (48, 48, 48)).astype("<u2")
FILL = 7
HEAD = b"NRRD0004\ntype: uint16\ndimension: 3\nsizes: 48 48 48\nendian: little\nencoding: raw\n\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A volume, a store of Farfield, a foreign one."""
    made = tmp_path_factory.mktemp("faults")
    (made / "a.nrrd").write_bytes(HEAD + VALUES.tobytes())
    foreign = zarr.create_array(
        made / "foreign.zarr", shape=VALUES.shape, chunks=(16,) * 3, dtype="u2", fill_value=FILL
    )
    foreign[:] = VALUES
    farfield.convert(str(made / "a.nrrd"), made / "own.zarr", progress=False, levels=1)
    return made


@pytest.fixture
def web(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_TIMEOUT=str(DEADLINE_S), FARFIELD_NETWORK_CACHE="0")
    with web_server(root) as made:
        yield made


def in_data(fault: Fault) -> Callable[[Request], Fault | None]:
    """A fault of requests for numbers: chunks, and a file behind its head."""

    def of(asked: Request) -> Fault | None:
        behind = asked.path.endswith(".nrrd") and asked.range is not None and not asked.range.startswith("bytes=0-")
        return fault if behind or re.search(r"/c[./]", asked.path) else None

    return of


FAULTS: dict[str, tuple[Fault, int, str]] = {
    "401": (Fault(401), 5, "401 Unauthorized.*check the address"),
    "403": (Fault(403), 5, "403 Forbidden.*check the address"),
    "408": (Fault(408), 5, "408 Request Timeout.*(once|times) in"),
    "416": (Fault(416), 5, "416|has no bytes from"),
    "502": (Fault(502), 5, "502 Bad Gateway.*(once|times) in"),
    "504": (Fault(504), 5, "504 Gateway Timeout.*(once|times) in"),
    "loop": (Fault(302, {"Location": "?again"}), 5, "redirect"),
    "429": (Fault(429, {"Retry-After": "1"}), 5, "429 Too Many Requests.*(once|times) in"),
    "500": (Fault(500), 5, "500 Internal Server Error.*(once|times) in"),
    "503": (Fault(503), 5, "503 Service Unavailable.*(once|times) in"),
    "400": (Fault(400), 5, "wrong answer.*400 Bad Request"),
    "whole": (Fault(whole=True), 5, "gave the whole file.*put the data on a server that does"),
    "range": (Fault(headers={"Content-Range": "bytes 0-1/9"}), 5, "was asked for.*and gave bytes 0-1/9"),
    "cut": (Fault(sent=0), 5, "(once|times) in"),
    "stall": (Fault(stall=True), 5, "did not answer in time"),
}


@pytest.mark.parametrize("phase", ["open", "read"])
@pytest.mark.parametrize("kind", FAULTS)
def test_faults(kind: str, phase: str, web: WebServer, ff: Command, tmp_path: Path) -> None:
    fault, code, words = FAULTS[kind]
    web.fault = (lambda _: fault) if phase == "open" else in_data(fault)
    begun = time.monotonic()
    target = tmp_path / "out.zarr"
    done = ff("convert", web.url("a.nrrd"), target, ok=(code,))
    assert time.monotonic() - begun < 2 * DEADLINE_S + 3
    assert web.server in done.stderr and re.search(words, done.stderr), done.stderr
    assert not target.exists() and len(web.requests) < 40


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_of_chunks_are_no_fill(kind: str, web: WebServer) -> None:
    if kind == "range":
        pytest.skip("whole chunks are asked for")
    web.fault = in_data(FAULTS[kind][0])
    for name in ("foreign.zarr", "own.zarr"):
        if kind == "whole" and name == "foreign.zarr":
            continue
        with pytest.raises((AccessError, DataError)), farfield.open(web.url(name)) as ds:
            ds[20, 20, 20:22]
    # Each read follows ten redirections.
    assert max(web.counts().values()) < (100 if kind == "loop" else 40)


def test_what_is_not_there(web: WebServer, ff: Command) -> None:
    done = ff("info", web.url("none.nrrd"), ok=(1,))
    assert "the server has no such file" in done.stderr and web.url("none.nrrd") in done.stderr


def test_cut_replies_are_put_together(web: WebServer) -> None:
    web.fault = in_data(Fault(sent=30_000))
    with farfield.open(web.url("a.nrrd")) as ds:
        assert np.array_equal(ds[:], VALUES)


def test_a_server_that_fails_now_and_then(web: WebServer) -> None:
    count = 0

    def fault(_: Request) -> Fault | None:
        nonlocal count
        count += 1
        return Fault(503) if count % 3 == 0 else None

    web.fault = fault
    for name in ("a.nrrd", "own.zarr/0"):
        with farfield.open(web.url(name)) as ds:
            assert np.array_equal(ds[:], VALUES)


def test_chunks_that_are_not_there(web: WebServer) -> None:
    """Fill in a foreign store, as its format says; an error in Farfield's own."""
    gone = ""

    def fault(asked: Request) -> Fault | None:
        return Fault(404) if asked.path.endswith(gone) and gone else None

    web.fault = fault
    gone = "c/1/1/1"
    with farfield.open(web.url("foreign.zarr")) as ds:
        found = ds[:]
    wanted = VALUES.copy()
    wanted[16:32, 16:32, 16:32] = FILL
    assert np.array_equal(found, wanted)
    shard = next(path for path in (web.root / "own.zarr").rglob("c*") if path.is_file() and "/0/" in str(path))
    gone = str(shard.relative_to(web.root))
    with pytest.raises(DataError, match=shard.name), farfield.open(web.url("own.zarr")) as ds:
        ds[:]


@pytest.mark.parametrize("server", ["http", "farfield"])
def test_a_file_that_is_replaced_while_it_is_open(server: str, web: WebServer, root: Path, tmp_path: Path) -> None:
    file = root / f"replaced-{server}.nrrd"
    # More than the first read brings, and than the limit holds.
    values, head = np.tile(VALUES, (4, 4, 4)), HEAD.replace(b"48 48 48", b"192 192 192")
    file.write_bytes(head + values.tobytes())
    with page_server(root, tmp_path / "state") as pages:
        address = web.url(file) if server == "http" else f"{pages.urls[0]}/{file.name}"
        with farfield.open(address, memory_limit="8MiB") as ds:
            first = ds[0:2]
            assert np.array_equal(first, values[0:2])
            new = file.with_suffix(".new")
            new.write_bytes(head + (values[::-1] + 1).tobytes() + b"more")
            os.replace(new, file)
            with pytest.raises(
                DataError, match=r"changed while it was read: it was .* and is .*; open the dataset again"
            ):
                for n in range(0, 192, 16):
                    assert np.array_equal(ds[n : n + 16], values[n : n + 16])
        with farfield.open(address) as ds:
            assert np.array_equal(ds[:], values[::-1] + 1)
    file.unlink()


def test_a_server_that_comes_back_within_the_deadline(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_NETWORK_TIMEOUT", "20")
    with farfield.open(web.url("a.nrrd")) as ds:
        ds.probe_ijk((0, 0, 0))
        web.stop()
        timer = threading.Timer(1.0, web.start)
        timer.start()
        assert np.array_equal(ds[:], VALUES)
        timer.join()


def test_a_server_that_is_gone_for_good(web: WebServer, ff: Command, tmp_path: Path) -> None:
    with farfield.open(web.url("a.nrrd")) as ds:
        ds.probe_ijk((0, 0, 0))
        web.stop()
        begun = time.monotonic()
        with pytest.raises(AccessError, match=web.server):
            ds[:]
        assert time.monotonic() - begun < DEADLINE_S + 1
        # Failures of a server are forgotten, so an open dataset goes on.
        web.start()
        time.sleep(5.2)
        assert np.array_equal(ds[:], VALUES)


@pytest.mark.parametrize("scheme", ["http", "farfield", "s3"])
def test_nothing_listens(scheme: str, web: WebServer, ff: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_NETWORK_TIMEOUT", "60")
    port = free_port()
    for name, value in web.env.items():
        monkeypatch.setenv(name, value.replace(str(web.port), str(port)))
    address = "s3://bucket/a.nrrd" if scheme == "s3" else f"{scheme}://127.0.0.1:{port}/a.nrrd"
    begun = time.monotonic()
    done = ff("info", address, ok=(5,))
    assert time.monotonic() - begun < 6
    said = {
        "http": f"127.0.0.1:{port} .*refused",
        "farfield": f"nothing listens on port {port}",
        "s3": "s3://bucket .*refused",
    }
    assert re.search(said[scheme], done.stderr), done.stderr


@pytest.mark.parametrize("phase", ["open", "read"])
def test_ctrl_c_while_a_server_stands_still(phase: str, web: WebServer, tmp_path: Path) -> None:
    held = threading.Event()

    def fault(asked: Request) -> Fault | None:
        found = Fault(stall=True) if phase == "open" else in_data(Fault(stall=True))(asked)
        if found is not None:
            held.set()
        return found

    web.fault = fault
    env = {**os.environ, "FARFIELD_NETWORK_TIMEOUT": "60"}
    child = start("convert", web.url("a.nrrd"), tmp_path / "out.zarr", env=env)
    assert held.wait(30)
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    sent = time.monotonic()
    _, err = child.communicate(timeout=60)
    assert child.returncode == 130 and time.monotonic() - sent < 2, err
    assert err.startswith("farfield: interrupted"), err


@pytest.mark.parametrize("code", [None, 403, 500])
def test_secrets_are_in_no_message(
    code: int | None, web: WebServer, ff: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARFIELD_TOKEN", "5ec2e7" + "ab" * 29)
    for name, value in {
        **web.env,
        "AWS_SECRET_ACCESS_KEY": "topsecret5ec2e7",
        "AWS_SESSION_TOKEN": "sess5ec2e7",
    }.items():
        monkeypatch.setenv(name, value)
    web.fault = lambda asked: None if code is None else Fault(code)
    with web_server(web.root, "bucket") as bucket, page_server(web.root, tmp_path / "state") as pages:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{bucket.server}")
        bucket.fault = web.fault
        said = ""
        plain = web.url("a.nrrd")
        for address in (
            f"{plain}?signature=5ec2e7",
            plain.replace("://", "://me:pw5ec2e7@"),
            "s3://bucket/a.nrrd",
            f"{pages.urls[0]}/a.nrrd",
        ):
            events = tmp_path / "events.json"
            # Ranges are read once, and a server that fails is waited for: one command for each of these.
            for words in (("info", "--ranges", "--json"), ("probe", 1, 1, 1, "--ijk")):
                done = ff(words[0], address, *words[1:], "--events", events, ok=(0, 1, 5))
                said += (
                    done.stdout.replace(address, "ADDRESS")
                    + done.stderr
                    + (events.read_text() if events.exists() else "")
                )
        signed = [r for r in bucket.requests if r.authorization]
        assert signed, "the bucket's requests carry no signature"
    assert "5ec2e7" not in said, re.findall(".{60}5ec2e7.{20}", said)
