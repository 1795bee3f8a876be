"""How open datasets show themselves in notebooks: their text, and a small picture."""

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
"""Pixels of the longer side of the picture."""
NARROWEST = 24
"""Pixels of the shorter side at least."""
PATIENCE_S = 2.0
"""A picture that takes longer is left out: whoever looks at a dataset waits for its text alone."""


class Shown(Protocol):
    """What is asked of an open dataset."""

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
    """Text beside a picture, where there is one. It never raises: what is damaged or closed has no picture, and says so itself.

    >>> import farfield as ff
    >>> as_html(ff.open("demo:phantom")).startswith('<div style="display:flex;gap:1em"><img src="data:image/png;base64,')
    True
    """
    try:
        text = repr(data)
    except Exception as error:  # a closed dataset cannot say what it is
        text = f"<farfield.{type(data).__name__}: {error}>"
    picture = preview(data)
    image = ""
    if picture is not None:
        image = f'<img src="data:image/png;base64,{base64.b64encode(picture).decode()}" style="align-self:flex-start">'
    return f'<div style="display:flex;gap:1em">{image}<pre>{escape(text)}</pre></div>'


def preview(data: Shown) -> bytes | None:
    """A PNG of the plane through the middle that shows most; None where there is none, or it takes too long."""
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
    except Exception:  # whatever is in the way of a picture, the text is there
        return None


def _facing(lowest: Sequence[float], highest: Sequence[float]) -> tuple[str, tuple[int, int]]:
    """The axis along which data are thinnest, and the size of a picture across it.

    >>> _facing((0, 0, 0), (4, 2, 1)), _facing((0, 0, 0), (1, 4, 2))
    (('z', (192, 96)), ('x', (192, 96)))
    """
    lengths = [high - low for low, high in zip(lowest, highest, strict=True)]
    across = min(range(3), key=lambda n: (lengths[n], -n))
    wide, high = (lengths[n] for n in range(3) if n != across)
    longest = max(wide, high) or 1.0
    width, height = (max(NARROWEST, round(SIDE * length / longest)) for length in (wide, high))
    return "xyz"[across], (width, height)
