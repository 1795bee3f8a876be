"""Where lines start.

>>> rake((0, 0, 0), (0, 1, 0), n_points=3).tolist()
[[0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 1.0, 0.0]]
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield.errors import DataError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_KINDS = ("point:", "line:", "plane:", "box:", "sphere:", "random:", "ijk:")


def rake(start: Sequence[float], end: Sequence[float], *, n_points: int = 20) -> NDArray[np.float64]:
    """Points evenly spaced from `start` to `end`, both included: an array (n_points, len(start)).

    Raises:
        UsageError: if the ends do not have two or three coordinates each, or n_points is less than 1.

    >>> rake((0, 0), (1, 0), n_points=2).shape
    (2, 2)
    """
    import numpy as np

    a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or a.shape[0] not in (2, 3):
        raise UsageError("the ends of a rake are two positions of two or three coordinates each")
    if n_points < 1:
        raise UsageError(f"a rake of {n_points} points has no seeds")
    return np.linspace(a, b, n_points)


def as_seeds(seeds: ArrayLike) -> NDArray[np.float64]:
    """Checked seeds: float64, C order, (N, 3) or (N, 2), all finite. A single position is one seed.

    Raises:
        UsageError: saying what is wrong with them.
    """
    import numpy as np

    try:
        given = np.asarray(seeds)
        if given.dtype.kind == "c":  # NumPy would drop the imaginary part with no more than a warning
            raise TypeError("complex numbers are no positions")
        array = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"seeds are an array of numbers of shape (N, 3): {error}") from error
    if array.ndim == 1 and array.shape[0] in (2, 3):
        array = array[np.newaxis, :]
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise UsageError(f"seeds have shape (N, 3), or (N, 2) in two dimensions, not {array.shape}")
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise UsageError(f"seed {bad} is not finite: {array[bad].tolist()}")
    return array


def resolve(seeds: Any) -> tuple[str | None, NDArray[np.float64] | None]:
    """A specification for the extension, or an array: from a specification, the name of a file (.npy, .csv, .vtp) or an
    array.

    Raises:
        UsageError: if it is none of these.
        DataError: if the file cannot be read.
    """
    if not isinstance(seeds, str | os.PathLike):
        return None, as_seeds(seeds)
    text = os.fspath(seeds)
    if text.startswith(_KINDS):
        return text, None
    if not os.path.exists(text):
        if os.path.splitext(text)[1].lower() in (".npy", ".csv", ".vtp"):
            raise DataError(f"{text}: there is no such seed file")
        raise UsageError(f"'{text}' is neither a seed file nor one of {', '.join(k + '...' for k in _KINDS)}")
    return None, load(text)


def load(path: str) -> NDArray[np.float64]:
    """Seeds of a .npy, .csv or .vtp file. The columns of a .csv are x, y, z (or x, y), or what its header calls so
    (`Points:0` and so on, as ParaView writes them, are x and so on).

    Raises:
        DataError: if the file does not hold seeds.
    """
    import numpy as np

    suffix = os.path.splitext(path)[1].lower()
    try:
        if suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        elif suffix == ".csv":
            array = _load_csv(path)
        elif suffix == ".vtp":
            from farfield._core import read_points

            array = read_points(path)
        else:
            raise UsageError(f"{path}: seed files end in .npy, .csv or .vtp")
        return as_seeds(array)
    except UsageError as error:
        raise (error if path in str(error) else UsageError(f"{path}: {error}")) from error
    except (OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: not readable as seeds: {error}") from error


_COLUMNS = {"points:0": "x", "points:1": "y", "points:2": "z", "points_0": "x", "points_1": "y", "points_2": "z"}


def _load_csv(path: str) -> NDArray[np.float64]:
    import csv

    import numpy as np

    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = [[cell.strip() for cell in row] for row in csv.reader(file) if any(c.strip() for c in row)]
    rows = [row for row in rows if not row[0].startswith("#")]
    if not rows:
        return np.empty((0, 3))
    columns: list[int] = list(range(min(3, len(rows[0]))))
    try:
        [float(rows[0][c]) for c in columns]
    except ValueError as error:  # a header line
        header = rows.pop(0)
        names = [_COLUMNS.get(name.strip("\"'").lower(), name.lower()) for name in header]
        if "x" not in names or "y" not in names:
            raise ValueError(f"the header names no columns x and y, but {', '.join(header)}") from error
        columns = [names.index(n) for n in ("x", "y", "z") if n in names]
    if any(len(row) <= max(columns) for row in rows):
        raise ValueError("the rows differ in length")
    return np.array([[float(row[c]) for c in columns] for row in rows]).reshape(len(rows), len(columns))
