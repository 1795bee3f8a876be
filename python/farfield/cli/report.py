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
        run: Annotated[str, typer.Argument(metavar="RUN", help="the log of a run, written by --events FILE")],
        output: Annotated[
            str | None,
            typer.Option(
                "--output", "-o", metavar="OUT.html", help="the page  [default: RUN.html]", show_default=False
            ),
        ] = None,
        png: Annotated[
            str | None, typer.Option("--png", metavar="OUT.png", help="also a picture of all figures")
        ] = None,
    ) -> int:
        """Write a page on what a run waited for.

        Prints the verdict: where the time went, also that of reads at servers, and what would help. The page needs no
        other file and no network.
        Exit code 3 if the log ends before its run did, or is damaged.
        """
        from farfield.report import write

        said, result = write(run, output, png, progress=common.progress(common.settings()))
        wrote = ", ".join(filter(None, (result["output"], result["png"])))
        common.show(result, [str(said), "", f"  wrote {wrote}"])
        return 0 if result["whole"] else 3
