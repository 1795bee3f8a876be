"""`farfield flowmap`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command, flat, names, stats_lines
from farfield.errors import UsageError


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "flowmap")
    def flowmap(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset")],
        output: Annotated[str, typer.Option("--output", "-o", metavar="OUT.zarr", help="the folder of the volume")],
        seeds_grid: Annotated[
            str | None,
            typer.Option("--seeds-grid", metavar="X,Y,Z", help="each low:high:n, or one number; in 2-D X,Y"),
        ] = None,
        region: Annotated[
            str | None,
            typer.Option("--region", metavar="X,Y,Z", help="each low:high, or one number; with --resolution"),
        ] = None,
        resolution: Annotated[
            str | None,
            typer.Option("--resolution", metavar="N|N,N,N", help="seeds along the longest axis, or along each"),
        ] = None,
        quantity: Annotated[
            str,
            typer.Option("--quantity", metavar="A,B,...", help="any of ftle, residence, displacement, end_position"),
        ] = "ftle",
        field: Annotated[str, typer.Option("--field", help="the vector field")] = "velocity",
        direction: Annotated[
            str | None,
            typer.Option("--direction", help="forward, backward or both in time  [default: from --t0 to --t1]"),
        ] = None,
        t0: Annotated[float | None, typer.Option("--t0", help="time of release  [default: the first time]")] = None,
        t1: Annotated[float | None, typer.Option("--t1", help="time of the end  [default: the last time]")] = None,
        within: Annotated[
            str | None,
            typer.Option(
                "--within", metavar="X,Y,Z:X,Y,Z", help="the box that particles leave  [default: the dataset's grid]"
            ),
        ] = None,
        offset: Annotated[
            float | None,
            typer.Option("--offset", help="ftle: distance to extra neighbours of each seed, instead of the grid's"),
        ] = None,
        integrator: Annotated[str, typer.Option("--integrator", help="rk45, rk4 or euler")] = "rk45",
        tolerance: Annotated[float, typer.Option("--tolerance", help="local error of a step")] = 1e-6,
        time_step: Annotated[
            float | None, typer.Option("--time-step", help="longest step in time; the step of rk4 and euler")
        ] = None,
        max_steps: Annotated[
            int | None, typer.Option("--max-steps", min=1, help="steps of a particle  [default: no bound]")
        ] = None,
        hold_steps: Annotated[
            bool, typer.Option("--hold-steps", help="a time step holds until the next, without interpolation")
        ] = False,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="replace an existing Zarr store")] = False,
    ) -> int:
        """Follow a particle from every point of a grid: FTLE, residence times.

        Writes a Zarr v3 volume, with displacements and end points if requested. Exit code 3 if pages failed and
        particles stop there.
        """
        from farfield.cli import PARTIAL

        try:
            numbers = None if resolution is None else [int(word) for word in names(resolution)]
        except ValueError as error:
            raise UsageError(f"--resolution: '{resolution}' is no whole number, nor one for each axis") from error
        settings = common.settings()
        with common.open(source, settings, writes=output) as dataset:
            common.tell(dataset.info())
            result = dataset.flow_map(
                output,
                seeds_grid=seeds_grid,
                region=region,
                resolution=numbers[0] if numbers is not None and len(numbers) == 1 else numbers,
                vectors=field,
                t0=t0,
                t1=t1,
                integration_direction=direction,
                quantities=names(quantity),
                within=within,
                offset=offset,
                integrator=integrator,
                time_step=time_step,
                max_steps=max_steps,
                tolerance=tolerance,
                hold_steps=hold_steps,
                overwrite=overwrite,
                progress=common.progress(settings),
            )
        nx, ny, nz = result["dims"]
        lines = [f"seeds    {result['seeds']:,} ({nx} x {ny} x {nz})"]
        for way, reasons in result["reasons"].items():
            lines.append(f"{way:<9}ended by: " + ", ".join(f"{count:,} {reason}" for reason, count in reasons.items()))
        if result["partial"]:
            lines += ["partial  pages failed: particles with status 'failed' stop where their data does"]
            lines += [f"failure  {result['failure']}"]
        lines += [*stats_lines(result["stats"]), f"wrote    {output}: {', '.join(result['arrays'])}"]
        common.show(flat(result), lines)
        return PARTIAL if result["partial"] else 0
