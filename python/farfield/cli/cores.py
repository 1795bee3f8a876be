"""`farfield extract vortex-cores`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command, flat, names, stats_lines


def register(group: typer.Typer) -> None:
    """Adds the command to `farfield extract`."""

    @command(group, "vortex-cores")
    def vortex_cores(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset")],
        output: Annotated[
            str, typer.Option("--output", "-o", metavar="OUT", help="a .vtp, .npz, .csv or .parquet file")
        ],
        method: Annotated[
            str, typer.Option("--method", help="sujudi-haimes, levy or lambda2", metavar="METHOD")
        ] = "sujudi-haimes",
        field: Annotated[str, typer.Option("--field", help="the velocity field")] = "velocity",
        min_strength: Annotated[
            float, typer.Option("--min-strength", help="strength that points exceed; its meaning depends on the method")
        ] = 0.0,
        min_length: Annotated[float, typer.Option("--min-length", help="smallest length of a line")] = 0.0,
        max_angle: Annotated[
            float | None,
            typer.Option("--max-angle", metavar="DEGREES", help="largest angle between line and velocity"),
        ] = None,
        scalars: Annotated[
            str | None, typer.Option("--scalars", metavar="A,B,...", help="fields sampled at the points")
        ] = None,
        step: Annotated[int, typer.Option("--step", min=0, help="time step, counted from 0")] = 0,
    ) -> int:
        """Write vortex cores: lines along which velocity is parallel to another vector.

        sujudi-haimes: to its gradient times itself, where that has complex eigenvalues; strength is their imaginary part.
        levy: to vorticity; strength is its magnitude. lambda2: valley lines of lambda2; strength is -lambda2.
        """
        from farfield.cli import PARTIAL
        from farfield.flow.vortex_cores import FILES, extract_cores
        from farfield.results.outputs import output_path

        target = output_path(output, FILES, "vortex cores")
        settings = common.settings()
        with common.open(source, settings, writes=target) as dataset:
            common.tell_assumed(dataset.info()["order_assumed"])
            result = extract_cores(
                dataset.isel(time=step) if step else dataset,
                target,
                vectors=field,
                method=method,
                min_strength=min_strength,
                min_length=min_length,
                max_angle=max_angle,
                scalars=names(scalars),
                progress=common.progress(settings),
            )
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in result["reasons"].items())
        lines = [
            f"cores    {result['lines']:,} with {result['points']:,} points; ended by: {reasons or 'nothing'}",
            f"found    {result['found']:,} points at which the vectors are parallel",
        ]
        if result["partial"]:
            lines.append("partial  pages failed: cores may be missing where their data do")
            lines.append(f"failure  {result['failure']}")
        lines += [*stats_lines(result["stats"]), f"wrote    {target}"]
        common.show(flat(result), lines)
        return PARTIAL if result["partial"] else 0
