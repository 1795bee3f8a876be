"""What the arrays of VTK files become: fields, of which those of three numbers are vectors (of two in a plane)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

VELOCITY = "velocity"
"""The field that lines follow unless another one is named."""
_AXES = "xyz"
SPELLINGS = (
    "u v w", "ux uy uz", "u_x u_y u_z", "vx vy vz", "v_x v_y v_z", "velx vely velz", "vel_x vel_y vel_z",
    "velocityx velocityy velocityz", "velocity_x velocity_y velocity_z", "x_velocity y_velocity z_velocity",
    "x-velocity y-velocity z-velocity", "velocity_0 velocity_1 velocity_2", "velocity:0 velocity:1 velocity:2",
    "velocity-x velocity-y velocity-z", "xvelocity yvelocity zvelocity",
)  # fmt: skip
"""How the components of a velocity are called that are arrays of their own."""
_VELOCITIES = frozenset((
    "u", "v", "vel", "velocity", "velocities", "velocity_field", "flow", "flow_velocity", "umean", "vec", "vector", "vectors",
))  # fmt: skip
"""How a velocity is called, in small letters."""
_NO_FLOW = re.compile(r"rgb|colou?r|normal", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Arrayed:
    """An array of a file: its name, and how many numbers it has for a point."""

    name: str
    components: int


@dataclass(frozen=True)
class Variable:
    """A field that arrays become."""

    name: str
    parts: tuple[tuple[str, int], ...]
    """Name of the array and number there of each component."""


@dataclass
class Variables:
    """What arrays become."""

    fields: list[Variable] = field(default_factory=list)
    define: dict[str, str] = field(default_factory=dict)
    """Fields that go by other names too."""
    remarks: list[str] = field(default_factory=list)


def components_of_velocity(names: Sequence[str], *, planar: bool = False) -> list[str] | None:
    """Which of some names are the components of a velocity; None where there are none.

    >>> components_of_velocity(["p", "U", "V", "W"]), components_of_velocity(["u", "v"], planar=True)
    (['U', 'V', 'W'], ['u', 'v'])
    """
    by_small = {name.lower(): name for name in reversed(names)}
    for spelling in SPELLINGS:
        words = spelling.split()[: 2 if planar else 3]
        if all(word in by_small for word in words):
            return [by_small[word] for word in words]
    return None


def is_flow(arrays: Sequence[tuple[str, int, str]], *, planar: bool) -> bool:
    """Whether arrays (name, numbers a point, type) are a flow's: one is a vector of fractions that is no colour or normal, or
    the components of a velocity are there.

    >>> is_flow([("density", 1, "float32"), ("U", 3, "float32")], planar=False), is_flow([("rgb", 3, "float32")], planar=False)
    (True, False)
    """
    real = [(name, count) for name, count, dtype in arrays if dtype.startswith("float")]
    vectors = [name for name, count in real if (count == 3 or (planar and count == 2)) and not _NO_FLOW.search(name)]
    return bool(vectors) or components_of_velocity([n for n, c in real if c == 1], planar=planar) is not None


def variables_of(arrays: Sequence[Arrayed], *, planar: bool) -> Variables:
    """The fields that arrays become, and those that go by other names too.

    >>> [(of.name, len(of.parts)) for of in variables_of([Arrayed(name, 1) for name in "upvw"], planar=False).fields]
    [('velocity', 3), ('p', 1)]
    """
    made = Variables()
    vectors = [a.name for a in arrays if a.components == 3 or (planar and a.components == 2)]
    has_velocity = any(a.name == VELOCITY for a in arrays)
    parts = (
        None if has_velocity else components_of_velocity([a.name for a in arrays if a.components == 1], planar=planar)
    )
    if parts is not None:
        made.fields.append(Variable(VELOCITY, tuple((part, 0) for part in parts)))
        for axis, part in zip(_AXES, parts, strict=False):
            if part != f"{VELOCITY}_{axis}" and _WORD.match(part):
                made.define[part] = f"{VELOCITY}_{axis}"
        made.remarks.append(f"The arrays {', '.join(parts)} are taken together as the vector {VELOCITY}.")
    for array in arrays:
        if parts is not None and array.name in parts:
            continue
        name = array.name.replace(";", ",").replace("\n", " ").strip()
        each = tuple((array.name, n) for n in range(array.components))
        if array.components == 3 and planar:
            made.fields += [Variable(name, each[:2]), Variable(f"{name}_z", each[2:])]
        elif array.components == (2 if planar else 3) or array.components == 1:
            made.fields.append(Variable(name, each))
        else:
            made.fields += [Variable(f"{name} {n}", (part,)) for n, part in enumerate(each)]
    if parts is None and not has_velocity and len(vectors) == 1 and vectors[0].lower() in _VELOCITIES:
        made.define[VELOCITY] = vectors[0]
        made.remarks.append(f"The vector {vectors[0]} also goes by the name {VELOCITY}.")
    return made
