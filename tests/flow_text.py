"""A made-up format of flows: a header of text, and the numbers of a velocity in a file beside it.

flow 1
points 9 8 7
spacing 0.5
velocity FILE
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from farfield.errors import DataError
from farfield.flow.formats import registry
from farfield.flow.formats.description import Array, Stored, Uniform, Zone, Zones
from farfield.flow.formats.registry import Asked, FlowFormat
from farfield.volume.formats.options import ReaderResources


def read(asked: Asked, resources: ReaderResources) -> Zones | None:
    """The reader."""
    path = asked.files[0]
    try:
        words = dict(line.split(None, 1) for line in Path(path).read_text().splitlines())
        nx, ny, nz = map(int, words["points"].split())
        h, beside = float(words["spacing"]), str(Path(path).parent / words["velocity"].strip())
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path}: no header of Flow Text ({error!r})") from error
    rules = tuple(Uniform(0.0, (h * (n == 0), h * (n == 1), h * (n == 2))) for n in range(3))
    places = Array("xyz", rules, role="coordinates", dtype="float64")
    stored = Stored(beside, ((0, 12 * nx * ny * nz),), "float32", big_endian=True, component_bytes=4, point_bytes=12)
    zone = Zone((nx, ny, nz), (places, Array("velocity", (stored,), components=3)))
    return Zones("Flow Text", (zone,), files=(path, beside), files_of_steps=((),))


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Adds the format to the table."""
    module = ModuleType("flow_text_reader")
    module.read = read  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entry = FlowFormat(lambda asked: asked.files[0].endswith(".flow"), module.__name__, is_always_zones=True)
    monkeypatch.setattr(registry, "FORMATS", (*registry.FORMATS, entry))


def write(folder: Path) -> Path:
    """A flow of 9 x 8 x 7 points with the velocity (1, 0.25, 0)."""
    shape = (7, 8, 9)
    parts = [np.full(shape, value) for value in (1.0, 0.25, 0.0)]
    np.stack(parts, axis=-1).astype(">f4").tofile(folder / "uvw.raw")
    path = folder / "a.flow"
    path.write_text("flow 1\npoints 9 8 7\nspacing 0.5\nvelocity uvw.raw\n")
    return path
