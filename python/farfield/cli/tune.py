"""`farfield tune`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "tune", source=False, run=False)
    def tune(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="a source, as for convert")],
        like: Annotated[
            str,
            typer.Option(
                "--like",
                metavar="'COMMAND SRC ...'",
                help="a short run of that kind, such as 'trace SRC --seeds random:200:1', without -o",
            ),
        ],
        runs: Annotated[int, typer.Option("--runs", min=1, help="runs per store; the median counts")] = 3,
        scratch: Annotated[
            str | None,
            typer.Option("--scratch", metavar="DIR", help="folder for the stores, about ten times the data"),
        ] = None,
    ) -> None:
        """Propose page size, layout, codec and readers for a kind of run.

        Measures the short run on stores that differ in one parameter. Each store is evicted from the page cache
        first.
        """
        from farfield.tuning import table
        from farfield.tuning import tune as propose

        found = propose(source, like, runs=runs, scratch=scratch, progress=common.progress(common.settings()))
        common.show(found, table(found))
