"""Servers and lines of the remote experiments: page servers, nginx, and two network namespaces with a line between them.

>>> Line("10 ms, 100 Mbit", rtt_ms=10, rate_mbit=100).bytes_per_s
12500000.0
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield.errors import DataError
from farfield_bench import arms
from farfield_bench.result import Recorder
from farfield_bench.rights import Right

SOURCE = Path(__file__).with_name("line.c")
SERVER, LOOPBACK = "10.78.0.2", "127.0.0.1"
PORT, TLS_PORT, WEB_PORT, PROTECTED_PORT, MEMORY_PORT = 7207, 7208, 8080, 7209, 7210
PATIENCE_S = 20.0
"""Longest time for a server to listen."""
_SPACES = Path("/var/run/netns")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Line:
    """A line, as its program takes it."""

    name: str
    rtt_ms: float
    rate_mbit: float = 0.0
    """0: no bound."""
    loss: float = 0.0
    """Share of packets."""
    queue_kib: int = 1024
    """Bytes that wait at its beginning at most."""

    @property
    def bytes_per_s(self) -> float:
        """The rate in bytes a second."""
        return self.rate_mbit * 1e6 / 8


def namespaces() -> Right:
    """Whether network namespaces and TUN devices can be made."""
    what = "network namespaces and TUN devices"
    for tool in ("ip", "cc"):
        if shutil.which(tool) is None:
            return Right(what, False, f"there is no {tool}")
    if os.geteuid() != 0:
        return Right(what, False, "they need root")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return Right(what, False, "there is no /dev/net/tun")
    name = f"farfield-{os.getpid()}-probe"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return Right(what, False, done.stderr.strip())
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
    return Right(what, True)


def web_server() -> Right:
    """Whether nginx is here."""
    return Right("nginx", shutil.which("nginx") is not None, "" if shutil.which("nginx") else "install nginx-light")


def note_load(recorder: Recorder) -> None:
    """Notes if the machine has other work, which takes part of the cores that client and server share."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load > 0.5:
        recorder.note(
            f"At the start the machine's load was {load:.1f} on {cores} cores: rates are lower than without other work."
        )


@dataclass
class Network:
    """Two ends, and what runs at the server's."""

    client: str | None
    """Namespace of the clients; None: that of this process."""
    server: str | None
    host: str
    device: str
    folder: Path
    """For certificates, tokens and settings."""
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    line: subprocess.Popen[bytes] | None = None
    """What carries the packets between the ends."""

    def at_client(
        self, command: Sequence[str | os.PathLike[str]], environment: dict[str, str] | None = None
    ) -> list[str]:
        """A command that runs at the client's end."""
        words = [os.fspath(word) for word in command]
        set_ = ["env", *(f"{k}={v}" for k, v in environment.items())] if environment else []
        return [*_within(self.client), *set_, *words]

    def bytes_passed(self) -> int:
        """Bytes that have passed the client's device, both ways. On a loopback device each is counted once."""
        text = subprocess.run(
            [*_within(self.client), "cat", "/proc/net/dev"], capture_output=True, text=True, check=True
        )
        for row in text.stdout.splitlines():
            name, _, rest = row.partition(":")
            if name.strip() == self.device:
                counts = rest.split()
                return int(counts[0]) + (int(counts[8]) if self.device != "lo" else 0)
        return 0

    def start(self, command: Sequence[str], port: int, what: str) -> subprocess.Popen[bytes]:
        """Starts a server, and waits until it listens."""
        log = (self.folder / f"{what}.log").open("wb")
        child = subprocess.Popen(
            [*_within(self.server), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=_end_with_parent,
        )
        log.close()
        self.running.append(child)
        probe = f"import socket; socket.create_connection(({self.host!r}, {port}), 1).close()"
        until = time.monotonic() + PATIENCE_S
        while child.poll() is None and time.monotonic() < until:
            if (
                subprocess.run(
                    [*_within(self.client), sys.executable, "-S", "-c", probe], capture_output=True
                ).returncode
                == 0
            ):
                return child
            time.sleep(0.05)
        said = (self.folder / f"{what}.log").read_text(errors="replace").strip().splitlines()[-3:]
        raise DataError(f"{what} does not listen: {' '.join(said)}")

    def stop(self) -> None:
        """Ends all servers."""
        for child in self.running:
            child.terminate()
        for child in self.running:
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.running.clear()


@dataclass(frozen=True)
class Served:
    """A folder at a server."""

    scheme: str
    url: str
    """Address of the folder, without a slash at its end."""
    pid: int
    environment: dict[str, str] = field(default_factory=dict)
    """What a client needs to know."""
    state: Path = Path()
    """The folder of a page server's tokens and certificate."""

    @property
    def cpu_s(self) -> float:
        """Processor time of the server until now."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_S


def page_server(network: Network, folder: Path, *, tls: bool = False, like: Served | None = None) -> Served:
    """`farfield serve` of a folder. Beyond this machine a server without TLS takes clients only from its own machine, so
    there it is reached over TLS. It has the token and the certificate of the server that it is `like`.
    """
    port = TLS_PORT if tls else PORT
    state = network.folder / "state" if like is None else like.state
    words = ["serve", f"data={folder.resolve()}", "--listen", f"{network.host}:{port}", "--json", "-q"]
    environment: dict[str, str] = {}
    if tls:
        if like is None:
            made = arms.run(arms.farfield("serve", "--new-token", "bench", "--state", state, "--json")).json()
            environment["FARFIELD_TOKEN"] = made["token"]
        else:
            environment |= like.environment
        words += ["--tls", "--state", str(state)]
    else:
        words += ["--no-tls"]
    child = network.start(arms.farfield(*words), port, f"page-server-{port}")
    said = _document(child)
    if tls:
        environment["FARFIELD_SERVER_PIN"] = said["fingerprint"]
    return Served("farfield", f"farfield://{network.host}:{port}/data", child.pid, environment, state)


def together(servers: Sequence[Served]) -> str:
    """The address of a folder at several page servers.

    >>> together([Served("farfield", f"farfield://{host}:1/data", 0) for host in "ab"])
    'farfield://a:1,b:1/data'
    """
    hosts = ",".join(server.url.split("/")[2] for server in servers)
    return f"farfield://{hosts}/data"


def network_memory(network: Network, origin: str, cache: int, *, local: bool = False) -> Served:
    """`farfield serve` with memory of its own before an origin: an address, or with `local` a folder."""
    words = ["serve", f"data={origin}", "--listen", f"{network.host}:{MEMORY_PORT}", "--json", "-q", "--no-tls"]
    words += ["--cache", str(cache), *(["--cache-local"] if local else [])]
    child = network.start(arms.farfield(*words), MEMORY_PORT, "network-memory")
    _document(child)
    return Served("farfield", f"farfield://{network.host}:{MEMORY_PORT}/data", child.pid)


def server_status(network: Network, served: Served) -> dict[str, Any]:
    """What a page server says of itself."""
    command = arms.farfield("serve", "--status", served.url.rpartition("/")[0], "--json")
    found: dict[str, Any] = arms.run(network.at_client(command, served.environment)).json()
    return found


def nginx(network: Network, folder: Path) -> Served:
    """One nginx worker over a folder, with files sent by the kernel, and connections that stay.

    Without `tcp_nopush`: on a loopback device its replies of 32 KiB, each less than a packet, waited for 10 ms.
    """
    at = network.folder.resolve() / "nginx"
    at.mkdir(parents=True, exist_ok=True)
    paths = " ".join(f"{kind}_temp_path {at}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (at / "nginx.conf").write_text(
        f"daemon off; master_process off; user root; pid {at}/pid; error_log {at}/errors;\n"
        "events { worker_connections 1024; }\n"
        f'http {{ log_format short "$status $body_bytes_sent $uri"; access_log {at}/access short buffer=64k flush=1s;\n'
        f"  {paths} sendfile on; keepalive_requests 1000000; keepalive_timeout 600;\n"
        f"  server {{ listen {network.host}:{WEB_PORT}; root {folder.resolve()}; }} }}\n"
    )
    child = network.start(["nginx", "-p", str(at), "-c", str(at / "nginx.conf")], WEB_PORT, "nginx")
    return Served("http", f"http://{network.host}:{WEB_PORT}", child.pid)


def web_requests(network: Network) -> list[tuple[int, int, str]]:
    """Requests to nginx until now: status, bytes of the body, path. They are complete two seconds after the last."""
    time.sleep(2.2)
    rows = (network.folder / "nginx" / "access").read_text().splitlines()
    return [(int(row.split(" ", 2)[0]), int(row.split(" ", 2)[1]), row.split(" ", 2)[2]) for row in rows]


@contextmanager
def loopback(work: Path, *, apart: bool) -> Iterator[Network]:
    """Both ends on a loopback device; `apart`: in a namespace of its own, so that nothing else is counted."""
    space = f"farfield-{os.getpid()}-lo" if apart else None
    with contextlib.ExitStack() as stack:
        if space is not None:
            stack.enter_context(_space(space))
            subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True, capture_output=True)
        network = Network(space, space, LOOPBACK, "lo", _folder(work))
        stack.callback(network.stop)
        yield network


@contextmanager
def over(line: Line, work: Path) -> Iterator[Network]:
    """Both ends of a line.

    Raises:
        DataError: if it cannot be made.
    """
    with over_each([line], work) as (network,):
        yield network


@contextmanager
def over_each(lines: Sequence[Line], work: Path) -> Iterator[list[Network]]:
    """A client, and a server at the end of each of several lines.

    Raises:
        DataError: if a line cannot be made.
    """
    program = _program(work)
    folder = _folder(work)
    client = f"farfield-{os.getpid()}-client"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_space(client))
        networks = []
        for number, line in enumerate(lines):
            server = f"farfield-{os.getpid()}-server-{number}"
            stack.enter_context(_space(server))
            words = [line.rtt_ms, line.rate_mbit, line.queue_kib, round(1e6 * line.loss), number]
            child = subprocess.Popen(
                [str(program), client, server, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            stack.callback(_end, child)
            if child.stdout is None or child.stdout.readline() != b"up\n":
                said = child.communicate()[1].decode(errors="replace").strip()
                raise DataError(f"the line does not come up: {said}")
            at = folder / str(number)
            at.mkdir()
            network = Network(client, server, f"10.78.{number}.2", f"line{number}", at, line=child)
            stack.callback(network.stop)
            networks.append(network)
        yield networks


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    child.communicate()


def _program(work: Path) -> Path:
    """The line's program, compiled when its source is newer."""
    program = work.resolve() / "line"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        done = subprocess.run(
            ["cc", "-O2", "-pthread", "-o", str(program), str(SOURCE)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise DataError(f"{SOURCE.name} cannot be compiled: {done.stderr.strip()[:300]}")
    return program


@contextmanager
def _space(name: str) -> Iterator[None]:
    """A network namespace, removed at the end."""
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DataError(f"no network namespace can be made: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def _within(space: str | None) -> list[str]:
    return [] if space is None else ["ip", "netns", "exec", space]


def _folder(work: Path) -> Path:
    folder = (work / "network").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _document(child: subprocess.Popen[bytes]) -> dict[str, Any]:
    """The first JSON object that a server prints."""
    text = ""
    while child.stdout is not None:
        row = child.stdout.readline().decode()
        text += row
        try:
            found: dict[str, Any] = json.loads(text)
            return found
        except ValueError:
            if not row:
                break
    raise DataError(f"a server does not say its address: {text[:200]}")


_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    _LIBC.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
