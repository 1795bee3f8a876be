"""`farfield trace`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from farfield.cli.common import Common, command, flat, names, stats_lines
from farfield.errors import UsageError

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset


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
                "scatter:LOW:HIGH:n | "
                "random:n:seed[:CONDITION] | interest:n:seed | ijk:ZONE:i0[-i1[/n]],j...,k... | FILE (.npy, .csv, .vtp)",
            ),
        ],
        output: Annotated[
            str, typer.Option("--output", "-o", metavar="OUT", help="a .vtp, .npz, .parquet or .pvd file")
        ],
        kind: Annotated[
            str,
            typer.Option(
                "--kind",
                help="streamline: of one time step; pathline: of a particle, through time; streakline: of particles "
                "released one after another; timeline: of moving curves",
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
        tolerance: Annotated[float, typer.Option("--tolerance", help="local error of a step")] = 1e-6,
        initial_step: Annotated[float | None, typer.Option("--initial-step", help="length of the first step")] = None,
        max_step: Annotated[
            float | None, typer.Option("--max-step", help="longest step; the step of rk4 and euler")
        ] = None,
        max_length: Annotated[float | None, typer.Option("--max-length", help="length in one direction")] = None,
        max_time: Annotated[float | None, typer.Option("--max-time", help="time in one direction")] = None,
        max_steps: Annotated[int, typer.Option("--max-steps", min=1, help="steps in one direction")] = 2000,
        terminal_speed: Annotated[
            float | None,
            typer.Option(
                "--terminal-speed", help="speed below which streamlines end  [default: 1e-12 of a line's largest]"
            ),
        ] = None,
        scalars: Annotated[
            str | None, typer.Option("--scalars", metavar="A,B,...", help="fields sampled along the lines")
        ] = None,
        stop: Annotated[
            str | None,
            typer.Option(
                "--stop",
                metavar="CONDITION",
                help='condition that ends lines, such as "mach > 1" or "q_criterion < 0 and x > 2"',
            ),
        ] = None,
        step: Annotated[
            int | None, typer.Option("--step", min=0, help="time step of streamlines, counted from 0  [default: 0]")
        ] = None,
        steps: Annotated[
            str | None,
            typer.Option(
                "--steps", metavar="all|a:b:s|n,n,...", help="streamlines: time steps, each with its own lines"
            ),
        ] = None,
        t0: Annotated[
            float | None, typer.Option("--t0", help="pathlines: time of release  [default: the first time]")
        ] = None,
        t1: Annotated[
            float | None, typer.Option("--t1", help="pathlines: time of the end  [default: the last time]")
        ] = None,
        time_step: Annotated[
            float | None, typer.Option("--time-step", help="pathlines: longest step in time; the step of rk4 and euler")
        ] = None,
        hold_steps: Annotated[
            bool,
            typer.Option("--hold-steps", help="pathlines: a time step holds until the next, without interpolation"),
        ] = False,
        read_ahead: Annotated[
            str | None,
            typer.Option(
                "--read-ahead",
                metavar="along|none",
                help="pathlines: pages to read ahead: along the lines, or none  [default: along]",
            ),
        ] = None,
        points: Annotated[
            str | None,
            typer.Option(
                "--points",
                metavar="all|steps",
                help="pathlines: keep all points, or those at time steps  [default: all]",
            ),
        ] = None,
        release_every: Annotated[
            float | None, typer.Option("--release-every", help="streaklines: time between particles")
        ] = None,
        release_steps: Annotated[
            int | None, typer.Option("--release-steps", help="streaklines: time steps between particles  [default: 1]")
        ] = None,
        release_times: Annotated[
            str | None,
            typer.Option("--release-times", metavar="T,T,...", help="streaklines: times of release"),
        ] = None,
        curves: Annotated[
            str | None,
            typer.Option(
                "--curves",
                metavar="N|0,n,...",
                help="timelines: seeds per curve, or first seeds of curves  [default: one curve]",
            ),
        ] = None,
        refine: Annotated[
            str | None,
            typer.Option(
                "--refine",
                metavar="Nx|LENGTH|never",
                help="timelines: largest distance of neighbours: N times that at the release, or a length  [default: 2x]",
            ),
        ] = None,
        max_points: Annotated[
            int | None,
            typer.Option("--max-points", min=1, help="timelines: largest number of points per curve  [default: 10000]"),
        ] = None,
        output_every: Annotated[
            float | None,
            typer.Option("--output-every", help="particles: time between lines, or between the files of a .pvd"),
        ] = None,
        output_times: Annotated[
            str | None,
            typer.Option(
                "--output-times", metavar="steps|T,T,...", help="particles: times of lines, or of files of a .pvd"
            ),
        ] = None,
        trail: Annotated[
            float | None,
            typer.Option("--trail", help="pathlines in a .pvd: duration of the line behind each particle"),
        ] = None,
        save_state: Annotated[
            str | None,
            typer.Option(
                "--save-state",
                metavar="FILE",
                help="pathlines, streaklines: save the particles' state at --t1; may be the file of --resume",
            ),
        ] = None,
        resume: Annotated[
            str | None,
            typer.Option(
                "--resume",
                metavar="FILE",
                help="pathlines, streaklines: continue from a saved state, with the results of a single run",
            ),
        ] = None,
    ) -> int:
        """Trace streamlines, pathlines, streaklines or timelines inside the memory limit.

        Exit code 3 if pages failed and lines stop there.
        """
        from farfield.cli import PARTIAL
        from farfield.dataset.field_names import field_names
        from farfield.flow.particle_options import (
            curve_options,
            not_saved,
            output_options,
            path_options,
            release_options,
            step_numbers,
        )
        from farfield.flow.seeds import file_of, resolve
        from farfield.results.lines import ENDINGS as LINES
        from farfield.results.outputs import output_path

        flags: dict[tuple[str, ...], dict[str, object]] = {
            ("streamline",): {
                "--step": step,
                "--steps": steps,
                "--max-time": max_time,
                "--initial-step": initial_step,
                "--max-step": max_step,
                "--terminal-speed": terminal_speed,
            },
            ("pathline", "streakline", "timeline"): {
                "--t0": t0,
                "--t1": t1,
                "--time-step": time_step,
                "--hold-steps": hold_steps or None,
                "--read-ahead": read_ahead,
                "--output-every": output_every,
                "--output-times": output_times,
            },
            ("pathline", "streakline"): {"--save-state": save_state, "--resume": resume},
            ("pathline",): {"--trail": trail, "--points": points},
            ("streakline",): {
                "--release-every": release_every,
                "--release-steps": release_steps,
                "--release-times": release_times,
            },
            ("timeline",): {"--curves": curves, "--refine": refine, "--max-points": max_points},
        }
        kinds = ("streamline", "pathline", "streakline", "timeline")
        if kind not in kinds:
            raise UsageError(f"--kind: there are lines of kind {', '.join(kinds)}, not '{kind}'")
        for own, values in flags.items():
            if wrong := [flag for flag, value in values.items() if value is not None and kind not in own]:
                raise UsageError(f"{wrong[0]} is not for lines of kind {kind}; it goes with --kind {' or '.join(own)}")
        if step is not None and steps is not None:
            raise UsageError("--step and --steps both select time steps; give one of them")
        wanted: list[float] | Literal["steps"] | None
        wanted = "steps" if output_times == "steps" else _numbers("--output-times", output_times)
        more: dict[str, object] = {}
        if kind != "streamline":
            more = output_options(output_every, wanted, save_state, resume)
            more |= {"read_ahead": read_ahead}
        if kind == "pathline":
            more |= {"trail": trail, "points": points}
        if kind == "streakline":
            more |= release_options(release_every, release_steps, _numbers("--release-times", release_times))
        if kind == "timeline":
            more |= curve_options(_curves(curves), *_refine(refine), max_points or 10_000)
        target = output_path(output, LINES, "lines")
        if trail is not None and not target.lower().endswith(".pvd"):
            raise UsageError(
                f"--trail needs a .pvd, with a file per time, not {target}; write a .pvd, or remove --trail"
            )
        spec, array = resolve(seeds)
        sampled = field_names(names(scalars))
        settings = common.settings()
        read = [*file_of(seeds), *([] if resume is None else [resume])]
        with common.open(source, settings, writes=target, reads=read) as dataset:
            common.tell(dataset.info())
            dataset.isel(time=step or 0)  # reports an invalid step before any read
            if steps is not None:
                more["steps"] = step_numbers(steps, max(1, len(dataset.times)))
            result = dataset.trace(
                target,
                options={
                    "seeds": spec,
                    "field": field,
                    **path_options(kind, direction, t0, t1, time_step, hold_steps),
                    **more,
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
                    "stop": stop,
                },
                seeds=array,
                progress=common.progress(settings),
            )
            if result["outside"] and not result["points"]:
                result["stats"]["warnings"].append(_all_outside(dataset, step or 0, kind))
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in result["reasons"].items())
        lines = [f"lines    {result['lines']:,} with {result['points']:,} points; ended by: {reasons or 'nothing'}"]
        if result["outside"]:
            what = "curve" if kind == "timeline" else "seed"
            one = result["outside"] == 1
            whose = f"{what} lies in no zone; its line is" if one else f"{what}s lie in no zone; their lines are"
            lines.append(f"outside  {result['outside']:,} {whose} empty")
        if empty := result.get("empty"):
            why = ", ".join(f"{count:,} {reason}" for reason, count in empty.items())
            lines.append(
                f"empty    {sum(empty.values()):,} lines have no points, though they begin in a zone; ended by: {why}"
            )
        if result["partial"]:
            lines.append("partial  pages failed: lines that end by 'failed' stop where their data does")
            if result.get("failure"):
                lines.append(f"failure  {result['failure']}")
        if said := not_saved(result, save_state):
            common.say(said)
        lines += [*stats_lines(result["stats"]), f"wrote    {target}"]
        common.show(flat(result), lines)
        return PARTIAL if result["partial"] else 0


def _all_outside(dataset: Dataset, step: int, kind: str) -> str:
    """The warning if no line begins in a zone, with the extent of the zones, which the run already knows."""
    from farfield.cli.info import box_around, box_text

    what = "curve" if kind == "timeline" else "seed"
    boxes = [zone["box"] for zone in json.loads(dataset._native.look(step=step))["zones"] if zone["box"]]
    if not boxes:
        return f"no {what} lies in a zone, so that all lines are empty: no zone has a usable cell"
    return (
        f"no {what} lies in a zone, so that all lines are empty: the zones lie within {box_text(box_around(boxes))}; "
        "'farfield info --ranges' says where each of them is"
    )


def _numbers(flag: str, text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(word) for word in names(text)]
    except ValueError as error:
        raise UsageError(f"{flag}: '{text}' is no list of numbers such as 0.5,1,1.5") from error


def _curves(text: str | None) -> int | list[int] | None:
    if text is None:
        return None
    try:
        found = [int(word) for word in names(text)]
    except ValueError as error:
        raise UsageError(f"--curves: '{text}' is neither a number of seeds nor a list such as 0,50,120") from error
    return found[0] if len(found) == 1 else found


def _refine(text: str | None) -> tuple[float | None, float | None]:
    """The factor and the length of --refine."""
    if text is None:
        return 2.0, None
    if text == "never":
        return None, None
    try:
        return (float(text[:-1]), None) if text.endswith("x") else (None, float(text))
    except ValueError as error:
        raise UsageError(f"--refine: '{text}' is neither 2x, nor a length such as 0.05, nor never") from error
