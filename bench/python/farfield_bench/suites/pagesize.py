"""Choice of the default page size and codec."""

from __future__ import annotations

from farfield_bench import common, data
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

PAGES = (8, 16, 32, 64)
CODECS = ("none", "zstd", "lz4")


@experiment("pagesize", "Page size and codec: what the defaults rest on")
def measure(recorder: Recorder) -> None:
    """A flow of 384 x 384 x 192 points (0.9 GB). It is converted with pages of 8 to 64 points a side and each codec,
    within 256 MiB. Then it is traced from disk, evicted, in a cgroup of an eighth of the data and the base. A rake and
    1,000 random seeds, lines of at most one unit (96 cells). The results of all are the same byte for byte.
    """
    quick = recorder.quick
    dims = (129, 129, 97) if quick else (384, 384, 192)
    pages = (8, 32) if quick else PAGES
    count = 100 if quick else 1000
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    # A step within pages of 32 points takes 30 MiB, however small the data.
    limit = 32 * common.MIB if quick else flow.bytes // 8
    base = common.base_bytes(recorder, common.store(recorder, flow))
    seeds = {"rake": data.rake(dims, count), "random": f"random:{count}:1"}
    sums: dict[str, set[str]] = {name: set() for name in seeds}
    rows: list[list[str | float | int]] = []
    for page in pages:
        for codec in CODECS:
            store = recorder.work / "pagesize.zarr"
            made = common.convert(flow, store, page=page, codec=codec, cold=flow.paths)
            about = made.json()
            row: list[str | float | int] = [
                page,
                codec,
                about["bytes_out"] / about["bytes_in"],
                made.wall_s,
                made.cpu_s,
            ]
            for name, spec in seeds.items():
                arm = f"{page}, {codec}: {name}"
                output = recorder.work / "pagesize.npz"
                for _ in range(min(recorder.runs, 3)):
                    run = common.trace(
                        store,
                        spec,
                        output,
                        limit=limit,
                        options=["--max-length", "1", "--max-steps", "10000"],
                        memory_bytes=limit + base,
                        cold=[store],
                    )
                    found = run.json()
                    recorder.run(
                        arm, wall_s=run.wall_s, cpu_s=run.cpu_s, read_bytes=found["bytes_read"], reads=found["reads"]
                    )
                sums[name].add(common.checksum(output))
                row += [
                    recorder.median(arm, "wall_s"),
                    recorder.median(arm, "cpu_s"),
                    recorder.median(arm, "read_bytes") / MIB,
                ]
            rows.append(row)
            common.remove(store)
    recorder.table(
        "By page size and codec",
        [
            "page",
            "codec",
            "size on disk / input",
            "convert s",
            "CPU s",
            "rake s",
            "CPU s",
            "MiB read",
            "random s",
            "CPU s",
            "MiB read",
        ],
        rows,
    )
    for name, found_sums in sums.items():
        recorder.claim(
            f"{name}: results that differ between page sizes and codecs", len(found_sums) - 1, "==", 0, right=True
        )
