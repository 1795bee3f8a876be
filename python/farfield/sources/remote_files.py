"""Files at servers as file objects of Python."""

from __future__ import annotations

import contextlib
import io
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, BinaryIO, cast

from farfield.errors import DataError
from farfield.sources import remote
from farfield.sources.addresses import normpath

BLOCK = 64 << 10
"""Bytes that are asked for at least."""
_AHEAD = 16
"""Blocks that are asked for at most where a file is read in order."""
_KEPT = 64
"""Blocks in memory of an open file."""
_KEPT_CLOSED = 4
"""Blocks that stay in memory of a closed one until the dataset is open."""
MOST_OPEN = 128
"""Files of which blocks stay."""
_AT_ONCE = 16
"""Files that are read at once."""


class Blocks:
    """A file of one version, with the blocks that were read last."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._reader = remote.ask(lambda native: native.FileReader(path))
        self.size = int(self._reader.size)
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._next, self._run = -1, 1
        self._lock = threading.Lock()

    def read(self, at: int, count: int) -> bytes:
        """The bytes from `at`; fewer only at the end of the file."""
        end = min(at + count, self.size)
        if end <= at:
            return b""
        if end - at >= _AHEAD * BLOCK:
            return self._fetch(at, end - at)
        with self._lock:
            first, last = at // BLOCK, (end - 1) // BLOCK
            self._load(first, last)
            if first == last:
                return self._blocks[first][at - first * BLOCK : end - first * BLOCK]
            whole = b"".join(self._blocks[n] for n in range(first, last + 1))
            return whole[at - first * BLOCK : end - first * BLOCK]

    def trim(self, kept: int = _KEPT_CLOSED) -> None:
        """Gives memory back, but for the blocks that were read last."""
        with self._lock:
            self._drop(kept)

    def _load(self, first: int, last: int) -> None:
        n = first
        while n <= last:
            if n in self._blocks:
                self._blocks.move_to_end(n)
                n += 1
                continue
            stop = n + 1
            while stop <= last and stop not in self._blocks:
                stop += 1
            if stop > last:
                self._run = min(2 * self._run, _AHEAD) if n == self._next else 1
                while stop < n + self._run and stop * BLOCK < self.size and stop not in self._blocks:
                    stop += 1
            raw = self._fetch(n * BLOCK, min(stop * BLOCK, self.size) - n * BLOCK)
            for m in range(n, stop):
                self._blocks[m] = raw[(m - n) * BLOCK : (m - n + 1) * BLOCK]
            self._next = n = stop
        self._drop(_KEPT)

    def _drop(self, kept: int) -> None:
        while len(self._blocks) > kept:
            self._blocks.popitem(last=False)

    def _fetch(self, at: int, count: int) -> bytes:
        raw: bytes = remote.ask(lambda _: self._reader.read_at(at, count))
        if len(raw) != count:
            raise DataError(
                f"{self.path}: the server gave {len(raw):,} of {count:,} bytes from byte {at:,} on: the file has changed "
                "meanwhile; try again"
            )
        return raw


class _Raw(io.RawIOBase):
    """The bytes of a file at a server, from any place."""

    def __init__(self, blocks: Blocks, *, trims: bool) -> None:
        super().__init__()
        self._blocks, self._at, self._trims = blocks, 0, trims
        self.name = blocks.path

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._blocks.size}.get(whence)
        if base is None:
            raise ValueError(f"invalid whence ({whence})")
        if base + offset < 0:
            raise OSError(22, "Invalid argument")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._check()
        view = memoryview(buffer).cast("B")
        found = self._blocks.read(self._at, len(view))
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def readall(self) -> bytes:
        self._check()
        found = bytearray()
        while piece := self._blocks.read(self._at, _AHEAD * BLOCK):
            found += piece
            self._at += len(piece)
        return bytes(found)

    def close(self) -> None:
        if not self.closed and self._trims:
            self._blocks.trim()
        super().close()

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def open_remote(path: str) -> BinaryIO:
    """A file at a server, for reading.

    Raises:
        FileNotFoundError: if it is not there.
        AccessError: if the server does not answer, or refuses.
    """
    (said,) = remote.stats([path])
    if said is None:
        raise FileNotFoundError(2, "No such file or directory", path)
    laid = remote.document_of(path)
    if laid is not None:
        return io.BytesIO(laid)
    held, name = remote.knowledge(), normpath(path)
    if held is None:
        return cast("BinaryIO", io.BufferedReader(_Raw(Blocks(name), trims=False)))
    with held.lock:
        blocks = held.readers.pop(name, None)
    blocks = Blocks(name) if blocks is None else blocks
    with held.lock:
        held.readers[name] = blocks
        while len(held.readers) > MOST_OPEN:
            held.readers.pop(next(iter(held.readers)))
    return cast("BinaryIO", io.BufferedReader(_Raw(blocks, trims=True)))


def prefetch_files(paths: Sequence[str]) -> None:
    """Reads the beginnings of several small files at once, which stay while a dataset is opened.

    Raises:
        AccessError: if a server does not answer, or refuses.
    """
    asked = list(dict.fromkeys(paths))[:MOST_OPEN]
    if remote.knowledge() is None or len(asked) < 2:
        return
    from concurrent.futures import ThreadPoolExecutor  # the command line imports this module for its help

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="documents") as pool:
        for _ in pool.map(remote.bound(_begin), asked):
            pass


def _begin(path: str) -> None:
    with contextlib.suppress(FileNotFoundError), open_remote(path) as file:
        file.read(1)
