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
        source: Annotated[str, typer.Argument(metavar="SRC", help="what convert takes")],
        like: Annotated[
            str,
            typer.Option(
                "--like",
                metavar="'COMMAND SRC ...'",
                help="a short run of the kind that is meant, such as 'trace SRC --seeds random:200:1', without -o",
            ),
        ],
        runs: Annotated[int, typer.Option("--runs", min=1, help="how often each is run; the middle counts")] = 3,
        scratch: Annotated[
            str | None,
            typer.Option("--scratch", metavar="DIR", help="where stores are made meanwhile, some ten times the data"),
        ] = None,
    ) -> None:
        """Propose page size, layout, codec and readers for a kind of run.

        The short run is made on stores of the dataset that differ in one thing at a time, with the store out of the page
        cache.
        """
        from farfield.tuning import table
        from farfield.tuning import tune as propose

        found = propose(source, like, runs=runs, scratch=scratch, progress=common.progress(common.settings()))
        common.show(found, table(found))
