"""Recovery of decimal numbers from rounded ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def decimals(values: NDArray[Any] | Iterable[Any]) -> list[float]:
    """The shortest decimal numbers that round to numbers in half or single precision; others stay unchanged.

    So a time displayed as 0.1 is found as 0.1.

    >>> decimals(np.array([0.1, 2.5], "float32")), decimals(np.array([0.1], ">f8")), decimals(np.array([3]))
    ([0.1, 2.5], [0.1], [3.0])
    """
    found = np.asarray(values)
    if found.dtype.kind != "f" or found.dtype.itemsize > 4:
        return [float(value) for value in found]
    return [float(str(value)) for value in found.astype(found.dtype.newbyteorder("="))]


def tidied(value: float) -> float:
    """A number without rounding errors of arithmetic in its last digit.

    >>> 3 * 0.1, tidied(3 * 0.1)
    (0.30000000000000004, 0.3)
    """
    return float(f"{value:.15g}")
