"""Display of open datasets in notebooks: text and a small picture."""

from __future__ import annotations

import base64
import os
import tempfile
import time
from collections.abc import Sequence
from html import escape
from typing import Any, Protocol

from farfield.runtime.progress import Report

SIDE = 192
"""Longer side of the picture in pixels."""
NARROWEST = 24
"""Shortest side of the picture in pixels."""
PATIENCE_S = 2.0
"""Time limit of the picture: past it, the notebook shows the text alone."""


class Shown(Protocol):
    """Methods of an open dataset that the display uses."""

    def _box(self, progress: Report) -> Sequence[Sequence[float]]: ...

    def _preview_field(self) -> str | None: ...

    def write_slice(
        self,
        output: str,
        *,
        normal: str,
        size: Sequence[int],
        field: str | None,
        bar: bool,
        letters: bool,
        progress: Report,
    ) -> dict[str, Any]:
        """Writes a plane as a picture."""


def as_html(data: Shown) -> str:
    """HTML of the text and, if there is one, the picture. Never raises: a damaged or closed dataset has no picture, and
    its text gives the reason.

    >>> import farfield as ff
    >>> as_html(ff.open("demo:phantom")).startswith('<div style="display:flex;gap:1em"><img src="data:image/png;base64,')
    True
    """
    try:
        text = repr(data)
    except Exception as error:  # a closed dataset has no repr
        text = f"<farfield.{type(data).__name__}: {error}>"
    picture = preview(data)
    image = ""
    if picture is not None:
        image = f'<img src="data:image/png;base64,{base64.b64encode(picture).decode()}" style="align-self:flex-start">'
    return f'<div style="display:flex;gap:1em">{image}<pre>{escape(text)}</pre></div>'


def preview(data: Shown) -> bytes | None:
    """A PNG of the largest plane through the middle; None if it fails or takes too long."""
    until = time.monotonic() + PATIENCE_S

    def report(phase: str, done: float, total: float) -> bool:
        return time.monotonic() < until

    try:
        normal, size = _facing(*data._box(report))
        with tempfile.TemporaryDirectory(prefix="farfield-") as folder:
            name = os.path.join(folder, "preview.png")
            field = data._preview_field()
            done = data.write_slice(
                name, normal=normal, size=size, field=field, bar=False, letters=False, progress=report
            )
            if not done["pixels"]["values"]:
                return None
            with open(name, "rb") as file:
                return file.read()
    except Exception:  # a missing picture is no error: the text remains
        return None


def _facing(lowest: Sequence[float], highest: Sequence[float]) -> tuple[str, tuple[int, int]]:
    """The axis with the smallest extent of the data, and the size of a picture across it.

    >>> _facing((0, 0, 0), (4, 2, 1)), _facing((0, 0, 0), (1, 4, 2))
    (('z', (192, 96)), ('x', (192, 96)))
    """
    lengths = [high - low for low, high in zip(lowest, highest, strict=True)]
    across = min(range(3), key=lambda n: (lengths[n], -n))
    wide, high = (lengths[n] for n in range(3) if n != across)
    longest = max(wide, high) or 1.0
    width, height = (max(NARROWEST, round(SIDE * length / longest)) for length in (wide, high))
    return "xyz"[across], (width, height)
