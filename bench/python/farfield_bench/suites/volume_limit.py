"""The memory limit with volumes, and equal results under all resources."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from farfield_bench import arms, common, volume_arms, volumes
from farfield_bench.common import MIB
from farfield_bench.registry import experiment
from farfield_bench.result import Recorder

OUTPUTS = {
    "rays": "png",
    "rays, 3840 x 2160": "png",
    "slice": "png",
    "slice, 3840 x 2160": "png",
    "isosurface": "npz",
    "converted": "zarr",
    "converted, larger than memory": "zarr",
}


@dataclass
class _Case:
    """A volume, and its results by kind."""

    recorder: Recorder
    sources: dict[str, Path]
    digests: dict[str, set[str]] = field(default_factory=dict)

    def _command(self, kind: str, source: Path, output: Path) -> list[str]:
        quick = self.recorder.quick
        if OUTPUTS[kind] == "png":
            large, small = ("192x108", "96x54") if quick else ("3840x2160", "960x540")
            scene = _scene(self.recorder.work, source, kind.split(",")[0])
            return ["render", str(scene), "-o", str(output), "--size", large if "2160" in kind else small]
        if kind == "isosurface":
            return ["extract", "isosurface", str(source), "--value", str(volumes.CT_SPINE), "-o", str(output)]
        return ["convert", str(source), str(output)]

    def run(self, kind: str, limit: int, *, source: str, workers: int) -> None:
        """Runs it once. Returns its printed figures."""
        output = self.recorder.work / f"volume-limit.{OUTPUTS[kind]}"
        shutil.rmtree(output, ignore_errors=True)
        words = self._command(kind, self.sources[source], output)
        words += ["--memory-limit", str(limit), "--workers", str(workers), "--json", "--no-progress", "-q"]
        run = arms.run(arms.farfield(*words), takes_bytes=2 * limit + (1 << 28), timeout_s=1800)
        found = run.json()
        allowed = limit + found["base_bytes"]
        arm = f"{kind}: {source}, {limit // MIB} MiB, {workers} worker" + "s" * (workers > 1)
        self.recorder.run(
            arm, settings=None, wall_s=run.wall_s, cpu_s=run.cpu_s, peak_bytes=found["resident_peak_bytes"],
            allowed_bytes=allowed, ledger_peak_bytes=found["peak_bytes"], read_bytes=found["bytes_read"],
        )  # fmt: skip
        over = (found["resident_peak_bytes"] - allowed) / MIB
        self.recorder.claim(f"{arm}: VmHWM less limit and base", over, "<=", 0, unit="MiB", right=True)
        self.digests.setdefault(kind, set()).add(_digest(output))


def _scene(work: Path, source: Path, kind: str) -> Path:
    """A scene of rays or of a slice. It sets all that is otherwise derived from values, and shows no name."""
    name = volume_arms.spec(source)["channels"][0]["name"]
    opacity = [[44, 0], [90, 0.05], [150, 0.3], [255, 0.9]]
    rays = {"kind": "volume", "color": "density", "opacity": opacity, "unit": 8.0}
    scene = {
        "source": str(source.resolve()),
        "maps": {"density": {"field": name, "range": [44, 255], "cmap": "inferno"}},
        "objects": [rays if kind == "rays" else {"kind": "slice", "normal": [1, 2, 3], "color": "density"}],
        "scalar_bar": False,
    }
    path = work / f"volume-limit-{kind}-{source.stem}.json"
    path.write_text(json.dumps(scene), encoding="utf-8")
    return path


def _digest(path: Path) -> str:
    """SHA-256 of a file, of names and contents of the files of a folder, or of all arrays except the one of the
    source's path.
    """
    digest = hashlib.sha256()
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            for name in sorted(set(arrays.files) - {"meta"}):
                digest.update(name.encode() + b"\0" + np.ascontiguousarray(arrays[name]).tobytes())
        return digest.hexdigest()
    files: Iterable[Path] = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    for file in files:
        digest.update(str(file.relative_to(path)).encode() + b"\0" + common.checksum(file).encode())
    return digest.hexdigest()


@experiment("volume-limit", "Volumes: peak resident memory, and results that are the same whatever the means")
def measure(recorder: Recorder) -> None:
    """Rays, slices, isosurfaces and conversion of a volume of 512 x 512 x 512 bytes by the command line. Memory is less
    than the volume and more, with one worker and with two. Sources are the raw file paged in place and plain Zarr
    stores with pages of 32 and of 64 voxels. Rays also have 3840 x 2160 pixels; conversion also has 1024 x 1024 x 1024
    bytes within half of them. VmHWM is the kernel's figure for the whole process. The base is the resident memory
    before the volume is opened. No cgroup enforces the limit. Pictures, slices and surfaces are compared byte for byte
    over all of these. Conversions are compared over limits and workers only, since a store records its source.
    """
    quick = recorder.quick
    volume = volumes.ct(recorder.work, (64, 64, 64) if quick else (512, 512, 512))
    stores = {f"pages of {page}": volume_arms.store(recorder, volume, page=page) for page in (32, 64)}
    large = volumes.ct(recorder.work, (96, 96, 96) if quick else (1024, 1024, 1024))
    beyond = {"large raw file": large.header, "large, pages of 32": volume_arms.store(recorder, large)}
    case = _Case(recorder, {"raw file": volume.header, **stores, **beyond})
    small, ample = (24 * MIB, 64 * MIB) if quick else (48 * MIB, 512 * MIB)
    for kind in OUTPUTS:
        if "larger" in kind:
            for name in beyond:
                case.run(kind, ample, source=name, workers=2)
            continue
        case.run(kind, small, source="raw file", workers=2)
        if "2160" in kind:
            continue
        case.run(kind, ample, source="raw file", workers=1)
        for name in stores if kind != "converted" else ():
            case.run(kind, small, source=name, workers=2)
    for kind, digests in case.digests.items():
        if "larger" in kind:
            # A store records its source, and the sources differ here.
            continue
        recorder.claim(f"{kind}: results that differ", len(digests) - 1, "==", 0, right=True)
