"""`farfield extract isosurface`, and planes as triangles."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from farfield.cli.common import Common, command, failure_lines, flat, names, names_them, stats_lines
from farfield.dataset.field_names import field_names
from farfield.errors import UsageError


def register(group: typer.Typer) -> None:
    """Adds the command to its group."""

    @command(group, "isosurface", volume=True)
    def isosurface(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset or volume")],
        output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="a .vtp, .ply, .glb or .npz file")],
        value: Annotated[list[float], typer.Option("--value", metavar="V", help="value of the surface; repeatable")],
        field: Annotated[
            str | None,
            typer.Option("--field", metavar="NAME", help="the field; of a volume the channel (default: its first)"),
        ] = None,
        scalars: Annotated[
            str | None, typer.Option("--scalars", metavar="A,B,...", help="fields at the points")
        ] = None,
        normals: Annotated[bool, typer.Option("--normals/--no-normals", help="normals at the points")] = True,
        near: Annotated[
            str | None,
            typer.Option(
                "--near",
                metavar="X,Y,Z",
                help="a point: only the nearest surface and all that is connected to it, through all zones",
            ),
        ] = None,
        level: Annotated[int, typer.Option("--level", min=0, help="level of a volume, 0 the finest")] = 0,
        step: Annotated[int, typer.Option("--step", min=0, help="time step, counted from 0")] = 0,
    ) -> int:
        """Write an isosurface as triangles.

        Watertight within zones, with normals that point to lower values. Pages whose known ranges exclude the value
        are not read. Exit code 3: some pages cannot be read, and the surface has holes there.
        """
        from farfield.dataset.contours import extract_isosurface
        from farfield.scene.flags import vector

        sampled = field_names(names(scalars))
        settings = common.settings()
        how: dict[str, Any] = {
            "values": value,
            "scalars": sampled,
            "normals": normals,
            "progress": common.progress(settings),
        }
        how["near"] = None if near is None else vector(near, "--near")
        volume = common.open_volume(source, settings)
        if volume is not None:
            with volume:
                chosen = volume.level(level) if level else volume
                chosen = chosen.isel(time=step) if step else chosen
                result = extract_isosurface(chosen, output, field=field or volume.channels[0].name, **how)
        else:
            if level:
                raise UsageError(f"--level is of a volume's resolution; {source} is a dataset of zones")
            with common.open(source, settings, writes=output) as dataset:
                field = field or dataset._source.main_field
                if field is None:
                    raise UsageError("missing option '--field'; 'farfield info' lists the fields")
                common.tell_assumed(dataset.info()["order_assumed"])
                result = extract_isosurface(dataset.isel(time=step) if step else dataset, output, field=field, **how)
        return show(common, source, result, "surface", "the field has no such value")


def plane(common: Common, source: str, output: str, step: int, options: Mapping[str, Any]) -> int:
    """Writes a plane as triangles."""
    from farfield.dataset.contours import AXES, extract_plane
    from farfield.scene.flags import vector

    settings = common.settings()
    normal, origin = options["normal"], options["origin"]
    how: dict[str, Any] = {
        "normal": normal if normal in AXES else vector(normal, "--normal"),
        "origin": None if origin is None else vector(origin, "--origin"),
        "scalars": field_names(names(options["field"])),
        "progress": common.progress(settings),
    }
    volume = common.open_volume(source, settings)
    if volume is not None:
        with volume:
            how["scalars"] = how["scalars"] or [c.name for c in volume.channels]
            result = extract_plane(volume.isel(time=step) if step else volume, output, **how)
    else:
        with common.open(source, settings, writes=output) as dataset:
            main = dataset._source.main_field
            how["scalars"] = how["scalars"] or ([main] if main is not None else [])
            if not how["scalars"]:
                raise UsageError("missing option '--field'; 'farfield info' lists the fields")
            common.tell_assumed(dataset.info()["order_assumed"])
            result = extract_plane(dataset.isel(time=step) if step else dataset, output, **how)
    return show(common, source, result, "plane", "the plane does not meet the data")


def show(common: Common, source: str, result: Mapping[str, Any], what: str, empty: str) -> int:
    """Prints what was written, and the reason if it is empty; returns the exit code."""
    from farfield.cli import PARTIAL

    if result["triangles"] == 0 and not result["partial"] and not common.quiet:
        print(f"farfield: note: {empty}: {result['output']} has no triangles", file=sys.stderr)
    lines = [f"{what:<8} {result['triangles']:,} triangles with {result['points']:,} points"]
    if result["partial"]:
        from farfield.runtime.sizes import count

        lines.append(
            f"partial  {count(result['failed_pages'], 'page')} cannot be read, and nothing is drawn there; {names_them(source)}"
        )
        lines += failure_lines(result)
    common.show(flat(result), [*lines, *stats_lines(result["stats"]), f"wrote    {result['output']}"])
    return PARTIAL if result["partial"] else 0
