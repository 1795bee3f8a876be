"""Seeds of lines.

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

_KINDS = ("point:", "line:", "plane:", "box:", "sphere:", "scatter:", "random:", "interest:", "ijk:")
_FILES = (".csv", ".npy", ".vtp")


def rake(start: Sequence[float], end: Sequence[float], *, n_points: int = 20) -> NDArray[np.float64]:
    """Evenly spaced points from `start` to `end`, both inclusive: an array (n_points, len(start)).

    Raises:
        UsageError: unless both ends have two or three coordinates and n_points is at least 1.

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
    """Checked seeds: float64, C order, (N, 3) or (N, 2), all finite. A single position becomes one seed.

    Raises:
        UsageError: if they are invalid, with the reason.
    """
    import numpy as np

    try:
        given = np.asarray(seeds)
        if given.dtype.kind == "c":  # NumPy would drop the imaginary part with a warning only
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


def file_of(seeds: Any) -> list[str]:
    """The file of seeds, if `seeds` names one: a list of one name or of none.

    >>> file_of("seeds.csv"), file_of("random:3:1"), file_of([(0, 0, 0)])
    (['seeds.csv'], [], [])
    """
    if not isinstance(seeds, str | os.PathLike) or os.fspath(seeds).startswith(_KINDS):
        return []
    return [os.fspath(seeds)]


def resolve(seeds: Any) -> tuple[str | None, NDArray[np.float64] | None]:
    """Seeds in the form for the extension: a specification or name of a file unchanged, or a checked array.

    The extension reads files of seeds in bounded memory.

    Raises:
        UsageError: if the seeds have none of these forms.
        DataError: if the file does not exist.

    >>> resolve("random:3:1")
    ('random:3:1', None)
    """
    if not isinstance(seeds, str | os.PathLike):
        return None, as_seeds(seeds)
    text = os.fspath(seeds)
    if text.startswith(_KINDS):
        return text, None
    is_there = os.path.exists(text)
    if os.path.splitext(text)[1].lower() in _FILES:
        if not is_there:
            raise DataError(f"{text}: there is no such seed file; check the path (working folder: {os.getcwd()})")
        return text, None
    if is_there:
        raise UsageError(f"{text}: seed files end in {', '.join(_FILES)}")
    forms = [*(kind + "..." for kind in _KINDS), *(f"FILE{suffix}" for suffix in _FILES)]
    raise UsageError(f"'{text}' is neither a seed file nor one of {', '.join(forms)}")
