"""Arrays of xarray that are read when their numbers are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Key = tuple[int | slice, ...]


def lazy(
    shape: tuple[int, ...], dtype: np.dtype[Any], read: Callable[[Key], NDArray[Any]], check: Callable[[int], None]
) -> Any:
    """What xarray takes for an array that lies on disk.

    Args:
        shape: Its shape.
        dtype: The type of its numbers.
        read: Gives the numbers of an index, an int or a slice for each dimension.
        check: Is told how many bytes these take, before they are read; it may refuse them.
    """
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Lazy(BackendArray):
        def __init__(self) -> None:
            self.shape, self.dtype = shape, dtype

        def __getitem__(self, key: Any) -> Any:
            return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._get)

        def _get(self, key: Key) -> NDArray[Any]:
            counts = [len(range(n)[k]) for n, k in zip(shape, key, strict=True) if isinstance(k, slice)]
            check(math.prod(counts) * dtype.itemsize)
            return read(key)

    return indexing.LazilyIndexedArray(Lazy())
