"""Volumes as tests read them: through the readers, and the numbers through whatever stands for the extension."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fake_volume import Volume
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read


class Read:
    """A volume that was read: its `spec`, what was said, and its numbers."""

    def __init__(self, description: VolumeDescription, said: list[str]) -> None:
        # What crosses to the extension is JSON: whatever JSON cannot hold is found here.
        self.spec = json.loads(json.dumps(description.spec, allow_nan=False))
        self.description = description
        self.said = said
        self.native = Volume(self.spec, description.tables)

    @property
    def level(self) -> dict[str, Any]:
        return dict(self.spec["levels"][0])

    @property
    def array(self) -> dict[str, Any]:
        return dict(self.level["arrays"][0])

    def numbers(self, channel: int = 0, step: int = 0, level: int = 0) -> np.ndarray[Any, Any]:
        """[z, y, x]."""
        x, y, z = self.spec["levels"][level]["dims"]
        return self.native.read_box(level, channel, (0, 0, 0), (x, y, z), step)

    @property
    def affine(self) -> np.ndarray[Any, Any]:
        """From (i, j, k, 1) to positions."""
        found = np.eye(4)
        found[:3, :3] = np.array(self.spec["direction"]).T * self.level["spacing"]
        found[:3, 3] = self.level["origin"]
        return found

    @property
    def guessed(self) -> str:
        return "\n".join(self.spec["guessed"])


def look(path: Path | str, cache: Path, **options: Any) -> Read:
    """Reads a volume; what is converted goes into `cache`."""
    said: list[str] = []
    return Read(read(str(path), Options.of(options), ReaderResources(cache, None, said.append)), said)
