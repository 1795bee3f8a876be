"""`farfield events`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "events", source=False, run=False)
    def events(
        common: Common,
        log: Annotated[str, typer.Argument(metavar="RUN", help="the log of a run, written by --events FILE")],
        output: Annotated[
            str,
            typer.Option("--output", "-o", metavar="OUT", help=".json: Chrome trace for Perfetto; .parquet: a table"),
        ],
    ) -> int:
        """Write a run's log for Perfetto, or as a table.

        Exit code 3 if the log ends before its run did, or is damaged.
        """
        from farfield.report.replays import export

        found = export(log, output, progress=common.progress(common.settings()))
        lines = [f"wrote {found['output']}: {found['events']:,} events"]
        common.show(found, lines)
        return 0 if found["whole"] else 3
