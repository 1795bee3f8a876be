"""Where the levels of an OME-Zarr image lie: its transformations, put together for each level, as steps from voxel to voxel.

Versions up to 0.5 have scales and translations; 0.6 (RFC-5) has systems of coordinates, and further kinds of transformations into
them, those that are linear are taken together here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.zarr.nodes import Node

Numbers = NDArray[np.float64]
Row = tuple[float, float, float]
_ALIKE = 1e-6
"""What directions of levels may differ by: writers round."""


@dataclass
class Placed:
    """From indices of a level to positions, in the order of its dimensions: `steps @ index + move`."""

    steps: Numbers
    move: Numbers

    @property
    def scale(self) -> Numbers:
        """How far it is from one voxel to the next along each dimension."""
        return np.asarray(np.sqrt((self.steps**2).sum(axis=0)))

    def then(self, linear: Numbers, move: Numbers) -> Placed:
        """With another transformation after it."""
        return Placed(linear @ self.steps, linear @ self.move + move)

    def coarser(self, ratio: Sequence[float], shift: Sequence[float]) -> Placed:
        """That of a level whose voxels are `ratio` as large, the first of which begins where the first one here does."""
        return Placed(self.steps * np.array(ratio), self.move + self.steps @ np.array(shift))

    def in_space(self, letters: str, lengths: Mapping[str, float]) -> tuple[Row, Row, tuple[Row, Row, Row]]:
        """Origin, spacing and directions, x first, where lengths along each axis are multiplied by `lengths`."""
        steps, origin = np.eye(3), np.zeros(3)
        for a, row in enumerate("xyz"):
            if row not in letters:
                continue
            at = letters.index(row)
            origin[a] = self.move[at] * lengths[row]
            for b, column in enumerate("xyz"):
                steps[a, b] = self.steps[at, letters.index(column)] * lengths[row] if column in letters else 0.0
        spacing = np.sqrt((steps**2).sum(axis=0))
        # `0.0 +` makes zeros of negative ones.
        rows = 0.0 + (steps / spacing).T
        return _three(origin), _three(spacing), (_three(rows[0]), _three(rows[1]), _three(rows[2]))


def _three(values: Numbers) -> Row:
    x, y, z = (float(v) for v in values)
    return x, y, z


def placed(
    where: str, letters: str, dataset: Mapping[str, Any], image: Mapping[str, Any], axes: Sequence[str]
) -> Placed:
    """Where a level lies: by its own transformations, then those of the image, which in 0.6 lead to other systems. `axes` are the
    names of the dimensions.

    Raises:
        DataError: if one is of a kind that is not read, or makes no sense.
    """
    rank = len(letters)
    found = Placed(np.eye(rank), np.zeros(rank))
    steps = _list(dataset.get("coordinateTransformations"))
    if "coordinateSystems" not in image:
        steps += _list(image.get("coordinateTransformations"))
    for step in steps:
        found = found.then(*_linear(where, step, rank, axes))
    for n, letter in enumerate(letters):
        if letter in "zyx" and not found.scale[n] > 0:
            raise DataError(
                f"{where}: its scale along {letter} is {found.scale[n]:g}, and should not be 0; correct the metadata"
            )
        mixed = [m for m in range(rank) if m != n and found.steps[n, m] and (letter in "tc") != (letters[m] in "tc")]
        if mixed:
            raise DataError(
                f"{where}: its transformations mix {letter} and {letters[mixed[0]]}, which no volume can; correct the metadata"
            )
    return found


def _linear(where: str, step: Any, rank: int, axes: Sequence[str]) -> tuple[Numbers, Numbers]:
    """The linear part and the shift of one transformation."""
    kind = step.get("type") if isinstance(step, Mapping) else None
    none = np.zeros(rank)
    if kind == "identity":
        return np.eye(rank), none
    if kind == "scale":
        return np.diag(_vector(where, step, kind, rank)), none
    if kind == "translation":
        return np.eye(rank), _vector(where, step, kind, rank)
    if kind == "rotation":
        return _matrix(where, step, kind, (rank, rank)), none
    if kind == "affine":
        known = _matrix(where, step, kind, (rank, rank + 1))
        return known[:, :rank], known[:, rank]
    if kind == "mapAxis":
        return _mapped(where, step.get(kind), rank, axes), none
    if kind == "sequence":
        whole = Placed(np.eye(rank), none)
        for part in _list(step.get("transformations")):
            whole = whole.then(*_linear(where, part, rank, axes))
        return whole.steps, whole.move
    if kind == "bijection":
        return _linear(where, step.get("forward"), rank, axes)
    if kind == "inverseOf":
        linear, move = _linear(where, step.get("transformation"), rank, axes)
        if not abs(np.linalg.det(linear)) > 0:
            raise DataError(f"{where}: its inverseOf is of a transformation that has no inverse; correct the metadata")
        back = np.asarray(np.linalg.inv(linear), dtype=np.float64)
        return back, np.asarray(-back @ move)
    if kind == "byDimension":
        return _by_dimension(where, step, rank, axes)
    raise DataError(
        f"{where}: its transformation '{kind}' is none that is read (identity, scale, translation, rotation, affine, mapAxis, "
        "sequence, byDimension, inverseOf, bijection); take it out of the metadata, or resample the image with it"
    )


def _vector(where: str, step: Mapping[str, Any], kind: str, rank: int) -> Numbers:
    values = step.get(kind)
    if not isinstance(values, list) or len(values) != rank or not all(is_number(v) for v in values):
        raise DataError(f"{where}: its {kind} {values!r} is not {rank} numbers, one an axis; correct the metadata")
    return np.array(values, dtype=np.float64)


def _matrix(where: str, step: Mapping[str, Any], kind: str, shape: tuple[int, int]) -> Numbers:
    rows = step.get(kind)
    good = isinstance(rows, list) and len(rows) == shape[0]
    if not good or not all(isinstance(r, list) and len(r) == shape[1] and all(map(is_number, r)) for r in rows or ()):
        raise DataError(
            f"{where}: its {kind} {rows!r} is not {shape[0]} rows of {shape[1]} numbers each; correct the metadata"
        )
    return np.array(rows, dtype=np.float64)


def _mapped(where: str, said: Any, rank: int, axes: Sequence[str]) -> Numbers:
    """A change of the order of dimensions: by numbers, or by the names of axes."""
    order = said
    if isinstance(said, Mapping):
        names = list(axes)
        order = [names.index(str(said.get(a))) if said.get(a) in names else -1 for a in names]
    if not isinstance(order, list) or sorted(n if isinstance(n, int) else -1 for n in order) != list(range(rank)):
        raise DataError(
            f"{where}: its mapAxis {said!r} does not name each of its {rank} axes once; correct the metadata"
        )
    return np.eye(rank)[order]


def _by_dimension(where: str, step: Mapping[str, Any], rank: int, axes: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Transformations of some dimensions each."""
    names = list(axes)
    linear, move = np.zeros((rank, rank)), np.zeros(rank)
    for part in _list(step.get("transformations")):
        inner = part.get("transformation", part) if isinstance(part, Mapping) else part
        ends = [_list(part.get(key) or part.get(key.replace("_axes", ""))) for key in ("input_axes", "output_axes")]
        at = [[names.index(a) if a in names else a for a in end] for end in ends]
        if len(at[0]) != len(at[1]) or not all(isinstance(n, int) and 0 <= n < rank for end in at for n in end):
            raise DataError(
                f"{where}: its byDimension names axes that are none of {', '.join(names)}; correct the metadata"
            )
        own, shift = _linear(where, inner, len(at[0]), [names[n] for n in at[0]])
        linear[np.ix_(at[1], at[0])] = own
        move[at[1]] = shift
    return linear, move


def by_size(letters: str, first: Sequence[int], own: Sequence[int]) -> tuple[list[float], list[float]]:
    """How much larger voxels of a level are that covers what the first one covers, and where its first one is, in the first's."""
    ratio = [float(max(1, round(f / o))) if a in "zyx" else 1.0 for a, f, o in zip(letters, first, own, strict=True)]
    return ratio, [(v - 1) / 2 for v in ratio]


def agree(where: str, letters: str, nodes: Sequence[Node], found: list[Placed], guessed: list[str]) -> None:
    """Holds what levels say of their voxels against the first one. Those that have its scale, though they have fewer voxels, are
    placed by their sizes: writers forget to say it.

    Raises:
        DataError: if a level is another part of space than the first, or lies in other directions.
    """
    first = nodes[0]
    scale = found[0].scale
    for n, node in enumerate(nodes[1:], 1):
        own = found[n].scale
        if not np.allclose(found[n].steps / own, found[0].steps / scale, atol=_ALIKE):
            raise DataError(
                f"{where}: by its coordinateTransformations the axes of the level '{places.relpath(node.path, where)}' have other "
                f"directions than those of the first; correct them, or open a level alone ({first.path})"
            )
        off = [a for a, letter in enumerate(letters) if letter in "zyx" and _apart(first, scale, node, own, a)]
        if not off:
            continue
        if any(own[a] != scale[a] for a in off):
            a = off[0]
            raise DataError(
                f"{where}: by its coordinateTransformations the level '{places.relpath(node.path, where)}' is "
                f"{node.shape[a] * own[a]:g} long along {letters[a]}, and the first {first.shape[a] * scale[a]:g}: one of them is "
                f"wrong; correct them, or open a level alone ({first.path})"
            )
        found[n] = found[0].coarser(*by_size(letters, first.shape, node.shape))
        guessed.append(
            f"its level '{places.relpath(node.path, where)}' says that its voxels are as large as the first one's, though they "
            "are fewer: it is taken to cover the first one's extent"
        )


def _apart(first: Node, scale: Numbers, node: Node, own: Numbers, axis: int) -> bool:
    """Whether two levels are not of the same length: by more than what rounding and padding make of it."""
    a, b = first.shape[axis] * scale[axis], node.shape[axis] * own[axis]
    return bool(max(a, b) > 1.5 * min(a, b) and abs(a - b) > 2 * max(scale[axis], own[axis]))


_TO = {
    "right": "R", "left": "L", "anterior": "A", "posterior": "P", "superior": "S", "inferior": "I",
}  # fmt: skip
"""Ends of axes whose letters are known."""


def anatomy_of(axes: Sequence[Mapping[str, Any]], letters: str, guessed: list[str]) -> str | None:
    """What +x, +y and +z mean, by the orientation of axes (RFC-4): three letters; None where they do not all say it.

    >>> said = [{"orientation": {"type": "anatomical", "value": v}} for v in ("inferior-to-superior", "anterior-to-posterior")]
    >>> anatomy_of([*said, {"orientation": "right-to-left"}], "zyx", [])
    'LPS'
    """
    found: dict[str, str] = {}
    others = []
    for letter, axis in zip(letters, axes, strict=True):
        about = axis.get("orientation", axis.get("anatomicalOrientation"))
        value = about.get("value") if isinstance(about, Mapping) else about
        if letter not in "xyz" or value is None:
            continue
        known = _TO.get(str(value).lower().rsplit("-to-", 1)[-1])
        if known is None:
            others.append(f"{letter} {value}")
        else:
            found[letter] = known
    word = "".join(found.get(a, "") for a in "xyz")
    if len(word) == 3 and {frozenset(pair) for pair in ("RL", "AP", "SI")} == {
        next(frozenset(pair) for pair in ("RL", "AP", "SI") if w in pair) for w in word
    }:
        return word
    if found or others:
        ways = [f"{a} to {found[a]}" for a in "xyz" if a in found] + others
        guessed.append(f"the orientation of its axes is said of some, or in words without a letter ({', '.join(ways)})")
    return None


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number that is finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []
