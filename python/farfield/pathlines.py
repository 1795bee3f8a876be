"""What pathlines are asked for beside what all lines are."""

from __future__ import annotations

from typing import Any


def path_options(
    kind: str, direction: str | None, t0: float | None, t1: float | None, time_step: float | None, hold_steps: bool
) -> dict[str, Any]:
    """Options of the extension for a kind of line. A pathline whose end is before its release goes backward.

    >>> path_options("pathline", None, 2.0, 1.0, None, False)["direction"]
    'backward'
    >>> path_options("streamline", None, None, None, None, False)
    {'kind': 'streamline', 'direction': 'both'}
    """
    if kind == "streamline":
        return {"kind": kind, "direction": direction or "both"}
    if direction is None:
        direction = "backward" if t0 is not None and t1 is not None and t1 < t0 else "forward"
    return {
        "kind": kind,
        "direction": direction,
        "t0": t0,
        "t1": t1,
        "time_step": time_step,
        "hold_steps": hold_steps,
    }
