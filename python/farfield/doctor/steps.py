"""The steps of an examination, in the order in which a connection takes them."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from farfield.errors import UsageError

PORTS = {"http": 80, "https": 443, "farfield": 7207}
_CONNECT_S = 5.0
_IP_MTU = 14
"""The option of a connected socket that tells the MTU of its route (Linux)."""


@dataclass
class Step:
    """One step and its outcome."""

    name: str
    ok: bool
    said: str
    """The outcome in words."""
    advice: str = ""
    """What to do about a failure."""
    found: dict[str, Any] = field(default_factory=dict)
    """Numbers, with units in their names."""
    missing: bool = False
    """Whether it failed because the server has nothing of that name."""


@dataclass(frozen=True)
class Address:
    """The server of a dataset."""

    url: str
    scheme: str
    host: str
    port: int

    @property
    def server(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def addresses_of_each(url: str) -> list[tuple[str, str]]:
    """The servers of a URL of several page servers, and the URL at each alone; empty for any other URL.

    >>> addresses_of_each("farfield://a,b:7208/wing")
    [('a', 'farfield://a/wing'), ('b:7208', 'farfield://b:7208/wing')]
    >>> addresses_of_each("farfield://a/wing,2")
    []
    """
    scheme, _, rest = url.partition("://")
    hosts, slash, name = rest.partition("/")
    if scheme.lower() != "farfield" or "," not in hosts:
        return []
    return [(host, f"{scheme}://{host}{slash}{name}") for host in hosts.split(",")]


def address_of(url: str, environ: dict[str, str] | None = None) -> Address:
    """The server behind a URL; that of a bucket is its endpoint.

    >>> address_of("https://host/a.nrrd").server, address_of("farfield://host/wing").server
    ('host:443', 'host:7207')

    Raises:
        UsageError: if the URL has no server.
    """
    environ = dict(os.environ) if environ is None else environ
    scheme = url.partition("://")[0].lower()
    endpoint = url
    if scheme == "s3":
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        given = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or environ.get("AWS_ENDPOINT")
        endpoint = given or f"https://s3.{region}.amazonaws.com"
    elif scheme == "gs":
        endpoint = environ.get("STORAGE_EMULATOR_HOST") or "https://storage.googleapis.com"
    elif scheme == "az":
        account = environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        endpoint = environ.get("AZURE_STORAGE_ENDPOINT") or f"https://{account}.blob.core.windows.net"
    elif scheme not in PORTS:
        raise UsageError(
            f"{url}: not the address of a server; the doctor examines https://, s3://, gs://, az://, farfield://"
        )
    split = urlsplit(endpoint)
    if not split.hostname:
        raise UsageError(f"{url}: this address names no server")
    port = split.port or PORTS.get(split.scheme, 443)
    return Address(url, split.scheme, split.hostname, port)


def proxies(address: Address) -> Step:
    """Whether a proxy of the environment takes the requests."""
    from urllib.request import getproxies, proxy_bypass

    found = getproxies()
    proxy = found.get(address.scheme) or found.get("all")
    if address.scheme == "farfield" or proxy is None or proxy_bypass(address.host):
        return Step("proxy", True, "none on the way")
    host = urlsplit(proxy).hostname or "?"
    return Step("proxy", True, f"requests go by the proxy {host}", found={"proxy": host})


def resolve(address: Address) -> Step:
    """The addresses of the server's name."""
    begin = time.perf_counter()
    try:
        answers = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        return Step(
            "name",
            False,
            f"{address.host} has no address: {error.strerror or error}",
            "check the spelling of the host, and the name servers of this machine",
        )
    took = time.perf_counter() - begin
    found = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    said = f"{address.host} is {', '.join(found[:3])} ({took * 1e3:.1f} ms)"
    return Step("name", True, said, found={"addresses": found, "took_ms": took * 1e3})


def connect(address: Address) -> tuple[Step, socket.socket | None]:
    """A TCP connection."""
    begin = time.perf_counter()
    try:
        made = socket.create_connection((address.host, address.port), timeout=_CONNECT_S)
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        advice = (
            f"nothing listens at {address.server}: start the server, or give its port"
            if refused
            else "a firewall may drop the packets, or the host is down: ask its keeper, or go through ssh://"
        )
        return Step("tcp", False, f"{address.server}: {error.strerror or error}", advice), None
    took = time.perf_counter() - begin
    found: dict[str, Any] = {"connect_ms": took * 1e3}
    said = f"connected in {took * 1e3:.1f} ms"
    mtu = _option(made, socket.IPPROTO_IP, _IP_MTU)
    if mtu is not None:
        found["mtu_bytes"] = mtu
        said += f", MTU {mtu:,}"
    return Step("tcp", True, said, found=found), made


def _option(made: socket.socket, level: int, option: int) -> int | None:
    try:
        (value,) = struct.unpack("i", made.getsockopt(level, option, 4))
    except (OSError, struct.error):
        return None
    return int(value)


def agree_tls(address: Address, made: socket.socket) -> Step:
    """TLS with the server, and its certificate."""
    context = ssl.create_default_context()
    begin = time.perf_counter()
    try:
        with context.wrap_socket(made, server_hostname=address.host) as secured:
            took = time.perf_counter() - begin
            until = ssl.cert_time_to_seconds(str((secured.getpeercert() or {}).get("notAfter")))
            days = (until - time.time()) / 86400
            version = secured.version() or "TLS"
    except ssl.SSLCertVerificationError as error:
        advice = "check the clock of this machine and the host's name; a certificate of its own authority goes to the system's"
        return Step("tls", False, f"the certificate does not hold: {error.verify_message}", advice)
    except OSError as error:
        return Step("tls", False, f"no TLS: {error}", f"is {address.server} a port of TLS? http:// has none")
    said = f"{version}, the certificate holds for {days:.0f} days"
    return Step("tls", True, said, found={"version": version, "certificate_days": days, "took_ms": took * 1e3})
