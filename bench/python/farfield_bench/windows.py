"""Time steps as units: each read whole and then computed, or read while another is computed. What `hidden` and `overlap-2000`
share.
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
    """Pathlines through the steps of a store on one device. A window lies between two time steps; its unit is what particles
    touch in it that they had not touched before.
    """

    recorder: Recorder
    name: str
    """Of the experiment, for its files."""
    store: Path
    spec: dict[str, Any]
    """The trace."""
    latency_s: float | None
    """What each read takes; None: the disk as it is, its files evicted."""
    readers: int
    takes_bytes: int
    """Memory that a run takes."""
    outputs: dict[str, Path] = field(default_factory=dict)
    """The lines of each arm, for comparing; may be those of several devices."""

    def ready(self) -> None:
        """Brings the files into memory where a simulated device lies over them."""
        if self.latency_s is not None:
            arms.warm([self.store])

    def run(self, arm: str, way: str, cores: Sequence[int]) -> dict[str, Any]:
        """Runs it once and records it: `listed` first (which pages each window takes), then `units` (serial) or `ours`
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
