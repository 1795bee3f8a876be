"""A running page server."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield import _core
from farfield.errors import DataError, UsageError
from farfield.runtime.sizes import parse_bytes
from farfield.serving import ssh, tokens
from farfield.sources.addresses import expanduser, is_remote, parts, refuse_unknown

DEFAULT_PORT = 7207
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMG]?)(bit|B)(?:/s|ps)?")


def parse_rate(text: str) -> int:
    """Bytes a second.

    >>> parse_rate("500Mbit"), parse_rate("1.5 GB/s")
    (62500000, 1500000000)

    Raises:
        UsageError: if it is not a rate.
    """
    match = _RATE.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise UsageError(f"'{text}' is not a rate; write it like 500Mbit or 60MB")
    scale = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}[match[2]]
    return max(1, int(float(match[1]) * scale / (8 if match[3] == "bit" else 1)))


def parse_listen(text: str) -> str:
    """Host and port of `HOST`, `:PORT` or `HOST:PORT`; a host without brackets may be an IPv6 address.

    >>> parse_listen("0.0.0.0"), parse_listen(":0"), parse_listen("::1")
    ('0.0.0.0:7207', '127.0.0.1:0', '[::1]:7207')

    Raises:
        UsageError: if the port is none.
    """
    host, port = text.strip(), str(DEFAULT_PORT)
    match = re.fullmatch(r"(\[[^\]]*\]|[^:]*):(\d+)", host)
    if match is not None:
        host, port = match[1] or "127.0.0.1", match[2]
    elif host.count(":") == 1:
        raise UsageError(f"'{text}' is not an address; write it like 0.0.0.0:{DEFAULT_PORT}")
    if int(port) > 65535:
        raise UsageError(f"'{text}': a port is at most 65535")
    return f"[{host.strip('[]')}]:{port}" if ":" in host else f"{host}:{port}"


def is_this_machine(listen: str) -> bool:
    """Whether an address of `parse_listen` is reached from this machine alone.

    >>> is_this_machine("127.0.0.1:1"), is_this_machine("[::1]:1"), is_this_machine("0.0.0.0:1")
    (True, True, False)
    """
    host = listen.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_names(given: Sequence[str]) -> list[tuple[str, str]]:
    """Names and paths or addresses of `NAME=PATH`, or `PATH`, whose name is its last part.

    Raises:
        UsageError: if a name is given twice or has other characters.
        DataError: if a path does not exist.
    """
    found: dict[str, str] = {}
    for text in given:
        head, _, tail = text.partition("=")
        name, path = (head, tail) if tail and "/" not in head else ("", text)
        refuse_unknown(path)
        remote = is_remote(path)
        path = expanduser(path) if remote else os.path.abspath(os.path.expanduser(path))
        name = name or os.path.basename(parts(path)[1] if remote else path)
        if re.fullmatch(r"[A-Za-z0-9._-]{1,100}", name) is None or name in (".", ".."):
            raise UsageError(
                f"'{name}' cannot be a name; give one of letters, digits and . _ - before '=': NAME={shown(path)}"
            )
        if name in found:
            raise UsageError(f"the name '{name}' is given twice; names tell the datasets apart")
        if not remote and not os.path.exists(path):
            raise DataError(f"{path}: there is no such file or folder")
        found[name] = path
    return list(found.items())


def parse_staging(text: str) -> tuple[str, int]:
    """Folder and bytes of `FOLDER:SIZE`.

    >>> parse_staging("/scratch/near:2GiB")
    ('/scratch/near', 2147483648)

    Raises:
        UsageError: if it is none.
    """
    path, _, size = text.rpartition(":")
    if not path:
        raise UsageError(f"--staging {text}: give a folder and the most that it may hold: /scratch/near:500GiB")
    return os.path.abspath(os.path.expanduser(path)), parse_bytes(size)


def parse_cache_disk(text: str) -> tuple[str, int]:
    """Folder and bytes of `PATH:SIZE`.

    >>> parse_cache_disk("/scratch/pages:200GiB")
    ('/scratch/pages', 214748364800)

    Raises:
        UsageError: if one of them is missing.
    """
    folder, _, size = text.rpartition(":")
    if not folder or not size:
        raise UsageError(f"'{text}' is not a folder and its size; write it like /scratch/pages:200GiB")
    return os.path.abspath(os.path.expanduser(folder)), parse_bytes(size)


def shown(path: str) -> str:
    """A path or an address without what may be secret in it: user, password and query.

    >>> shown("https://me:pw@host/a?sig=1"), shown("s3://bucket/a"), shown("/data/a")
    ('https://host/a?...', 's3://bucket/a', '/data/a')
    """
    if not is_remote(path):
        return path
    root, below, query = parts(path)
    scheme, _, host = root.partition("://")
    return f"{scheme}://{host.rpartition('@')[2]}{below}{'?...' * bool(query)}"


@dataclass(frozen=True)
class ServeOptions:
    """How a server serves."""

    names: list[tuple[str, str]]
    """Names, and the files, folders or addresses for which they stand."""
    listen: str = f"127.0.0.1:{DEFAULT_PORT}"
    tls: bool | None = None
    """None: beyond this machine."""
    certificate: tuple[str, str] | None = None
    """PEM files of a certificate and its key; None: one made here, which clients know by its fingerprint."""
    state: Path | None = None
    """The folder of tokens and of a certificate made here; None: `tokens.state_folder()`."""
    rate: int | None = None
    """Most bytes a second."""
    rate_per_client: int | None = None
    memory_limit: int = 256 << 20
    """Bytes of buffers."""
    max_connections: int = 1024
    staging: tuple[str, int] | None = None
    """Folder and most bytes of the data that clients stage; None: they stage none."""
    cache: int = 0
    """Bytes of memory for what comes from addresses."""
    cache_local: bool = False
    """Whether files of this machine are kept in that memory, too."""
    cache_disk: tuple[str, int] | None = None
    """A folder for what comes from addresses, and its most bytes."""


class Serving:
    """A running server, as a context."""

    def __init__(self, native: _core.PageServer, options: ServeOptions, folder: Path) -> None:
        self._native, self._folder = native, folder
        self._tokens = tokens.listed(folder), tokens.stagers(folder)
        self.names = options.names
        self.staging = options.staging
        self.address = native.address
        self.fingerprint = native.fingerprint

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def urls(self) -> list[str]:
        """The addresses of the names."""
        return [f"farfield://{self._public()}/{name}" for name, _ in self.names]

    def _public(self) -> str:
        """The address for clients: where it listens on all, the name of this machine."""
        host, _, port = self.address.rpartition(":")
        return f"{socket.getfqdn() if host in ('0.0.0.0', '[::]') else host}:{port}"

    def status(self) -> dict[str, Any]:
        """Clients, rates, memory."""
        found: dict[str, Any] = json.loads(self._native.status())
        return found

    def metrics(self) -> str:
        """The status in the text format of Prometheus."""
        return self._native.metrics()

    def read_tokens(self) -> bool:
        """Takes over changes of the file of tokens. Returns whether there were any."""
        now = tokens.listed(self._folder), tokens.stagers(self._folder)
        if now == self._tokens:
            return False
        self._native.set_tokens(*now)
        self._tokens = now
        return True

    def take_notice(self) -> str | None:
        """What the folder of `cache_disk` has to say, once."""
        return self._native.take_notice()

    def stop(self) -> None:
        """Finishes replies under way, and ends."""
        self._native.stop()


def start(options: ServeOptions) -> Serving:
    """Starts a server.

    Raises:
        UsageError: if it could be used from other machines without TLS and a token.
        AccessError: if the address is not allowed.
    """
    folder = options.state or tokens.state_folder()
    tls = options.tls if options.tls is not None else not is_this_machine(options.listen)
    host = options.listen.rpartition(":")[0].strip("[]")
    hosts = sorted({socket.getfqdn(), socket.gethostname(), "localhost", *([] if ":" in host else [host])})
    ssh.ensure([path for _, path in options.names])
    document = {
        "names": options.names,
        "listen": options.listen,
        "state": str(folder) if tls else None,
        "hosts": hosts,
        "certificate": options.certificate if tls else None,
        "tokens": tokens.listed(folder),
        "staging": options.staging,
        "stagers": tokens.stagers(folder),
        "rate": options.rate,
        "rate_per_client": options.rate_per_client,
        "memory_limit": options.memory_limit,
        "max_connections": options.max_connections,
        "cache": options.cache,
        "cache_local": options.cache_local,
        "cache_disk": options.cache_disk,
    }
    return Serving(_core.PageServer(json.dumps(document)), options, folder)
