"""`farfield serve`: what it prints, refuses and gives, as a process and from Python."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield import _core
from farfield.errors import AccessError, DataError, UsageError
from farfield.serving import ServeOptions, tokens
from farfield.serving import start as start_server
from farfield.serving.metrics import serve_metrics
from remote_servers import eventually, free_port, use
from running import Command, Json, process, start

VALUES = np.arange(24 * 20 * 16, dtype="<u2").reshape(24, 20, 16)
HEAD = b"NRRD0004\ntype: uint16\ndimension: 3\nsizes: 16 20 24\nendian: little\nencoding: raw\n\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, tmp_path, XDG_STATE_HOME=str(tmp_path / "xdg"))
    made = tmp_path / "data"
    made.mkdir()
    (made / "a.nrrd").write_bytes(HEAD + VALUES.tobytes())
    return made


@pytest.fixture
def running(root: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A server as a process, and the lines that it prints first."""
    metrics = f"127.0.0.1:{free_port()}"
    words = (
        "serve",
        f"data={root}",
        root / "a.nrrd",
        "--listen",
        ":0",
        "--metrics",
        metrics,
        "--state",
        tmp_path / "s",
    )
    child = start(*words)
    assert child.stdout is not None
    try:
        yield child, [child.stdout.readline() for _ in range(3)] + [metrics]
    finally:
        child.kill()
        child.communicate(timeout=30)


def test_a_process(running: tuple[subprocess.Popen[str], list[str]], root: Path, ff: Command, ff_json: Json) -> None:
    child, (first, folder, file, metrics) = running
    assert re.fullmatch(r"serving at 127\.0\.0\.1:\d+, until Ctrl-C:\n", first)
    urls = [line.split()[0] for line in (folder, file)]
    assert folder.split()[1] == str(root) and [url.rsplit("/", 1)[1] for url in urls] == ["data", "a.nrrd"]
    for url in (f"{urls[0]}/a.nrrd", urls[1]):
        with farfield.open(url) as ds:
            assert np.array_equal(ds[:], VALUES)
    server = urls[0].rsplit("/", 1)[0]
    status = ff_json("serve", "--status", server)
    assert status["connections"] >= 1 and not status["tls"]
    assert re.search(r"up \d+ s, \d+ connections.*no TLS", ff("serve", "--status", server).stdout)
    with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert re.search(r"^# TYPE farfield_\w+ \w+$", text, re.MULTILINE) and re.search(
        r"^farfield_\w+.* \d", text, re.MULTILINE
    )
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{metrics}/other", timeout=10)
    child.send_signal(signal.SIGTERM)
    _, err = child.communicate(timeout=15)
    assert child.returncode == 0 and "stopping" in err and "Traceback" not in err, err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "give what is to be served"),
        (("data=DATA", "--listen", "0.0.0.0:0"), 2, "token"),
        (("data=DATA", "--listen", "0.0.0.0:0", "--no-tls"), 2, "TLS"),
        (("data=DATA", "--listen", "here:there"), 2, "not an address"),
        (("data=DATA", "--listen", ":70000"), 2, "at most 65535"),
        (("a b=DATA",), 2, "cannot be a name"),
        (("..=DATA",), 2, "cannot be a name"),
        (("data=DATA", "data=DATA"), 2, "given twice"),
        (("data=DATA/none",), 1, "there is no such file"),
        (("data=DATA", "--rate", "fast"), 2, "not a rate"),
        (("data=DATA", "--rate-per-client", "0MB"), 2, "not a rate"),
        (("data=DATA", "--listen", ":0", "--metrics", "0.0.0.0:0"), 2, "this machine alone"),
        (("data=DATA", "--certificate", "DATA/a.nrrd"), 2, "belong together"),
        (("--revoke", "nobody"), 2, "no token named 'nobody'"),
        (("--new-token", "a b"), 2, "letters, digits"),
        (("--status", "farfield://127.0.0.1:PORT"), 5, "127.0.0.1"),
    ],
)
def test_what_is_refused(words: tuple[str, ...], code: int, said: str, root: Path, ff: Command) -> None:
    port = str(free_port())
    done = ff("serve", *(word.replace("DATA", str(root)).replace("PORT", port) for word in words), ok=(code,))
    assert said in done.stderr, done.stderr


def test_tokens(root: Path, tmp_path: Path, ff: Command, ff_json: Json) -> None:
    state = tmp_path / "state"
    made = ff_json("serve", "--new-token", "anna", "--state", state)
    assert re.fullmatch("[0-9a-f]{64}", made["token"]) and made["name"] == "anna"
    assert "shown once" in ff("serve", "--new-token", "ben", "--state", state).stdout
    assert "there is a token named 'anna'" in ff("serve", "--new-token", "anna", "--state", state, ok=(2,)).stderr
    file = state / "tokens"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(state.stat().st_mode) == 0o700
    text = file.read_text()
    assert made["token"] not in text and [line.split()[0] for line in text.splitlines()] == ["anna", "ben"]
    ff("serve", "--revoke", "anna", "--state", state)
    assert [name for name, _ in tokens.listed(state)] == ["ben"]
    file.chmod(0o644)
    assert "chmod 600" in ff("serve", f"d={root}", "--listen", ":0", "--state", state, ok=(5,)).stderr
    file.chmod(0o600)
    file.write_text("ben short\n")
    with pytest.raises(DataError, match="line 1"):
        tokens.listed(state)


@pytest.mark.parametrize("others", [("ben",), ()])
def test_a_token_is_void_soon_after_it_is_revoked(
    others: tuple[str, ...], root: Path, tmp_path: Path, ff: Command, ff_json: Json
) -> None:
    """The last one, too: without tokens nobody is let in, as long as there ever was one."""
    state = tmp_path / "state"
    for other in others:
        ff("serve", "--new-token", other, "--state", state)
    secret = ff_json("serve", "--new-token", "anna", "--state", state)["token"]
    child = start("serve", f"data={root}", "--listen", ":0", "--tls", "--state", state)
    try:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(3)]
        url, pin = f"{lines[1].split()[0]}/a.nrrd", lines[2].strip().partition("FARFIELD_SERVER_PIN=")[2]
        server = url.split("/")[2]
        _core.set_server_credentials(server, secret, pin)
        with farfield.open(url) as ds:
            assert np.array_equal(ds[:], VALUES)
        ff("serve", "--revoke", "anna", "--state", state)

        def refused() -> bool:
            try:
                farfield.open(url).close()
            except AccessError as error:
                assert "token" in str(error) and secret not in str(error)
                return True
            return False

        assert eventually(refused, 6)
        # A new connection has no better fortune, whatever it shows.
        for shown in (secret, "1" * 64, ""):
            env = {**os.environ, "FARFIELD_TOKEN": shown, "FARFIELD_SERVER_PIN": pin}
            assert "token" in process("info", url, env=env, ok=(5,)).stderr
    finally:
        child.terminate()
        _, err = child.communicate(timeout=15)
    assert child.returncode == 0 and "tokens have changed" in err, err


@pytest.mark.parametrize(
    ("token", "pin", "said"),
    [
        ("0" * 64, None, "token"),
        ("", None, "FARFIELD_TOKEN"),
        (None, "0" * 64, "certificate|fingerprint"),
        (None, "", "if it serves by TLS, set FARFIELD_SERVER_PIN"),
        ("short", None, "64 hexadecimal digits"),
        (None, "short", "64 hexadecimal digits"),
    ],
)
def test_wrong_credentials(
    token: str | None, pin: str | None, said: str, root: Path, tmp_path: Path, ff: Command
) -> None:
    state = tmp_path / "state"
    right = tokens.add(state, "anna")
    with start_server(ServeOptions(names=[("data", str(root))], listen="127.0.0.1:0", tls=True, state=state)) as server:
        env = {
            "FARFIELD_TOKEN": right if token is None else token,
            "FARFIELD_SERVER_PIN": str(server.fingerprint) if pin is None else pin,
        }
        done = ff("info", f"{server.urls[0]}/a.nrrd", env=env, ok=(2, 5) if "64" in said else (5,))
    assert re.search(said, done.stderr) and right not in done.stderr, done.stderr


def test_names_outside_are_not_served(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.nrrd"
    outside.write_bytes((root / "a.nrrd").read_bytes())
    os.symlink(outside, root / "link.nrrd")
    os.symlink(tmp_path, root / "up")
    with start_server(ServeOptions(names=[("data", str(root))], listen="127.0.0.1:0", state=tmp_path / "s")) as server:
        url, base = server.urls[0], server.urls[0].rsplit("/", 1)[0]
        native = __import__("farfield._native", fromlist=["stat_files"])
        assert native.stat_files([f"{url}/a.nrrd"])[0] is not None
        for name in (
            f"{url}/../outside.nrrd",
            f"{url}/up/outside.nrrd",
            f"{url}/link.nrrd",
            f"{url}/{outside}",
            f"{url}//etc/passwd",
            f"{base}/{outside}",
            f"{base}/other/a.nrrd",
            f"{url}/./../../etc/passwd",
        ):
            try:
                (found,) = native.stat_files([name])
            except (AccessError, DataError):
                continue
            assert found is None, name
            with pytest.raises((AccessError, DataError)):
                native.FileReader(name)


def test_metrics_are_for_this_machine(tmp_path: Path) -> None:
    for listen in ("0.0.0.0:0", "[::]:0", "10.0.0.1:1"):
        with pytest.raises(UsageError, match="this machine alone"):
            serve_metrics(listen, lambda: "")


def test_status_as_json_is_complete(root: Path, tmp_path: Path) -> None:
    with start_server(ServeOptions(names=[("data", str(root))], listen="127.0.0.1:0", state=tmp_path / "s")) as server:
        farfield.open(f"{server.urls[0]}/a.nrrd").close()
        found = server.status()
        assert {"seconds", "connections", "clients", "tls"} <= found.keys() and json.dumps(found)
        assert "farfield_" in server.metrics()


def test_a_page_of_a_shard_comes_with_its_index(store: Path, tmp_path: Path, ff: Command) -> None:
    """One round trip for the first value of a shard, in a store of a flow and in one of a volume."""
    (tmp_path / "a.nrrd").write_bytes(HEAD + VALUES.tobytes())
    ff("convert", tmp_path / "a.nrrd", tmp_path / "volume.zarr")
    names = [("flow", str(store)), ("volume", str(tmp_path / "volume.zarr"))]
    with start_server(ServeOptions(names=names, listen="127.0.0.1:0")) as server:
        for url, (name, path) in zip(server.urls, names, strict=True):
            with farfield.open(path) as local, farfield.open(url) as far:
                words = [(1, 1, 1)] if name == "volume" else [next(iter(local.zones)), (1, 1, 1)]
                asked = server.status()["requests"]
                assert far.probe_ijk(*words) == local.probe_ijk(*words)
                now = server.status()["requests"]
                assert now.get("via", 0) > asked.get("via", 0), name
                assert now.get("read", 0) == asked.get("read", 0), name
