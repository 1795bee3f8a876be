"""Time of conversion, beside copying."""

from __future__ import annotations

from farfield_bench import arms, common, data
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder


@experiment("convert", "Convert: 2.1 GB within 256 MiB, beside dd")
def measure(recorder: Recorder) -> None:
    """Conversion of the 512 x 512 x 256 flow (2.1 GB) by `farfield convert` with a limit of 256 MiB, for each codec.
    Beside it `dd` reads the same files, and `dd` writes as many bytes with fsync at the end, from files in the page
    cache. Blocks of `dd` have 1 MiB. Every arm is in a cgroup of 256 MiB and the base of the command line. Its input
    files are evicted, except for the writing `dd`. The claim: reading and writing by `dd`, one after the other, take at
    least 0.6 of the conversion's time.
    """
    quick = recorder.quick
    dims = (193, 193, 97) if quick else (512, 512, 256)
    limit = 24 * MIB if quick else 256 * MIB
    common.cache(recorder)
    flow = data.single(recorder.work, dims)
    bounded = limit + common.base_bytes(recorder, common.store(recorder, flow))
    target = recorder.work / "converted.zarr"
    copies = [recorder.work / f"copy-{n}" for n in range(len(flow.paths))]
    codecs: list[str | None] = [None, "none", "zstd", "lz4"]
    default = ""
    for _ in range(min(recorder.runs, 3)):
        read = [arms.run(_dd(p, "/dev/null"), memory_bytes=bounded, cold=[p]) for p in flow.paths]
        recorder.run("dd, reading", wall_s=sum(r.wall_s for r in read), cpu_s=sum(r.cpu_s for r in read))
        arms.warm(flow.paths)
        wrote = [
            arms.run([*_dd(p, str(c)), "conv=fsync"], memory_bytes=bounded)
            for p, c in zip(flow.paths, copies, strict=True)
        ]
        recorder.run("dd, writing", wall_s=sum(r.wall_s for r in wrote), cpu_s=sum(r.cpu_s for r in wrote))
        for c in copies:
            c.unlink(missing_ok=True)
        for codec in codecs:
            run = common.convert(flow, target, codec=codec, limit=limit, memory_bytes=bounded, cold=flow.paths)
            found = run.json()
            if codec is None:
                default = found["codec"]
            recorder.run(
                "convert, default" if codec is None else f"convert, {codec}",
                settings={"codec": found["codec"], "page": str(found["page"])},
                wall_s=run.wall_s,
                cpu_s=run.cpu_s,
                out_bytes=found["bytes_out"],
                peak_bytes=found.get("resident_peak_bytes", found.get("stats", {}).get("resident_peak_bytes", 0)),
                padding_disk=found["padding_disk"],
            )
            common.remove(target)
    copying = recorder.median("dd, reading", "wall_s") + recorder.median("dd, writing", "wall_s")
    for name in ("convert, none", "convert, default"):
        recorder.claim(
            f"{name}: wall, against dd / 0.6", recorder.median(name, "wall_s"), "<=", copying / 0.6, unit="s"
        )
    recorder.note(f"The default codec is {default}. dd read and wrote in {copying:.1f} s.")


def _dd(source: object, target: str) -> list[str]:
    return ["dd", f"if={source}", f"of={target}", "bs=1M"]
