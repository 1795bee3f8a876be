"""`ssh://` through an ssh that runs its command on this machine."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield.errors import AccessError, DataError, UsageError
from farfield.serving import ssh
from plot3d_files import box, cut, source_of, write
from remote_servers import eventually, use
from running import Command, process, start

FAKE = """#!/bin/sh
# Options, the host, and a command, which a shell runs as sshd lets one do it.
echo "$@" >> "{log}"
while [ $# -gt 0 ]; do
    case "$1" in
        -o|-p|-l|-i) shift 2 ;;
        -G) echo "user me"; echo "hostname 127.0.0.1"; exit 0 ;;
        --) shift; break ;;
        -*) shift ;;
        *) break ;;
    esac
done
shift
exec sh -c "$*"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A flow, in folders of plain and of odd names."""
    made = tmp_path_factory.mktemp("there")
    write(made, cut(box(25, 15, 13), 2), stem="f")
    farfield.convert(source_of(made / "f.xyz", made / "f.q"), made / "f.zarr", page=8, progress=False)
    odd = made / 'it\'s a "deep" one $HOME'
    odd.mkdir()
    (odd / "f.xyz").write_bytes((made / "f.xyz").read_bytes())
    return made


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The fake in place of ssh, for servers that end with the test; what it was called with."""
    made, script = tmp_path / "ssh.log", tmp_path / "ssh"
    script.write_text(FAKE.format(log=made))
    script.chmod(0o755)
    use(
        monkeypatch,
        tmp_path,
        FARFIELD_SSH=str(script),
        FARFIELD_SSH_COMMAND=f"{shlex.quote(sys.executable)} -m farfield",
        FARFIELD_NETWORK_CACHE="0",
    )
    launched: dict[ssh.Target, ssh.Launched] = {}
    monkeypatch.setattr(ssh, "_LAUNCHED", launched)
    yield made
    for server in launched.values():
        server.close()


def numbers(source: str) -> list[bytes]:
    with farfield.open(source) as ds:
        lines = ds.streamlines(
            "velocity", seeds=farfield.rake((0.4, 0.4, 0.4), (0.6, 0.5, 0.5), n_points=4), max_steps=300
        )
        density = [ds.zones[z]["density"][:] for z in ds.zones]
    return [lines.points.tobytes(), lines.offsets.tobytes(), *(np.ascontiguousarray(d).tobytes() for d in density)]


def is_serving(root: Path) -> bool:
    """Whether a process of this machine serves the folder."""
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if b"--for-parent" in line and str(root).encode() in line:
            return True
    return False


def test_the_same_bits_and_the_server_ends(root: Path, log: Path) -> None:
    here = numbers(str(root / "f.zarr"))
    for n in range(2):
        assert numbers(f"ssh://me@there:2222{root}/f.zarr") == here, n
    assert numbers(f"ssh://me@there:2222{root}/f.xyz+q=ssh://me@there:2222{root}/*.q") == numbers(
        source_of(root / "f.xyz", root / "f.q")
    )
    started = [line for line in log.read_text().splitlines() if "--for-parent" in line]
    assert len(started) == 1 and "-p 2222" in started[0] and "me@there" in started[0] and is_serving(root)
    (server,) = ssh._LAUNCHED.values()
    server.close()
    assert eventually(lambda: not is_serving(root))


def test_tokens_are_where_no_other_process_sees_them(
    root: Path, log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In no argument and no environment of any process of this machine but, as the user set it, this one's."""
    mine = "7e57" * 16
    monkeypatch.setenv("FARFIELD_TOKEN", mine)
    with farfield.open(f"ssh://me@there{root}/f.zarr") as ds:
        assert ds.zones
    (server,) = ssh._LAUNCHED.values()
    secrets = {server._token.encode(), mine.encode()}
    looked = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in (os.getpid(), os.getppid()):
            continue
        try:
            seen = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        looked += b"--for-parent" in seen
        assert not any(secret in seen for secret in secrets), entry
    assert looked and not any(secret in log.read_bytes() for secret in secrets)
    # Nor in what the server keeps, or what either end says.
    kept = [path for path in Path(tempfile.gettempdir()).glob("farfield-serve-*/*") if path.is_file()]
    assert kept and not any(secret in path.read_bytes() for path in kept for secret in secrets)
    with pytest.raises(DataError) as failed:
        farfield.open(f"ssh://me@there{root}/none.zarr")
    assert server._token not in str(failed.value) + repr(server) + repr(failed.value)


def test_the_command_line(root: Path, log: Path, tmp_path: Path) -> None:
    """In a process of its own, with which the server ends."""
    source, env = f"ssh://there{root}/f.zarr", dict(os.environ)
    here = process("info", root / "f.zarr", "--json", env=env).stdout
    assert process("info", source, "--json", env=env).stdout.replace("ssh://there", "") == here
    lines = ("--seeds", "random:20:1", "--max-steps", 200)
    for at, name in ((str(root / "f.zarr"), "here"), (source, "there")):
        process("trace", at, *lines, "-o", tmp_path / f"{name}.npz", env=env)
    one, other = (np.load(tmp_path / f"{name}.npz") for name in ("here", "there"))
    assert all(np.array_equal(one[key], other[key]) for key in ("points", "offsets"))
    assert eventually(lambda: not is_serving(root))
    child = start("trace", source, "--seeds", "random:20000:1", "--max-steps", 100000, "-o", tmp_path / "x.npz")
    assert eventually(lambda: is_serving(root), 30)
    child.kill()
    child.communicate(timeout=30)
    assert eventually(lambda: not is_serving(root))


def test_a_port_that_is_shut(root: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(address: object, **_: object) -> object:
        raise ConnectionRefusedError(111, "Connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(ssh.socket, "create_connection", refused)
        found = ssh.Launched(ssh.target_of(f"ssh://shut{root}/f.zarr"))
    assert found.server.startswith("127.0.0.1:") and not found.server.endswith(f":{found.port}")
    ssh._LAUNCHED[found.target] = found
    found.use()
    assert numbers(f"ssh://shut{root}/f.zarr") == numbers(str(root / "f.zarr"))
    assert f"serve --relay {found.port}" in log.read_text()


def test_odd_paths(root: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = next(path for path in root.iterdir() if path.is_dir() and "deep" in path.name)
    with farfield.open(f"ssh://odd{odd}/f.xyz") as ds:
        assert len(ds.zones) == 2
    monkeypatch.setenv("HOME", str(root))
    assert numbers("ssh://home/~/f.zarr") == numbers(str(root / "f.zarr"))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 255", "could not log in.*set up a key"),
        ("exit 127", "install Farfield, or name its path in FARFIELD_SSH_COMMAND"),
        ("echo Welcome to this machine", "try 'farfield --version'"),
        ("exit 3", "try 'farfield --version'"),
    ],
)
def test_what_fails(
    script: str, words: str, root: Path, log: Path, ff: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = log.with_name("broken")
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("FARFIELD_SSH", str(fake))
    with pytest.raises(AccessError, match=words):
        farfield.open(f"ssh://broken{root}/f.zarr")
    done = ff("info", f"ssh://broken{root}/f.zarr", ok=(5,))
    assert re.search(words, done.stderr) and "ssh://broken" in done.stderr


def test_ssh_itself_is_missing(root: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARFIELD_SSH", str(log.with_name("nowhere")))
    with pytest.raises(AccessError, match="ssh cannot be started: No such file or directory; install OpenSSH"):
        farfield.open(f"ssh://none{root}/f.zarr")
    for address in ("ssh://host", "ssh:///a/b", "ssh://-oProxyCommand=x/a/b"):
        with pytest.raises(UsageError):
            ssh.target_of(address)
