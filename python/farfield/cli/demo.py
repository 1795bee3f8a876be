"""`farfield demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command
from farfield.errors import UnknownName


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "demo", source=False, run=False)
    def demo(
        common: Common,
        name: Annotated[str, typer.Argument(metavar="[NAME]", help="which one: taper")] = "taper",
        folder: Annotated[
            str | None, typer.Option("--dir", metavar="DIR", help="where its files go; otherwise ./farfield-demo")
        ] = None,
        small: Annotated[
            bool, typer.Option("--small", help="with a sixtieth of the data, which the limit holds")
        ] = False,
    ) -> None:
        """Show it all on a flow made here.

        Makes a flow several times larger than the limit, converts it, traces a rake, draws it, and says how little was read
        and held.
        """
        from pathlib import Path

        from farfield.demo.story import Story

        if name != "taper":
            raise UnknownName(f"no demo named '{name}'; there is: taper (demo:box is a source for trying commands)")
        settings = common.settings()
        # In the working folder and under a short name, to look at and to remove.
        where = Path(folder).expanduser() if folder else Path("farfield-demo")
        silent = common.json or common.quiet
        story = Story(where, (lambda text: None) if silent else _say, common.progress(settings), quick=small)
        common.show(story.tell(), [])


def _say(text: str) -> None:
    print(text, flush=True)
