"""Pictures of flows within walls: what goes on inside is seen, not the walls alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from case_table import Cases, Try

INSIDE = 0.04
"""Share of the pixels that lines of a first picture take at least, where nothing hides them."""


def lines_seen(picture: str) -> float:
    """Share of the pixels that are coloured as lines are by speed: walls, edges and letters are grey."""
    pixels = np.asarray(Image.open(picture).convert("HSV"))
    return float(((pixels[..., 1] > 110) & (pixels[..., 2] > 60))[:, : pixels.shape[1] * 4 // 5].mean())


def seen(picture: str) -> object:
    def check(folder: Path) -> None:
        share = lines_seen(str(folder / picture))
        assert share > INSIDE, f"{picture}: lines take {share:.1%} of it"

    return check


def hidden(picture: str) -> object:
    def check(folder: Path) -> None:
        share = lines_seen(str(folder / picture))
        assert share < INSIDE, f"{picture}: lines take {share:.1%} of it"

    return check


def of(name: str) -> list[Try]:
    source = f"{name}.xyz+q={name}.q"
    return [
        Try(f"render {source} -o {name}.png --size 480x300 --save-scene {name}.json", check=seen(f"{name}.png")),  # type: ignore[arg-type]
        # From the other side other walls are in the way.
        Try(f"render {source} -o back.png --size 480x300 --view 0.4,0.8,-0.4", check=seen("back.png")),  # type: ignore[arg-type]
        Try(f"render {source} -o bare.png --size 480x300 --no-walls", says=("streamlines",), never=("walls",)),
        Try(f"scene {source}", says=(r'"cut": true', r'"seeds": "interest:160:1"')),
    ]


CASES: Cases = {"flows/internal-flow-picture": [*of("pipe"), *of("cavity")]}
