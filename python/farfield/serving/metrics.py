"""Prometheus metrics of a page server, on a socket of this machine."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from farfield.errors import AccessError, UsageError
from farfield.serving.server import is_this_machine


def serve_metrics(listen: str, text: Callable[[], str]) -> ThreadingHTTPServer:
    """Answers `GET /metrics` at `HOST:PORT` until the returned server is shut down.

    Raises:
        UsageError: if the address is of other machines too, since metrics have no token.
        AccessError: if it cannot be used.
    """
    if not is_this_machine(listen):
        raise UsageError(f"{listen}: metrics are given to this machine alone; give an address like 127.0.0.1:9207")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.partition("?")[0] in ("/metrics", "/")
            body = text().encode() if known else b"metrics are at /metrics\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: a scrape every few seconds is no news."""

    host, _, port = listen.rpartition(":")
    try:
        server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
    except OSError as error:
        raise AccessError(f"{listen}: metrics cannot be given there: {error.strerror}") from error
    server.daemon_threads = True
    Thread(target=server.serve_forever, name="farfield-metrics", daemon=True).start()
    return server
