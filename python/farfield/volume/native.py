"""What is asked of the extension's volume."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from farfield.runtime.progress import Report

Triple = tuple[int, int, int]


class Native(Protocol):
    """What is asked of the extension's volume."""

    def info(self) -> str:
        """Pages, their sizes, and what it costs."""

    def read_box(self, level: int, channel: int, lo: Triple, hi: Triple, step: int) -> NDArray[Any]:
        """[k, j, i] of a box of voxels, as they are in memory; `lo` and `hi` are i, j, k from 0 on, half open."""

    def build_ranges(self, tables: list[bytes], folder: str, *, progress: Report | None = None) -> str:
        """Makes the ranges of all pages in a folder of the cache, if they are not there."""

    def stats(self) -> str:
        """STATS of `farfield/_native.pyi`."""

    def set_memory_limit(self, memory_limit: int) -> None:
        """Changes the memory limit."""

    def close(self) -> None:
        """Gives memory back."""
