"""The memory limit, measured from outside."""

from __future__ import annotations

from farfield_bench import common, data
from farfield_bench.common import GIB, MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

LIMITS = (32 * MIB, 128 * MIB, 512 * MIB, 2 * GIB, 4 * GIB)


@experiment("limit", "Limit: peak resident memory from 32 MiB to 4 GiB")
def measure(recorder: Recorder) -> None:
    """The command line traces 10,000 random seeds of the 512 x 512 x 256 flow, lines of at most one unit (128 cells).
    It has two workers, and reads the store and the unconverted files. VmHWM is the kernel's figure for the whole
    process. The base is the resident memory before the dataset is opened. `--json` prints both. No cgroup enforces the
    limit.
    """
    quick = recorder.quick
    dims = (193, 193, 97) if quick else (512, 512, 256)
    count = 500 if quick else 10_000
    limits = (6 * MIB, 16 * MIB, 32 * MIB, 128 * MIB) if quick else LIMITS
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    store = common.store(recorder, flow)
    seeds = f"random:{count}:1"
    common.index(flow, "random:1:1", recorder.work / "warm-up.npz")
    bases = []
    outputs = {}
    for limit in limits:
        for name, source in (("store", store), ("in place", flow.source)):
            output = recorder.work / f"limit-{name.replace(' ', '-')}-{limit}.npz"
            over = []
            for _ in range(min(recorder.runs, 3)):
                run = common.trace(
                    source, seeds, output, limit=limit, options=["--max-length", "1", "--max-steps", "10000"]
                )
                found = run.json()
                bases.append(found["base_bytes"])
                over.append(found["resident_peak_bytes"] - found["base_bytes"] - limit)
                recorder.run(
                    f"{name}, limit {limit // MIB} MiB",
                    wall_s=run.wall_s,
                    peak_bytes=found["resident_peak_bytes"],
                    allowed_bytes=limit + found["base_bytes"],
                    ledger_peak_bytes=found["peak_bytes"],
                )
            recorder.claim(
                f"{name}, limit {limit // MIB} MiB: VmHWM less limit and base",
                max(over) / MIB,
                "<=",
                0,
                unit="MiB",
                right=True,
            )
            outputs[f"{name}, {limit // MIB} MiB"] = output
    recorder.claim("base from the command line", max(bases) / MIB, "<=", 160, unit="MiB")
    sums = {common.checksum(p) for p in outputs.values()}
    recorder.claim("results that differ between limits and layouts", len(sums) - 1, "==", 0, right=True)
    for p in outputs.values():
        p.unlink()
