"""Servers that are started over the system's ssh for one run: `ssh://user@host/path`.

*Theory.* The user's keys, jumps and configuration are ssh's. Over its pipe the started server says its port, its
fingerprint and a token. Pages then go directly, over TLS. Where the port is shut, they go through further ssh processes,
which pass bytes between their pipes and the server.

*Practice.* `ensure` starts one server for each host and folder. It ends with this process, whose end closes the pipe.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shlex
import socket
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from farfield import _core
from farfield.errors import AccessError, UsageError
from farfield.sources.addresses import DOCUMENTS

SCHEME = "ssh://"
_START_S = 60.0
"""Time for a login, and for the start of Farfield there."""
_CONNECT_S = 3.0
_CHUNK = 256 << 10


@dataclass(frozen=True)
class Target:
    """A folder at a host."""

    user_host: str
    """As in the URL: [user@]host[:port]."""
    folder: str

    @property
    def name(self) -> str:
        """The URL of the folder."""
        return f"{SCHEME}{self.user_host}{self.folder}"

    def command(self, remote: str) -> list[str]:
        """The ssh process that runs a command there."""
        host, _, port = self.user_host.rpartition(":")
        if not port.isdigit():
            host, port = self.user_host, ""
        options = ["-o", "BatchMode=yes"] if not os.isatty(2) else []
        program = os.environ.get("FARFIELD_SSH", "ssh")
        return [*shlex.split(program), *options, *(["-p", port] if port else []), "-T", "--", host, remote]


def _environment() -> dict[str, str]:
    """The environment of ssh: without this process's own token, which is for other servers."""
    return {name: value for name, value in os.environ.items() if name != "FARFIELD_TOKEN"}


def target_of(url: str) -> Target:
    """The host of a URL, and the folder that the server gives: that of the named file or store.

    >>> target_of("ssh://me@host/scratch/wing.zarr")
    Target(user_host='me@host', folder='/scratch')
    >>> target_of("ssh://host:2222/~/wing.xyz").folder, target_of("ssh://host/a/b.zarr/zarr.json").folder
    ('/~', '/a')

    Raises:
        UsageError: if the URL has no host or no path.
    """
    rest = url.removeprefix(SCHEME)
    host, slash, path = rest.partition("/")
    if not host or not slash or not path.strip("/"):
        raise UsageError(f"{url}: give a host and a path, as in ssh://me@host/data/wing.zarr")
    if host.startswith("-"):
        raise UsageError(f"{url}: '{host}' is not a host")
    named, _, last = path.rstrip("/").rpartition("/")
    # The documents of a store are asked for before the store itself.
    folder = os.path.dirname(f"/{named if last in DOCUMENTS and named else path.rstrip('/')}")
    return Target(host, folder.rstrip("/"))


class Launched:
    """A server at a host, started for this process."""

    def __init__(self, target: Target) -> None:
        self.target = target
        # A shell there expands the command; the folder is quoted, but for a leading ~.
        folder = unquote(target.folder) or "/"
        quoted = f'"$HOME"{shlex.quote(folder[2:])}' if folder.startswith("/~") else shlex.quote(folder)
        farfield = os.environ.get("FARFIELD_SSH_COMMAND", "farfield")
        self._farfield = farfield
        command = target.command(f"{farfield} serve --for-parent files={quoted}")
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
            )
        except OSError as error:
            raise AccessError(f"{target.name}: ssh cannot be started: {error.strerror}; install OpenSSH") from error
        said = self._first_line()
        self.port, self.pin, self._token = int(said["port"]), str(said["fingerprint"]), str(said["token"])
        self.server = self._reachable(said)

    def _first_line(self) -> dict[str, Any]:
        """What the server says at its start."""
        timer = threading.Timer(_START_S, self._process.kill)
        timer.start()
        out = self._process.stdout
        line = out.readline() if out is not None else ""
        timer.cancel()
        try:
            said: dict[str, Any] = json.loads(line)
            if {"port", "fingerprint", "token"} <= said.keys():
                return said
        except ValueError:
            pass
        code = self._process.wait() if not line else None
        self.close()
        advice = {
            255: "ssh could not log in: try it by hand, and set up a key",
            127: f"there is no '{self._farfield}' there: install Farfield, or name its path in FARFIELD_SSH_COMMAND",
        }.get(code if code is not None else -1, "log in by hand and try 'farfield --version'")
        raise AccessError(f"{self.target.name}: no server was started over ssh; {advice}")

    def _reachable(self, said: dict[str, Any]) -> str:
        """Where the server answers: at its own port, else at one of this machine that ssh leads there."""
        host = self._host_name()
        for name in dict.fromkeys([host, *map(str, said.get("addresses") or [])]):
            with contextlib.suppress(OSError), socket.create_connection((name, self.port), timeout=_CONNECT_S):
                return f"[{name}]:{self.port}" if ":" in name else f"{name}:{self.port}"
        return Relay(self.target, f"{self._farfield} serve --relay {self.port}").address

    def _host_name(self) -> str:
        """The name of the host after ssh's configuration."""
        plain = self.target.user_host.rpartition("@")[2].partition(":")[0]
        command = [*self.target.command("")[:-1]]
        command.insert(len(command) - 2, "-G")
        try:
            said = subprocess.run(
                command, capture_output=True, text=True, timeout=10, check=False, env=_environment()
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return plain
        found = [line.split(" ", 1)[1] for line in said.splitlines() if line.startswith("hostname ")]
        return found[0] if found else plain

    def close(self) -> None:
        """Ends the server: its pipe is closed."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)
            return
        self._process.kill()

    def use(self) -> None:
        """Lets URLs of the folder lead to the server."""
        _core.set_server_credentials(self.server, self._token, self.pin)
        _core.set_alias(self.target.name, f"farfield://{self.server}/files")


class Relay:
    """A port of this machine; each connection is passed on by an ssh process of its own."""

    def __init__(self, target: Target, command: str) -> None:
        self._target, self._command = target, command
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="farfield-relay", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass_on, args=(made,), name="farfield-relay", daemon=True).start()

    def _pass_on(self, made: socket.socket) -> None:
        command = self._target.command(self._command)
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=_environment()
        )
        with made, process:
            if process.stdin is None or process.stdout is None:
                return
            there = threading.Thread(target=pump, args=(made.fileno(), process.stdin.fileno()), daemon=True)
            there.start()
            pump(process.stdout.fileno(), made.fileno())
            with contextlib.suppress(OSError):
                made.shutdown(socket.SHUT_RDWR)
            process.kill()


def pump(source: int, sink: int) -> None:
    """Passes bytes from one descriptor to another until the end of either."""
    with contextlib.suppress(OSError):
        while data := os.read(source, _CHUNK):
            view = memoryview(data)
            while view:
                view = view[os.write(sink, view) :]


def relay(port: int) -> None:
    """Passes bytes between this process's pipes and a server of this machine, until either ends."""
    with socket.create_connection(("127.0.0.1", port)) as made:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there = threading.Thread(target=_until_end, args=(made,), daemon=True)
        there.start()
        pump(made.fileno(), 1)


def _until_end(made: socket.socket) -> None:
    pump(0, made.fileno())
    with contextlib.suppress(OSError):
        made.shutdown(socket.SHUT_WR)


_LAUNCHED: dict[Target, Launched] = {}
_LOCK = threading.Lock()


def ensure(paths: Sequence[str]) -> None:
    """Starts the servers of `ssh://` paths that have none yet.

    Raises:
        AccessError: if ssh cannot log in, or Farfield is not there.
    """
    with _LOCK:
        for path in paths:
            if not path.startswith(SCHEME) or _is_led(path):
                continue
            target = target_of(path)
            launched = Launched(target)
            if not _LAUNCHED:
                atexit.register(_close_all)
            _LAUNCHED[target] = launched
            launched.use()


def _is_led(path: str) -> bool:
    return any(path == target.name or path.startswith(f"{target.name}/") for target in _LAUNCHED)


def _close_all() -> None:
    for launched in _LAUNCHED.values():
        launched.close()
