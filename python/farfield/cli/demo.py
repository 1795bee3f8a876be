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
        name: Annotated[str, typer.Argument(metavar="[NAME]", help="the demo: taper")] = "taper",
        folder: Annotated[
            str | None, typer.Option("--dir", metavar="DIR", help="folder of its files  [default: ./farfield-demo]")
        ] = None,
        small: Annotated[bool, typer.Option("--small", help="use a sixtieth of the data, within the limit")] = False,
    ) -> None:
        """Show all steps on a generated flow.

        Makes a flow several times larger than the limit, converts it, traces a rake, draws it, and reports reads and
        memory.
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
