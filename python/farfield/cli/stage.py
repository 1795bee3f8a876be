"""`farfield stage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from farfield.cli.common import Common, command, names
from farfield.errors import UsageError


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "stage", source=False, run=False)
    def stage(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset or volume: a path or an address")],
        destination: Annotated[
            str | None, typer.Argument(metavar="DST", help="farfield://a,b,c/NAME: servers started with --staging")
        ] = None,
        replicas: Annotated[int, typer.Option(min=1, metavar="N", help="servers that get each file")] = 1,
        fields: Annotated[str | None, typer.Option(metavar="A,B,...", help="fields of a store  [default: all]")] = None,
        steps: Annotated[
            str | None,
            typer.Option(metavar="all|a:b:s|n,n,...", help="time steps of a store or a series  [default: all]"),
        ] = None,
        rate: Annotated[str | None, typer.Option(metavar="RATE", help="most of the line, such as 200Mbit")] = None,
        memory_limit: Annotated[
            str | None, typer.Option(metavar="SIZE", help="most memory for what is under way  [default: 50%]")
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="only print what would go where")] = False,
        remove: Annotated[
            bool, typer.Option("--remove", help="remove the staged dataset farfield://a,b,c/NAME, and end")
        ] = False,
    ) -> None:
        """Bring a dataset near: to page servers, each file to some of them.

        What is there already is not sent again: after an interruption the same command goes on. The dataset appears
        once all of it is there.
        """
        from farfield.serving import staging

        if remove:
            if destination is not None:
                raise UsageError("--remove takes one address: farfield stage --remove farfield://a,b,c/NAME")
            removed = staging.remove(source)
            common.show(removed, [f"removed {removed['removed']} from {', '.join(removed['servers'])}"])
            return
        if destination is None:
            raise UsageError("give where the data are to go: farfield stage SRC farfield://a,b,c/NAME")
        settings = common.settings()
        try:
            done = staging.stage(
                source,
                destination,
                replicas=replicas,
                fields=names(fields),
                steps=steps,
                rate=rate,
                memory_limit=memory_limit,
                dry_run=dry_run,
                progress=common.progress(settings),
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt("what was sent stays at the servers: the same command goes on") from None
        common.show(done, _lines(done))


def _lines(done: Mapping[str, Any]) -> list[str]:
    from farfield.runtime.sizes import count, format_bytes

    what = f"{count(done['files'], 'file')}, {format_bytes(done['bytes'])}"
    servers = [
        f"  {server['server']}: {count(server['files'], 'file')}, {format_bytes(server['bytes'])}"
        for server in done["servers"]
    ]
    hint = f", with FARFIELD_REPLICAS={done['replicas']}" if done["replicas"] > 1 else ""
    if done["dry_run"]:
        return [f"would stage {what}", *servers, f"to open as {done['source']}"]
    return [
        f"staged {what} in {done['seconds']:.1f} s: {format_bytes(done['bytes_sent'])} sent, "
        f"{format_bytes(done['bytes_there'])} there already",
        *servers,
        f"open it as {done['source']}{hint}",
    ]
