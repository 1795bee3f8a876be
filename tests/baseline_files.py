"""What the files of tests/baseline hold, by formula, and how they are made.

`python tests/baseline_files.py FOLDER` writes the inputs into a folder and runs there the commands that tests/baseline/README.md
lists. The kept files are those of version 0.1.0. They are read by the tests, and never made again.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from plot3d_files import Block, box, cut, write

Array = NDArray[np.float64]
Number = TypeVar("Number", float, Array)

BASELINE = Path(__file__).resolve().parent / "baseline"
TIMES = (0.0, 0.5, 1.0)
DENSITY, PRESSURE, RISE = 1.2, 0.8, 0.1


def rate(time: Number) -> Number:
    """How fast the flow turns about x = y = 0.5. It is linear in time, as what lies between two time steps is."""
    return 1.0 + 0.5 * time


def angle(time: Number) -> Number:
    """By how much it has turned since time 0."""
    return time + 0.25 * time * time


def velocity(x: Array, y: Array, time: float) -> Array:
    """[3, ...]. It is linear in space, so that the interpolation in a cell is exact, whatever the cell's shape."""
    turn = rate(time)
    return np.array([(0.5 - y) * turn, (x - 0.5) * turn, np.full_like(x, RISE)])


def turned(seed: Array, by: Array, after: Array) -> Array:
    """[n, 3]: where a particle is that has turned by these angles in these times."""
    x, y, z = seed[0] - 0.5, seed[1] - 0.5, seed[2]
    return np.stack(
        [0.5 + x * np.cos(by) - y * np.sin(by), 0.5 + x * np.sin(by) + y * np.cos(by), z + RISE * after], axis=-1
    )


def energy(speed: Array) -> Array:
    """Per volume, of [3, ...] velocities."""
    return np.asarray(PRESSURE / 0.4 + 0.5 * DENSITY * (speed * speed).sum(axis=0))


def flow(time: float) -> list[Block]:
    """Two warped zones of the unit cube that share a layer of points."""
    whole = box(11, 7, 5)
    speed = velocity(whole.xyz[0], whole.xyz[1], time)
    whole.q = [np.full_like(speed[0], DENSITY), *(DENSITY * speed), energy(speed)]
    return cut(whole, 2)


HOLE = (slice(2, 3), slice(3, 5), slice(4, 6))
"""[k, j, i] of the points that are blanked out."""


def walls() -> Block:
    """A shear flow along x over a wall at y = 0, with a hole in it."""
    whole = box(9, 7, 5, size=(2, 1, 1))
    y = whole.xyz[1]
    speed = np.array([y, np.zeros_like(y), np.zeros_like(y)])
    iblank = np.ones(y.shape, "i4")
    iblank[:, 0] = 2
    iblank[HOLE] = 0
    whole.q = [np.full_like(y, DENSITY), *(DENSITY * speed), energy(speed)]
    return Block(whole.xyz, whole.q, iblank)


SHAPE = (12, 16, 20)
"""[k, j, i] of the volumes."""
SPACING = (0.5, 0.5, 1.0)
"""Of the scalars, along x, y and z."""
MISSING = -9999.0


def _indices() -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    k, j, i = np.indices(SHAPE)
    return k, j, i


def scalars() -> NDArray[np.float32]:
    """Linear in space, so that a mean of voxels is the value at their centre; a box of them is missing."""
    k, j, i = _indices()
    found = (i + 2 * j + 4 * k).astype("f4")
    found[3:6, 5:8, 7:10] = MISSING
    return found


def labels() -> NDArray[np.uint16]:
    """Blocks of four voxels a side, which hold together through two levels."""
    k, j, i = _indices()
    return (i // 4 + 10 * (j // 4) + 100 * (k // 4)).astype("u2")


def colours() -> NDArray[np.uint8]:
    """[k, j, i, 3]: linear along an axis each, in steps that a mean of two does not round."""
    k, j, i = _indices()
    return np.stack([8 * i, 8 * j, 8 * k], axis=-1).astype("u1")


def write_inputs(folder: Path) -> None:
    """The files that the commands of the README read."""
    for n, time in enumerate(TIMES):
        write(folder, flow(time), stem=f"s_{n}", time=time)
    write(folder, [walls()], stem="walls", real=4, time=0.0)
    scalars().tofile(folder / "scalar.raw")
    labels().tofile(folder / "labels.raw")
    colours().tofile(folder / "rgb.raw")


def commands() -> list[list[str]]:
    """Those of the README, as words."""
    text = (BASELINE / "README.md").read_text(encoding="utf-8").replace("\\\n", " ")
    return [shlex.split(line) for line in re.findall(r"^    farfield (.*)$", text, re.MULTILINE)]


def make(folder: Path) -> None:
    """Inputs and files in one folder; `> FILE` keeps what a command prints.

    Raises:
        CalledProcessError: if a command fails.
    """
    write_inputs(folder)
    (folder / "scenes").mkdir()
    # Logs hold the words of the process: by its bare name they say nothing of this machine.
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    for words in commands():
        printed = words[words.index(">") + 1] if ">" in words else os.devnull
        with open(folder / printed, "w", encoding="utf-8") as file:
            told = words[: words.index(">")] if ">" in words else words
            subprocess.run(["python", "-m", "farfield", *told], cwd=folder, env=environment, stdout=file, check=True)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
