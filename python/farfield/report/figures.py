"""The figures of a report, in order."""

from __future__ import annotations

from collections.abc import Callable

from farfield.report import lifelines, paging, reads, servers
from farfield.report.amounts import Summary
from farfield.report.plots import Missing, Plot

Maker = Callable[[Summary], Plot | Missing]


def plots(summary: Summary) -> list[Plot | Missing]:
    """All figures, in the order of a report."""
    makers: list[Maker] = [
        lifelines.use,
        lifelines.overlap,
        paging.history,
        paging.rate,
        paging.memory,
        reads.latency,
        reads.waiting,
        reads.depth,
        paging.working_set,
        paging.by_array,
        reads.by_source,
        servers.parts,
        lifelines.lifelines,
        servers.lifelines,
    ]
    return [make(summary) for make in makers]
