"""The interface of the extension's volume."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from farfield.runtime.progress import Report

Triple = tuple[int, int, int]


class Native(Protocol):
    """Methods of the extension's volume."""

    def info(self) -> str:
        """Pages, their sizes, and costs, as JSON."""

    def read_box(self, level: int, channel: int, lo: Triple, hi: Triple, step: int) -> NDArray[Any]:
        """The numbers of a box, [k, j, i], in their type in memory. `lo` and `hi` are i, j, k from 0; `hi` is
        exclusive."""

    def build_ranges(self, tables: list[bytes], folder: str, *, progress: Report | None = None) -> str:
        """Finds the ranges of all pages and stores them in a folder of the cache, unless they exist."""

    def stats(self) -> str:
        """STATS of `farfield/_native.pyi`."""

    def set_memory_limit(self, memory_limit: int) -> None:
        """Changes the memory limit."""

    def close(self) -> None:
        """Frees the memory."""
