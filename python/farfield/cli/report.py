"""`farfield report`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "report", run=False, source=False)
    def report(
        common: Common,
        run: Annotated[str, typer.Argument(metavar="RUN", help="the log that a run's --events wrote")],
        output: Annotated[
            str | None,
            typer.Option("--output", "-o", metavar="OUT.html", help="the page  [default: RUN.html]", show_default=False),
        ] = None,
        png: Annotated[
            str | None, typer.Option("--png", metavar="OUT.png", help="a picture of all figures besides")
        ] = None,
    ) -> None:
        """Say what a run waited for, and what would help.

        Prints the verdict, and writes a page with figures that needs no other file and no network.
        """
        from farfield.report import write
        from farfield.settings import Settings

        said, result = write(run, output, png, progress=common.progress(Settings()))
        wrote = ", ".join(filter(None, (result["output"], result["png"])))
        common.show(result, [str(said), "", f"  wrote {wrote}"])
