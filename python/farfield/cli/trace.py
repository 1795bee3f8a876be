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
        kind: Annotated[
            str,
            typer.Option(
                "--kind",
                help="streamline: of one time step; pathline: of a particle, through all of them; streakline: of particles "
                "that are let go one after the other",
            ),
        ] = "streamline",
        field: Annotated[str, typer.Option("--field", help="the vector field")] = "velocity",
        direction: Annotated[
            str | None,
            typer.Option(
                "--direction",
                help="forward, backward or both; pathlines: forward or backward in time  [default: both; pathlines: from "
                "--t0 to --t1]",
            ),
        ] = None,
        integrator: Annotated[str, typer.Option("--integrator", help="rk45, rk45-physical, rk4 or euler")] = "rk45",
        tolerance: Annotated[float, typer.Option("--tolerance", help="local error that a step may make")] = 1e-6,
        initial_step: Annotated[float | None, typer.Option("--initial-step", help="length of the first step")] = None,
        max_step: Annotated[
            float | None, typer.Option("--max-step", help="longest step; the step of rk4 and euler")
        ] = None,
        max_length: Annotated[float | None, typer.Option("--max-length", help="length in one direction")] = None,
        max_time: Annotated[float | None, typer.Option("--max-time", help="time in one direction")] = None,
        max_steps: Annotated[int, typer.Option("--max-steps", min=1, help="steps in one direction")] = 2000,
        terminal_speed: Annotated[
            float | None, typer.Option("--terminal-speed", help="streamlines stop below this speed  [default: 1e-12]")
        ] = None,
        scalars: Annotated[
            str | None, typer.Option("--scalars", metavar="A,B,...", help="fields sampled along the lines")
        ] = None,
        step: Annotated[
            int | None, typer.Option("--step", min=0, help="time step of streamlines, counted from 0  [default: 0]")
        ] = None,
        t0: Annotated[
            float | None, typer.Option("--t0", help="pathlines: time of release  [default: the first time]")
        ] = None,
        t1: Annotated[
            float | None, typer.Option("--t1", help="pathlines: time at which they end  [default: the last time]")
        ] = None,
        time_step: Annotated[
            float | None, typer.Option("--time-step", help="pathlines: longest step, time; the step of rk4 and euler")
        ] = None,
        hold_steps: Annotated[
            bool,
            typer.Option("--hold-steps", help="pathlines: a time step holds until the next, without interpolation"),
        ] = False,
        read_ahead: Annotated[
            str | None,
            typer.Option(
                "--read-ahead",
                metavar="along|none|N",
                help="pathlines: read what lies where they go, nothing, or N whole time steps ahead  [default: along]",
            ),
        ] = None,
        at_once: Annotated[
            int | None,
            typer.Option("--at-once", min=1, help="pathlines: how many may wait for pages  [default: all of them]"),
        ] = None,
        release_every: Annotated[
            float | None, typer.Option("--release-every", help="streaklines: time between particles")
        ] = None,
        release_steps: Annotated[
            int | None, typer.Option("--release-steps", help="streaklines: time steps between particles  [default: 1]")
        ] = None,
        release_times: Annotated[
            str | None,
            typer.Option("--release-times", metavar="T,T,...", help="streaklines: when particles are let go"),
        ] = None,
    ) -> int:
        """Trace streamlines, pathlines or streaklines inside the memory limit.

        Exit code 3 if pages failed and lines stop there.
        """
        from farfield.cli import PARTIAL
        from farfield.names import field_names
        from farfield.pathlines import path_options, release_options
        from farfield.runs import TABLES, output_path
        from farfield.seeds import file_of, resolve

        flags: dict[str, dict[str, object]] = {
            "streamline": {
                "--step": step,
                "--max-time": max_time,
                "--initial-step": initial_step,
                "--max-step": max_step,
                "--terminal-speed": terminal_speed,
            },
            "pathline": {
                "--t0": t0,
                "--t1": t1,
                "--time-step": time_step,
                "--hold-steps": hold_steps or None,
                "--read-ahead": read_ahead,
                "--at-once": at_once,
            },
            "streakline": {
                "--release-every": release_every,
                "--release-steps": release_steps,
                "--release-times": release_times,
            },
        }
        if kind not in flags:
            raise UsageError(f"--kind: there are lines of kind {', '.join(flags)}, not '{kind}'")
        own = ("pathline", "streakline") if kind == "streakline" else (kind,)
        for other, values in flags.items():
            if wrong := [flag for flag, value in values.items() if value is not None and other not in own]:
                raise UsageError(f"{wrong[0]} is not for lines of kind {kind}; it goes with --kind {other}")
        released = release_options(release_every, release_steps, _times(release_times))
        target = output_path(output, TABLES, "lines")
        spec, array = resolve(seeds)
        sampled = field_names(names(scalars))
        settings = common.settings()
        with common.open(source, settings, writes=target, reads=file_of(seeds)) as dataset:
            common.tell_assumed(dataset.info()["order_assumed"])
            dataset.isel(time=step or 0)  # says what steps there are, before anything is read
            result = dataset.trace(
                target,
                options={
                    "seeds": spec,
                    "field": field,
                    **path_options(kind, direction, t0, t1, time_step, hold_steps),
                    **({} if kind == "streamline" else {"read_ahead": read_ahead, "at_once": at_once}),
                    **(released if kind == "streakline" else {}),
                    "step": step or 0,
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


def _times(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(word) for word in names(text)]
    except ValueError as error:
        raise UsageError(f"--release-times: '{text}' is no list of numbers such as 0.5,1,1.5") from error
