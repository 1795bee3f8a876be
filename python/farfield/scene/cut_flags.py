"""Contours and planes from the flags of `farfield render`.

>>> [(o.field, o.values) for o in cuts(["mach=1,1.2", "300"], [])]
[('mach', [1.0, 1.2]), (None, [300.0])]
>>> [(o.normal, o.origin) for o in cuts([], ["z=0.1", "y", "1,0,1=0,0,2"])]
[('z', (0.0, 0.0, 0.1)), ('y', None), ((1.0, 0.0, 1.0), (0.0, 0.0, 2.0))]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farfield.errors import UsageError
from farfield.scene.models import Contour, Slice

_FORMS = "write it like --slice z=0.1, --slice z (through the middle), or --slice NX,NY,NZ=X,Y,Z"


def cuts(contours: Sequence[str], slices: Sequence[str]) -> list[Contour | Slice]:
    """The objects of a scene for the flags.

    Raises:
        UsageError: if the form of a flag is wrong.
    """
    return [*map(_contour, contours), *map(_slice, slices)]


def _contour(text: str) -> Contour:
    field, _, values = text.rpartition("=")
    # A comparison also ends in an equals sign, but has no surfaces.
    numbers = _numbers(values)
    if not numbers or field.endswith(("=", "<", ">", "!")):
        raise UsageError(f"--contour '{text}' is no field with a value; write it like --contour mach=1")
    return Contour(field=field.strip() or None, values=numbers)


def _slice(text: str) -> Slice:
    across, equals, place = text.partition("=")
    across = across.strip().lower()
    if across not in ("x", "y", "z"):
        normal, origin = _numbers(across), _numbers(place)
        if len(normal) != 3 or (equals and len(origin) != 3) or not any(normal):
            raise UsageError(f"--slice '{text}' is no plane; {_FORMS}")
        return Slice.model_validate({"normal": normal, "origin": origin or None})
    if not equals:
        return Slice.model_validate({"normal": across})
    at = _numbers(place)
    if len(at) != 1:
        raise UsageError(f"--slice '{text}' is no plane; {_FORMS}")
    point: dict[str, Any] = {axis: at[0] if axis == across else 0.0 for axis in "xyz"}
    return Slice.model_validate({"normal": across, "origin": list(point.values())})


def _numbers(text: str) -> list[float]:
    """Numbers separated by commas; empty if one of them is not a finite number."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        return []
    return found if all(abs(number) < float("inf") for number in found) else []
