"""`farfield trace`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command, flat, names, stats_lines
from farfield.errors import UsageError


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "trace")
    def trace(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset")],
        seeds: Annotated[
            str,
            typer.Option(
                "--seeds",
                metavar="SPEC",
                help="point:x,y,z | line:x,y,z:x,y,z:n | plane:corner:corner:corner:n:m | box:... | sphere:... | "
                "random:n:seed | ijk:ZONE:i0[-i1[/n]],j...,k... | FILE (.npy, .csv, .vtp)",
            ),
        ],
        output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="a .vtp or .npz file")],
        kind: Annotated[str, typer.Option("--kind", help="streamline")] = "streamline",
        field: Annotated[str, typer.Option("--field", help="the vector field")] = "velocity",
        direction: Annotated[str, typer.Option("--direction", help="forward, backward or both")] = "both",
        integrator: Annotated[str, typer.Option("--integrator", help="rk45, rk45-physical, rk4 or euler")] = "rk45",
        tolerance: Annotated[float, typer.Option("--tolerance", help="local error that a step may make")] = 1e-6,
        initial_step: Annotated[float | None, typer.Option("--initial-step", help="length of the first step")] = None,
        max_step: Annotated[
            float | None, typer.Option("--max-step", help="longest step; the step of rk4 and euler")
        ] = None,
        max_length: Annotated[float | None, typer.Option("--max-length", help="length in one direction")] = None,
        max_time: Annotated[float | None, typer.Option("--max-time", help="time in one direction")] = None,
        max_steps: Annotated[int, typer.Option("--max-steps", min=1, help="steps in one direction")] = 2000,
        terminal_speed: Annotated[float, typer.Option("--terminal-speed", help="stop below this speed")] = 1e-12,
        scalars: Annotated[
            str | None, typer.Option("--scalars", metavar="A,B,...", help="fields sampled along the lines")
        ] = None,
        step: Annotated[int, typer.Option("--step", min=0, help="time step, counted from 0")] = 0,
    ) -> int:
        """Trace streamlines inside the memory limit.

        Exit code 3 if pages failed and lines stop there.
        """
        from farfield.cli import PARTIAL
        from farfield.names import field_names
        from farfield.runs import TABLES, output_path
        from farfield.seeds import file_of, resolve

        if kind != "streamline":
            raise UsageError(f"--kind: this version traces lines of kind streamline, not '{kind}'")
        target = output_path(output, TABLES, "lines")
        spec, array = resolve(seeds)
        sampled = field_names(names(scalars))
        settings = common.settings()
        with common.open(source, settings, writes=target, reads=file_of(seeds)) as dataset:
            common.tell_assumed(dataset.info()["order_assumed"])
            dataset.isel(time=step)  # says what steps there are, before anything is read
            result = dataset.trace(
                target,
                options={
                    "seeds": spec,
                    "field": field,
                    "step": step,
                    "direction": direction,
                    "integrator": integrator,
                    "tolerance": tolerance,
                    "initial_step": initial_step,
                    "max_step": max_step,
                    "max_length": max_length,
                    "max_time": max_time,
                    "max_steps": max_steps,
                    "terminal_speed": terminal_speed,
                    "scalars": sampled,
                },
                seeds=array,
                progress=common.progress(settings),
            )
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in result["reasons"].items())
        lines = [f"lines    {result['lines']:,} with {result['points']:,} points; ended by: {reasons or 'nothing'}"]
        if result["outside"]:
            lines.append(f"outside  {result['outside']:,} seeds are in no zone; their lines are empty")
        if result["partial"]:
            lines.append("partial  pages failed: lines that end by 'failed' stop where their data does")
            if result.get("failure"):
                lines.append(f"failure  {result['failure']}")
        lines += [*stats_lines(result["stats"]), f"wrote    {target}"]
        common.show(flat(result), lines)
        return PARTIAL if result["partial"] else 0
