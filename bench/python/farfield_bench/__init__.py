"""The experiments: `farfield-bench list`, `run NAME`, `report`.

An experiment is a function in a module of `farfield_bench.suites`, registered by `@experiment`. It measures its arms
side by side in one run and records them. Medians, spreads, claims and the machine are written as one JSON document.
`report` makes docs/benchmarks.md from it, with the plots of `plotted`.
"""

from __future__ import annotations

from farfield_bench.registry import Experiment, experiment, find, load
from farfield_bench.result import Arm, Claim, Recorder, Result

__all__ = ["Arm", "Claim", "Experiment", "Recorder", "Result", "experiment", "find", "load"]
