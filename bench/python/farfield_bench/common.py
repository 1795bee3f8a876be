"""Shared parts of the experiments: stores made once, the base below a limit, and errors of lines."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farfield.errors import DataError
from farfield_bench import arms, data, series
from farfield_bench.data import Array, Dims, Flow
from farfield_bench.result import Recorder
from farfield_bench.series import Series

MIB = 1 << 20
GIB = 1 << 30
PLENTY = 8 * GIB
"""A memory limit that no run here reaches."""

SMALL: Dims = (97, 97, 49)
"""Size of the data of quick runs."""


def one_core() -> list[int]:
    """The first core that this process may use."""
    return sorted(os.sched_getaffinity(0))[:1]


def cache(recorder: Recorder) -> Path:
    """The folder with indexes of data paged in place, set for all later arms."""
    folder = (recorder.work / "cache").resolve()
    os.environ["FARFIELD_CACHE_DIR"] = str(folder)
    return folder


def store(
    recorder: Recorder, flow: Flow, *, page: int | None = None, codec: str | None = None, layout: str | None = None
) -> Path:
    """A converted store of a flow, made once. A store that this Farfield cannot open is made again.

    Raises:
        DataError: if it cannot be made.
    """
    words = [str(w) for w in (page and f"p{page}", codec, layout) if w]
    path = recorder.work / ("-".join([flow.grid.stem, *words]) + ".zarr")
    if path.exists() and arms.run(arms.farfield("info", path, "--json")).code == 0:
        return path
    convert(flow, path, page=page, codec=codec, layout=layout).json()
    return path


def series_store(recorder: Recorder, flow: Series, *, page: int | None = None, codec: str | None = None) -> Path:
    """The converted store of a series, made once.

    Raises:
        DataError: if it cannot be made.
    """
    words = [str(w) for w in (page and f"p{page}", codec) if w]
    path = recorder.work / ("-".join([flow.grid.parent.name, *words]) + ".zarr")
    if not (path.exists() and arms.run(arms.farfield("info", path, "--json")).code == 0):
        convert(flow, path, page=page, codec=codec, limit=512 * MIB, timeout_s=3600).json()
    return path


@dataclass(frozen=True)
class Flows:
    """Stores of a steady flow and of one on a moving grid."""

    dims: Dims
    steady: Path
    moving_dims: Dims
    moving: Path

    @classmethod
    def make(cls, recorder: Recorder, *, steps: int = 40) -> Flows:
        """Both, made once: 256 x 256 x 128 points, and 97 x 97 x 49 at so many time steps.

        Raises:
            DataError: if they cannot be made.
        """
        cache(recorder)
        dims, moving_dims = (SMALL, (65, 65, 33)) if recorder.quick else ((256, 256, 128), SMALL)
        steady = store(recorder, data.single(recorder.work, dims))
        moving = series.make(recorder.work, moving_dims, 8 if recorder.quick else steps, kind="moving")
        return cls(dims, steady, moving_dims, series_store(recorder, moving))


def seeds_file(recorder: Recorder, name: str, points: Array) -> str:
    """Seeds in a file, as `--seeds` takes it."""
    path = (recorder.work / f"{name}.npy").resolve()
    np.save(path, points)
    return str(path)


def convert(
    flow: Flow | Series,
    path: Path,
    *,
    page: int | None = None,
    codec: str | None = None,
    layout: str | None = None,
    limit: int = 256 * MIB,
    **how: Any,
) -> arms.Run:
    """Runs `farfield convert`; `how` goes to `arms.run`."""
    shutil.rmtree(path, ignore_errors=True)
    words = ["convert", flow.source, str(path), "--memory-limit", str(limit), "--json", "--no-progress", "-q"]
    for flag, value in (("--page", page), ("--codec", codec), ("--layout", layout)):
        if value is not None:
            words += [flag, str(value)]
    return arms.run(arms.farfield(*words), **how)


def random_file(folder: Path, size: int) -> None:
    """Makes a folder with a file of so many random bytes, whole mebibytes, and has the file in memory."""
    folder.mkdir(exist_ok=True)
    file = folder / "random.bin"
    if not file.exists() or file.stat().st_size != size:
        with file.open("wb") as out:
            for _ in range(size // MIB):
                out.write(os.urandom(MIB))
    arms.warm([file])


def remove(path: Path) -> None:
    """Removes a store made for a measurement."""
    shutil.rmtree(path, ignore_errors=True)


def trace(
    source: str | Path,
    seeds: str | Path,
    output: Path,
    *,
    limit: int,
    options: Iterable[str] = (),
    **how: Any,
) -> arms.Run:
    """Runs `farfield trace` forward; `how` goes to `arms.run`."""
    words = ["trace", str(source), "--seeds", str(seeds), "-o", str(output), "--memory-limit", str(limit)]
    words += ["--direction", "forward", "--workers", "0", "--readers", "0"]
    return arms.run(arms.farfield(*words, "--json", "--no-progress", "-q", *options), **how)


def base_bytes(recorder: Recorder, source: str | Path) -> int:
    """Resident bytes of the command line before it opens a dataset, from its own output. A limit is added to them."""
    output = recorder.work / "base.npz"
    return int(trace(source, "random:1:1", output, limit=64 * MIB, options=["--max-steps", "1"]).json()["base_bytes"])


def index(flow: Flow, seeds: str | Path, output: Path) -> float:
    """Builds the cached boxes of a flow paged in place by a trace of it. Returns the seconds."""
    run = trace(flow.source, seeds, output, limit=256 * MIB)
    run.json()
    return run.wall_s


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def same_bytes(recorder: Recorder, what: str, paths: dict[str, Path]) -> None:
    """Claims that files are equal byte for byte."""
    different = len({checksum(p) for p in paths.values()}) - 1
    recorder.claim(f"{what}: results that differ between {', '.join(paths)}", different, "==", 0, right=True)


@dataclass(frozen=True)
class Lines:
    """Traced lines, one per seed."""

    points: NDArray[np.float64]
    offsets: NDArray[np.int64]
    time: NDArray[np.float64]
    velocity: NDArray[np.float64]
    seed: NDArray[np.int64]

    @classmethod
    def load(cls, path: Path) -> Lines:
        """From an .npz file of `farfield trace --scalars velocity` or of a peer.

        Raises:
            DataError: if it lacks an array.
        """
        try:
            with np.load(path) as z:
                offsets = z["offsets"]
                seed = z["seed"] if "seed" in z.files else np.arange(len(offsets) - 1)
                return cls(z["points"], offsets, z["time"], z["velocity"], seed)
        except (KeyError, OSError, ValueError) as error:
            raise DataError(f"{path}: not traced lines: {error}") from error

    def of(self, n: int) -> slice:
        """The points of line `n`."""
        return slice(int(self.offsets[n]), int(self.offsets[n + 1]))


def deviations(lines: Lines, reference: Lines) -> NDArray[np.float64]:
    """Rows (N, 3), one for each seed in both: its number, the largest distance of the line's points from the
    reference's curve, and the length. Only the part before the end of either line counts.

    The reference's curve is the cubic Hermite one through its points along its velocities. Times are not compared: VTK
    integrates over length, and its times are of first order.
    """
    known = {int(s): n for n, s in enumerate(reference.seed)}
    rows = []
    for n, s in enumerate(lines.seed):
        if int(s) in known:
            own, ref = lines.points[lines.of(n)], reference.of(known[int(s)])
            x, v = _distinct(reference.points[ref], reference.velocity[ref])
            if len(own) > 1 and len(x) > 1:
                away, beyond = _distances(own, x, v)
                # Points past the reference's end do not count.
                kept = len(own) if not beyond.any() else max(int(np.argmax(beyond)), 1)
                length = float(np.linalg.norm(np.diff(own[:kept], axis=0), axis=1).sum())
                rows.append((int(s), float(away[:kept].max()), length))
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _distinct(x: NDArray[np.float64], v: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    keep = np.concatenate([[True], np.linalg.norm(np.diff(x, axis=0), axis=1) > 0])
    return x[keep], v[keep]


def _distances(
    own: NDArray[np.float64], x: NDArray[np.float64], v: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Distance of each point from a curve, and whether the point is beyond the curve's end."""
    nearest = np.empty(len(own), dtype=np.int64)
    for part in range(0, len(own), 256):  # as many pairs at a time as fit in a cache
        square = ((own[part : part + 256, None, :] - x[None, :, :]) ** 2).sum(axis=2)
        nearest[part : part + 256] = square.argmin(axis=1)
    best = np.full(len(own), np.inf)
    beyond = np.zeros(len(own), dtype=bool)
    for first in (nearest - 1, nearest):
        n = np.clip(first, 0, len(x) - 2)
        a, b = x[n], x[n + 1]
        h = np.linalg.norm(b - a, axis=1)[:, None]
        u, w = (v[m] / np.maximum(np.linalg.norm(v[m], axis=1), 1e-300)[:, None] * h for m in (n, n + 1))
        s = np.clip((((own - a) * (b - a)).sum(axis=1) / h[:, 0] ** 2), 0, 1)
        for _ in range(4):  # Newton on the distance; the segments are nearly straight
            at, slope = _hermite(a, b, u, w, s[:, None])
            s = np.clip(s + ((own - at) * slope).sum(axis=1) / np.maximum((slope**2).sum(axis=1), 1e-300), 0, 1)
        away = np.linalg.norm(_hermite(a, b, u, w, s[:, None])[0] - own, axis=1)
        past = (n == len(x) - 2) & (s >= 1) & (((own - b) * w).sum(axis=1) > 0)
        beyond = np.where(away < best, past, beyond)
        best = np.minimum(best, away)
    return best, beyond


def _hermite(
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    u: NDArray[np.float64],
    w: NDArray[np.float64],
    s: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Place and slope at `s`, 0 to 1, between two points with slopes."""
    at = (1 + 2 * s) * (1 - s) ** 2 * a + s * (1 - s) ** 2 * u + s**2 * (3 - 2 * s) * b + s**2 * (s - 1) * w
    slope = 6 * s * (s - 1) * (a - b) + (1 - s) * (1 - 3 * s) * u + s * (3 * s - 2) * w
    return at, slope
