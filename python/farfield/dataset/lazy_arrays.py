"""Arrays of xarray that read their numbers on demand."""

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
    """Wraps a read function as a lazy array for xarray.

    Args:
        shape: Shape of the array.
        dtype: Type of its numbers.
        read: Returns the numbers of an index: an int or a slice per dimension.
        check: Gets the number of bytes before a read, and may raise to refuse it.
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
