"""Parcels' compiled kernel over a series in memory: `ENVIRONMENT/bin/python parcels_peer.py OPTIONS`.

Its environment has Parcels but not Farfield, so it imports no module of Farfield. Prints one JSON object.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _velocity(path: str, dims: list[int]) -> NDArray[np.float32]:
    """Values of a PLOT3D file of one zone in single precision, [component, k, j, i]."""
    shape = tuple(reversed(dims))
    points = dims[0] * dims[1] * dims[2]
    head = 12 + 20 + 24 + 4  # the number of zones, their size, the header, the mark of the record of values
    density = np.memmap(path, "<f4", "r", head, shape)
    momentum = np.memmap(path, "<f4", "r", head + 4 * points, (3, *shape))
    found: NDArray[np.float32] = momentum / density
    return found


def particles(o: dict[str, Any]) -> dict[str, Any]:
    """Pathlines by RK4 with a fixed step, again and again.

    Parcels takes steps of whole microseconds, so times are in steps and velocities in lengths a step. A first step, not
    measured, compiles the kernel and finds the particles in the grid.
    """
    parcels = importlib.import_module("parcels")
    steps = o["steps_between"]
    span = (o["times"][-1] - o["times"][0]) / (len(o["times"]) - 1) / steps
    shape = (len(o["q"]), *reversed(o["dims"]))
    u, v, w = (np.empty(shape, dtype=np.float32) for _ in range(3))
    for n, path in enumerate(o["q"]):
        u[n], v[n], w[n] = _velocity(path, o["dims"]) * np.float32(span)
    x, y, z = (d * np.arange(n) for d, n in zip(o["spacing"], o["dims"], strict=True))
    axes = {"time": steps * np.arange(len(o["q"]), dtype=np.float64), "lon": x, "lat": y, "depth": z}
    fields = parcels.FieldSet.from_data({"U": u, "V": v, "W": w}, axes, mesh="flat")
    seeds = np.load(o["seeds"])
    total = steps * (len(o["q"]) - 1)
    rows = []
    for _ in range(o["runs"]):
        flock = parcels.ParticleSet(
            fields,
            pclass=parcels.JITParticle,
            lon=seeds[:, 0],
            lat=seeds[:, 1],
            depth=seeds[:, 2],
            time=np.zeros(len(seeds)),
            lonlatdepth_dtype=np.float64,
        )
        kernel = flock.Kernel(parcels.AdvectionRK4_3D)
        flock.execute(kernel, runtime=1.0, dt=1.0, verbose_progress=False)
        wall, cpu = time.perf_counter(), time.process_time()
        flock.execute(kernel, runtime=total - 1.0, dt=1.0, verbose_progress=False)
        row = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
        rows.append({**row, "steps": (total - 1) * len(seeds)})
    data = flock.particledata.data
    # Parcels stores the position after the last step under this name.
    ends = np.stack([data[f"{axis}_nextloop"] for axis in ("lon", "lat", "depth")], axis=-1)
    np.save(o["ends"], ends[np.argsort(data["id"])])
    return {"runs": rows, "left": len(seeds) - len(ends), "version": parcels.__version__}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(particles(json.loads(sys.argv[1]))))
