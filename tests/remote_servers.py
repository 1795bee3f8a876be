"""Real servers on loopback: a web server over a folder, a bucket of S3, a page server. They count what they are asked, and
misbehave on demand.
"""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from farfield import _core
from farfield.serving import ServeOptions, Serving, start, tokens


@dataclass
class Request:
    """What the web server was asked."""

    method: str
    path: str
    """Below the root, without query."""
    query: str
    range: str | None
    authorization: str | None
    status: int = 0
    begun: float = 0.0
    """By the monotonic clock, as `ended`."""
    ended: float = 0.0


@dataclass
class Fault:
    """A behaviour in place of the right one. Several may be combined."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    """In place of the right ones, or beside them."""
    whole: bool = False
    """200 and the whole file to a range."""
    sent: int | None = None
    """Bytes of the body after which the connection is cut."""
    stall: bool = False
    """Stands still before the reply, or behind `sent` bytes, until the server is stopped."""
    flip: bool = False
    """One bit of the body is wrong."""


Faults = Callable[[Request], Fault | None]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    timeout = 60

    def do_GET(self) -> None:
        self.server.web.answer(self)  # type: ignore[attr-defined]

    do_HEAD = do_GET  # noqa: N815 - a name of the library

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, web: WebServer) -> None:
        self.web = web
        self.made: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        made, where = super().get_request()
        self.made.add(made)
        return made, where

    def shutdown_request(self, request: Any) -> None:
        self.made.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: clients may leave."""


class WebServer:
    """Serves the files below `root`, with ranges and ETags; `bucket` makes it an S3 with path style addresses."""

    def __init__(self, root: Path, bucket: str | None = None) -> None:
        self.root, self.bucket = root, bucket
        self.requests: list[Request] = []
        self.fault: Faults = lambda _: None
        self.delay = 0.0
        """Seconds before each reply: a round trip."""
        self.port = 0
        self._listener: _Listener | None = None
        self._stopped = threading.Event()
        self.start()

    def start(self) -> None:
        """Listens, at the port of before if there was one."""
        self._stopped = threading.Event()
        self._listener = _Listener(self.port, self)
        self.port = self._listener.server_address[1]
        threading.Thread(target=self._listener.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Nothing listens any more, and all connections are cut."""
        if self._listener is None:
            return
        self._stopped.set()
        self._listener.shutdown()
        self._listener.server_close()
        for made in list(self._listener.made):
            with _gone():
                made.shutdown(socket.SHUT_RDWR)
        self._listener = None

    @property
    def server(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def url(self, name: Path | str = "") -> str:
        """The address of a file below the root."""
        text = str(name).removeprefix(str(self.root)).lstrip("/")
        return f"s3://{self.bucket}/{text}" if self.bucket else f"http://{self.server}/{text}"

    @property
    def env(self) -> dict[str, str]:
        """The settings by which clients reach the bucket."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.server}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test-key-id",
            "AWS_SECRET_ACCESS_KEY": "test-secret-key",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def counts(self) -> Counter[str]:
        """Requests of each path."""
        return Counter(request.path for request in self.requests)

    def round_trips(self) -> int:
        """Requests that waited for each other: the most of which no two were under way at the same time."""
        trips, last = 0, 0.0
        for request in sorted(self.requests, key=lambda request: request.ended):
            if request.begun >= last:
                trips, last = trips + 1, request.ended
        return trips

    def forget(self) -> None:
        """Counts from here on, without faults."""
        self.requests.clear()
        self.fault = lambda _: None

    def answer(self, to: _Handler) -> None:
        """Replies to a request."""
        split = urlsplit(to.path)
        asked = Request(
            to.command, unquote(split.path).lstrip("/"), split.query, to.headers["Range"], to.headers["Authorization"]
        )
        if self.bucket is not None:
            asked.path = asked.path.removeprefix(self.bucket).lstrip("/")
        asked.begun = time.monotonic()
        self.requests.append(asked)
        self._stopped.wait(self.delay)
        fault = self.fault(asked) or Fault()
        status, headers, body = self._right(asked, to.headers["If-Match"], fault)
        if fault.status is not None:
            status, headers, body = fault.status, {}, b"no such luck"
        headers = {"Content-Length": str(len(body)), **headers, **fault.headers}
        asked.status, asked.ended = status, time.monotonic()
        if fault.flip and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        if fault.stall and fault.sent is None:
            self._stand_still(to)
            return
        with _gone():
            to.send_response(status)
            for name, value in headers.items():
                to.send_header(name, value)
            to.end_headers()
            if to.command == "HEAD":
                return
            to.wfile.write(body[: fault.sent])
            if fault.sent is not None:
                to.wfile.flush()
                if fault.stall:
                    self._stand_still(to)
                to.close_connection = True
                to.connection.shutdown(socket.SHUT_RDWR)

    def _stand_still(self, to: _Handler) -> None:
        to.close_connection = True
        self._stopped.wait(30)

    def _right(self, asked: Request, if_match: str | None, fault: Fault) -> tuple[int, dict[str, str], bytes]:
        query = parse_qs(asked.query)
        if self.bucket is not None and "list-type" in query:
            prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
            most = int(query.get("max-keys", ["1000"])[0])
            return 200, {"Content-Type": "application/xml"}, self._listing(prefix, delimiter, most)
        place = self.root / asked.path
        if not place.is_file() or ".." in asked.path.split("/"):
            code = b"<Error><Code>NoSuchKey</Code></Error>" if self.bucket is not None else b"no such file"
            return 404, {}, code
        found = place.stat()
        etag = f'"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"'
        headers = {"ETag": etag, "Last-Modified": formatdate(found.st_mtime, usegmt=True), "Accept-Ranges": "bytes"}
        if if_match is not None and if_match != fault.headers.get("ETag", etag):
            return 412, {}, b""
        body = place.read_bytes()
        if asked.range is None or fault.whole:
            return 200, headers, body
        first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.range).groups()  # type: ignore[union-attr]
        begin = int(first) if first else max(0, len(body) - int(last))
        end = min(len(body), int(last) + 1) if first and last else len(body)
        if begin >= len(body):
            return 416, {"Content-Range": f"bytes */{len(body)}"}, b""
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(body)}"
        return 206, headers, body[begin:end]

    def _listing(self, prefix: str, delimiter: str, most: int) -> bytes:
        keys = sorted(p.relative_to(self.root).as_posix() for p in self.root.rglob("*") if p.is_file())
        files, folders = [], []
        for key in keys:
            rest = key[len(prefix) :]
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.append(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                files.append(key)
        folders = list(dict.fromkeys(folders))[:most]
        files = files[: most - len(folders)]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f'<ETag>"x"</ETag><Size>{(self.root / key).stat().st_size}</Size></Contents>'
            for key in files
        )
        entries += "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        return (
            '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated>'
            f"<KeyCount>{len(files) + len(folders)}</KeyCount>{entries}</ListBucketResult>"
        ).encode()


@contextmanager
def _gone() -> Iterator[None]:
    """The other side may leave at any time."""
    try:
        yield
    except (OSError, ValueError):
        pass


@contextmanager
def web_server(root: Path, bucket: str | None = None) -> Iterator[WebServer]:
    """A web server, until the context ends."""
    made = WebServer(root, bucket)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def page_server(root: Path, state: Path, *, tls: bool = False) -> Iterator[Serving]:
    """A page server that gives `root` by the name `root`. With TLS, clients of this process have a token and its
    fingerprint."""
    token = tokens.add(state, "tests") if tls else None
    options = ServeOptions(names=[("root", str(root))], listen="127.0.0.1:0", tls=tls, state=state)
    with start(options) as made:
        if tls:
            _core.set_server_credentials(made.address, token, made.fingerprint)
        yield made


def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **more: str) -> None:
    """Settings of a test: its own cache, a short deadline, no credentials of whoever runs it."""
    for name in ("FARFIELD_TOKEN", "FARFIELD_SERVER_PIN", "HTTP_PROXY", "http_proxy", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FARFIELD_CACHE_DIR", str(tmp_path / "cache"))
    for name, value in more.items():
        monkeypatch.setenv(name, value)


def free_port() -> int:
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether something becomes true within a time."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


__all__ = ["Fault", "Request", "WebServer", "eventually", "free_port", "page_server", "quote", "use", "web_server"]
