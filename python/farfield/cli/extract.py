"""`farfield extract`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command, flat, names, stats_lines


def register(app: typer.Typer) -> None:
    """Adds the group and its commands."""
    group = typer.Typer(rich_markup_mode=None)
    app.add_typer(group, name="extract", help="Write a part of a dataset as geometry.")

    @command(group, "grid-surface")
    def grid_surface(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset")],
        output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="a .vtp or .npz file")],
        surface: Annotated[
            list[str] | None,
            typer.Option(
                "--surface",
                metavar="ZONE:k=N",
                help="a surface (i, j or k; from 1); again for more; default: all walls",
            ),
        ] = None,
        scalars: Annotated[
            str | None, typer.Option("--scalars", metavar="A,B,...", help="fields written on it")
        ] = None,
        step: Annotated[int, typer.Option("--step", min=0, help="time step, counted from 0")] = 0,
    ) -> None:
        """Write grid surfaces with fields on them.

        Without --surface: every zone face whose points are all iblank 2 or all at rest.
        """
        from farfield import runs
        from farfield.names import field_names

        target = runs.output_path(output, runs.TABLES, "surfaces")
        sampled = field_names(names(scalars))
        settings = common.settings()
        with common.open(source, settings, writes=target) as dataset:
            common.tell_assumed(dataset.info()["order_assumed"])
            result = runs.extract_surface(
                dataset.isel(time=step) if step else dataset,
                target,
                surfaces=surface or None,
                scalars=sampled,
                progress=common.progress(settings),
            )
        drawn = ", ".join(f"{s['zone']}:{s['axis']}={s['index']}" for s in result["surfaces"])
        lines = [
            f"surfaces {len(result['surfaces']):,} with {result['points']:,} points and {result['cells']:,} cells",
            f"which    {drawn or 'none'}",
            *stats_lines(result["stats"]),
            f"wrote    {target}",
        ]
        common.show(flat(result), lines)
