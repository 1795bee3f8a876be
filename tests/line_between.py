"""A line between a client and a server: it counts what passes, and is disturbed at a chosen byte."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

_AHEAD = 32 << 10
"""Bytes that the line holds: a disturbance at a byte comes before the server has sent much more."""


class Line:
    """A port of this machine that leads to a server of this machine."""

    def __init__(self, server: str) -> None:
        self._to = ("127.0.0.1", int(server.rpartition(":")[2]))
        self._lock = threading.RLock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = 0
        self.passed = 0
        """Bytes from the server."""
        self.flip: int | None = None
        """The bit, of those from the server, that comes wrong."""
        self._at: int | None = None
        self._action: Callable[[], None] = lambda: None
        self.listen()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def settle(self) -> None:
        """Waits until nothing passes: replies to a run before, which nobody takes any more."""
        before = -1
        while before != self.passed:
            before = self.passed
            time.sleep(0.05)

    def at(self, byte: int, action: Callable[[], None]) -> None:
        """Runs an action once so many bytes have passed, before any further one passes."""
        self.settle()
        with self._lock:
            self.passed, self._at, self._action = 0, byte, action

    def listen(self) -> None:
        """Connections are taken, at the port of before if there was one."""
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _AHEAD)
        self._listener.bind(("127.0.0.1", self.port))
        self._listener.listen(128)
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Nothing listens any more, and all connections are cut."""
        if self._listener is not None:
            # The thread that accepts holds the socket until it wakes.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
                server = socket.socket()
                server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _AHEAD)
                server.connect(self._to)
            except OSError:
                if self._listener is not listener:
                    return
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.add(one)
            threading.Thread(target=self._pass, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(16 << 10):
                sink.sendall(self._counted(data) if counts else data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            self._open.discard(one)

    def _counted(self, data: bytes) -> bytes:
        with self._lock:
            at = None if self.flip is None else self.flip - 8 * self.passed
            self.passed += len(data)
            if at is not None and 0 <= at < 8 * len(data):
                data = data[: at // 8] + bytes([data[at // 8] ^ 1 << at % 8]) + data[at // 8 + 1 :]
            if self._at is not None and self.passed >= self._at:
                self._at = None
                self._action()
        return data


@contextlib.contextmanager
def line_to(server: str) -> Iterator[Line]:
    """A line, until the context ends."""
    made = Line(server)
    try:
        yield made
    finally:
        made.cut()
