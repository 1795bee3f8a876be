"""Text tables for a fixed-width font."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], *, left: int = 0) -> list[str]:
    """A line per row, with cells padded to the width of their column. The first `left` columns align left, the others
    right.

    >>> aligned([["policy", "misses"], ["lru", "7"]], left=1)
    ['policy  misses', 'lru          7']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{c:<{w}}" if n < left else f"{c:>{w}}" for n, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
