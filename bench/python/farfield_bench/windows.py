"""Time steps as units: each read whole and then computed, or read while another is computed. Shared by `hidden` and
`overlap-2000`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield_bench import arms, common
from farfield_bench.result import Recorder


@dataclass
class Windows:
    """Pathlines through the steps of a store on one device. A window is between two time steps. Its unit is the pages
    that particles first touch in it.
    """

    recorder: Recorder
    name: str
    """Name of the experiment, for its files."""
    store: Path
    spec: dict[str, Any]
    """The trace."""
    latency_s: float | None
    """Seconds of each read; None: the real disk, its files evicted."""
    readers: int
    takes_bytes: int
    """Memory of a run."""
    outputs: dict[str, Path] = field(default_factory=dict)
    """Files of lines of each arm, for comparison; several devices may share it."""

    def ready(self) -> None:
        """Reads the files into memory for a simulated device."""
        if self.latency_s is not None:
            arms.warm([self.store])

    def run(self, arm: str, way: str, cores: Sequence[int]) -> dict[str, Any]:
        """Runs it once and records it: `listed` first (the pages of each window), then `units` (serial) or `ours`
        (overlapped). One worker a core.
        """
        output = self.outputs.setdefault(arm, self.recorder.work / f"{self.name}-{len(self.outputs)}.npz")
        command = arms.inside(
            arm="windows",
            source=str(self.store),
            traces=[self.spec],
            memory_limit=common.PLENTY,
            readers=self.readers,
            workers=len(cores),
            list=str((self.recorder.work / f"{self.name}.windows").resolve()),
            latency_s=self.latency_s,
            way=way,
            output=str(output),
        )
        cold = [self.store] if self.latency_s is None else []
        done = arms.run(command, cold=cold, cores=cores, takes_bytes=self.takes_bytes, timeout_s=1200)
        found, reading = done.json(), done.json()["reading"]
        self.recorder.run(
            arm,
            wall_s=found["wall_s"],
            cpu_s=found["cpu_s"],
            reading_s=reading["wall_s"],
            reading_cpu_s=reading["cpu_s"],
            computing_s=found["wall_s"] - reading["wall_s"],
            handing_on_s=found["handing_on_s"],
            read_bytes=found["bytes_read"],
            reads=found["reads"],
        )
        return found
