"""Fields that users define: `NAME = EXPRESSION`, a list of these, or a mapping.

>>> texts({"a": "2 * mach"}), texts(["a=2 * mach"]), texts("a = 2 * mach")
(['a = 2 * mach'], ['a = 2 * mach'], ['a = 2 * mach'])
>>> mapping(["a = 1", "b=a == 1"])
{'a': '1', 'b': 'a == 1'}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from farfield.errors import UsageError

Definitions = Mapping[str, str] | Sequence[str] | str


def texts(define: Definitions | None) -> list[str]:
    """Each definition as `NAME = EXPRESSION`. Invalid ones stay unchanged, so that the parser reports them."""
    if define is None:
        return []
    if isinstance(define, Mapping):
        return [f"{name.strip()} = {expression.strip()}" for name, expression in define.items()]
    given = [define] if isinstance(define, str) else define
    return [" = ".join(parts) if (parts := _parted(text)) else text for text in given]


def mapping(define: Definitions | None) -> dict[str, str]:
    """Names and expressions, without invalid definitions."""
    return dict(parts for text in texts(define) if (parts := _parted(text)))


def checked(define: Definitions | None) -> dict[str, str]:
    """As `mapping`.

    Raises:
        UsageError: if a definition is invalid.
    """
    for text in texts(define):
        if _parted(text) is None:
            raise UsageError(f"'{text}' is no definition; write NAME = EXPRESSION")
    return mapping(define)


def added(plot3d: Mapping[str, Any] | None, more: Definitions | None) -> Mapping[str, Any] | None:
    """Appends definitions to those in the options of a source.

    >>> added({"define": ["a = 1"]}, {"b": "2"}), added(None, None)
    ({'define': ['a = 1', 'b = 2']}, None)
    """
    return {**(plot3d or {}), "define": [*texts((plot3d or {}).get("define")), *texts(more)]} if more else plot3d


def beneath(plot3d: Mapping[str, Any] | None, below: Definitions | None) -> Mapping[str, Any] | None:
    """Puts definitions before those in the options of a source, which win for equal names.

    >>> beneath({"define": ["a=1"]}, {"a": "2", "b": "3"})
    {'define': ['b = 3', 'a = 1']}
    """
    own = texts((plot3d or {}).get("define"))
    names = mapping(own)
    rest = {name: expression for name, expression in mapping(below).items() if name not in names}
    return {**(plot3d or {}), "define": [*texts(rest), *own]} if rest or own else plot3d


SPEED = "velocity_magnitude"
_OF_VELOCITY = "magnitude(velocity)"


def speed(fields: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The definition of the speed, if the velocity is stored or defined by a user: then the extension derives no speed.
    Empty without such a velocity, or if the speed exists. `fields` are those of `info`.

    >>> velocity = {"name": "velocity", "derived": False}
    >>> speed([velocity]), speed([velocity | {"derived": True}]), speed([velocity, {"name": "velocity_magnitude"}])
    ({'velocity_magnitude': 'magnitude(velocity)'}, {}, {})
    """
    by_name = {f["name"]: f for f in fields}
    velocity, own = by_name.get("velocity"), by_name.get(SPEED)
    if velocity is None or velocity.get("zones") is not None:
        return {}
    is_given = not velocity["derived"] or velocity.get("defined", False)
    is_ours = own is None or own.get("definition") == _OF_VELOCITY
    return {SPEED: _OF_VELOCITY} if is_given and is_ours else {}


def _parted(text: str) -> tuple[str, str] | None:
    name, equals, expression = text.partition("=")
    return (name.strip(), expression.strip()) if equals and name.strip() else None
