"""`farfield replay`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from farfield.cli.common import Common, command, names
from farfield.errors import UsageError

T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "replay", source=False, run=False)
    def replay(
        common: Common,
        events: Annotated[str, typer.Argument(metavar="RUN", help="the log of a run, written by --events FILE")],
        limits: Annotated[
            str | None,
            typer.Option(
                "--limits", metavar="SIZE,...", help="memory limits  [default: all touched pages, down to 1/32]"
            ),
        ] = None,
        policies: Annotated[
            str | None,
            typer.Option(
                "--policies",
                metavar="A,B,...",
                help="replacement policies, or optimum; '+executor' adds finished segments, '+waiting' also pages that "
                "parked tasks wait for  [default: all]",
            ),
        ] = None,
        page_factor: Annotated[
            str | None,
            typer.Option("--page-factor", metavar="2,4,...", help="factors of page size on each axis"),
        ] = None,
        latency: Annotated[
            str | None, typer.Option("--latency", metavar="5ms,...", help="durations of a read, for predicted times")
        ] = None,
        readers: Annotated[
            str | None,
            typer.Option("--readers", metavar="N,...", help="numbers of reads in flight, for predicted times"),
        ] = None,
        workers: Annotated[
            str | None, typer.Option("--workers", metavar="N,...", help="numbers of threads, for predicted times")
        ] = None,
        output: Annotated[
            str | None, typer.Option("--output", "-o", metavar="OUT", help="draw the curves: .png or .svg")
        ] = None,
    ) -> None:
        """Replay a recorded run's pages with other limits and policies.

        Needs no data. Compares memory limits, policies, page sizes, latencies, readers and workers.

        Results for other settings are estimates: pages are used in the order of the recorded run.
        """
        from farfield.report.replays import parse_seconds, table
        from farfield.report.replays import replay as run

        found = run(
            events,
            limits=names(limits),
            policies=names(policies),
            coarser=_each(page_factor, int, "--page-factor"),
            latencies_s=[parse_seconds(word) for word in names(latency)],
            readers=_each(readers, int, "--readers"),
            workers=_each(workers, int, "--workers"),
            output=output,
            progress=common.progress(common.settings()),
        )
        common.show(found, [*table(found), *([f"wrote    {found['output']}"] if output else [])])


def _each(text: str | None, kind: Callable[[str], T], flag: str) -> list[T]:
    try:
        values = [kind(word) for word in names(text)]
    except ValueError:
        values = []
    if text is not None and (not values or any(v < 1 for v in values)):  # type: ignore[operator]
        raise UsageError(f"{flag}: '{text}' is not a list of whole numbers above 0, such as 2,4")
    return values
