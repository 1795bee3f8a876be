"""`farfield extract`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from farfield.cli import cores
from farfield.cli.common import Common, command, flat, names, stats_lines

PLANE = "Plane"
PICTURE = "Picture"


def _plane(*words: str, **more: Any) -> Any:
    return typer.Option(*words, rich_help_panel=PLANE, **more)


def _picture(*words: str, **more: Any) -> Any:
    return typer.Option(*words, rich_help_panel=PICTURE, **more)


def register(app: typer.Typer) -> None:
    """Adds the group and its commands."""
    from farfield.cli import contour

    group = typer.Typer(rich_markup_mode=None)
    app.add_typer(group, name="extract", help="Write a part of a dataset as geometry.")
    contour.register(group)
    cores.register(group)

    @command(group, "grid-surface")
    def grid_surface(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset")],
        output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="a .vtp, .npz, .ply or .glb file")],
        surface: Annotated[
            list[str] | None,
            typer.Option(
                "--surface",
                metavar="ZONE:k=N[,i=A:B]",
                help="a surface, or a part (i, j or k; from 1; k=end); again for more; default: all walls",
            ),
        ] = None,
        scalars: Annotated[
            str | None, typer.Option("--scalars", metavar="A,B,...", help="fields at the points")
        ] = None,
        step: Annotated[int, typer.Option("--step", min=0, help="time step, counted from 0")] = 0,
    ) -> None:
        """Write grid surfaces with fields on them.

        Without --surface: every zone face whose points are all iblank 2 or all at rest. A .vtp or .npz has all points
        and quadrilaterals, a .ply or .glb has triangles with normals.
        """
        from farfield.dataset.field_names import field_names
        from farfield.flow.surface_extraction import extract_surface
        from farfield.results.mesh import ENDINGS as MESHES
        from farfield.results.outputs import output_path

        target = output_path(output, MESHES, "surfaces")
        sampled = field_names(names(scalars))
        settings = common.settings()
        with common.open(source, settings, writes=target) as dataset:
            common.tell_assumed(dataset.info()["order_assumed"])
            result = extract_surface(
                dataset.isel(time=step) if step else dataset,
                target,
                surfaces=surface or None,
                scalars=sampled,
                progress=common.progress(settings),
            )
        drawn = ", ".join(f"{s['zone']}:{s['axis']}={s['index']}" for s in result["surfaces"])
        kind = "triangles" if target.lower().endswith((".ply", ".glb")) else "cells"
        lines = [
            f"surfaces {len(result['surfaces']):,} with {result['points']:,} points and {result['cells']:,} {kind}",
            f"which    {drawn or 'none'}",
            *stats_lines(result["stats"]),
            f"wrote    {target}",
        ]
        common.show(flat(result), lines)

    @command(group, "slice", raw=True)
    def slice_(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset or volume")],
        output: Annotated[
            str,
            typer.Option(
                "--output",
                "-o",
                metavar="OUT",
                help="a picture (.png, .tif, .jpg), an array (.npy, .npz), or triangles (.vtp, .ply, .glb)",
            ),
        ],
        normal: Annotated[
            str, _plane("--normal", metavar="x|y|z|X,Y,Z", help="normal of the plane; its sign does not matter")
        ],
        field: Annotated[
            str | None,
            typer.Option(
                "--field",
                metavar="A,B,...",
                help="fields to sample; one for a picture; of a volume channels (default: all)",
            ),
        ] = None,
        origin: Annotated[
            str | None,
            _plane("--origin", metavar="X,Y,Z", help="a point of the plane (default: the middle of the data)"),
        ] = None,
        up: Annotated[
            str | None,
            _plane(
                "--up",
                metavar="X,Y,Z",
                help="upward direction (default: the head or the front of anatomy, the first row of images; else z, or y)",
            ),
        ] = None,
        extent: Annotated[
            str | None,
            _plane(
                "--extent", metavar="L,R,B,T", help="edges, as distances from the origin (default: the cross-section)"
            ),
        ] = None,
        size: Annotated[
            str | None, _plane("--size", metavar="WxH", help="pixels (default: 1024 along the longer side)")
        ] = None,
        resolution: Annotated[
            float | None, _plane("--resolution", metavar="LENGTH", help="edge of a pixel, instead of --size")
        ] = None,
        cmap: Annotated[
            str | None, _picture("--cmap", metavar="NAME", help="colour map, any of the cmap package")
        ] = None,
        range_: Annotated[
            str | None, _picture("--range", metavar="A:B", help="values of the first and last colour")
        ] = None,
        grey16: Annotated[bool, _picture("--grey16", help="grey of 16 bits instead of colours")] = False,
        invert: Annotated[
            bool | None,
            _picture(
                "--invert/--no-invert",
                help="the lowest value of a volume is white, or black (default: as its file says)",
            ),
        ] = None,
        bar: Annotated[bool, _picture("--bar/--no-bar", help="colour bar, or names of channels")] = True,
        letters: Annotated[
            bool, _picture("--letters/--no-letters", help="letters of anatomy at the edges, and a scale bar")
        ] = True,
        title: Annotated[
            str | None,
            _picture(
                "--title",
                metavar="TEXT",
                help="text in the upper left corner (default: with a bar, the place of a slice of grids)",
            ),
        ] = None,
        no_labels: Annotated[bool, _picture("--no-labels", hidden=True, help="as --no-letters")] = False,
        convention: Annotated[
            str | None,
            _plane(
                "--convention",
                metavar="radiological|neurological",
                help="anatomy: the patient's left on the right (default), or the mirror image",
            ),
        ] = None,
        window: Annotated[
            float | None,
            _picture("--window", metavar="WIDTH", help="range of WIDTH around --level, instead of --range"),
        ] = None,
        level: Annotated[
            float | None,
            _plane("--level", metavar="N", help="level of a volume, 0 the finest; with --window its middle"),
        ] = None,
        nearest: Annotated[bool, _plane("--nearest", help="volumes: the nearest voxel, without interpolation")] = False,
        step: Annotated[int, typer.Option("--step", min=0, help="time step, counted from 0")] = 0,
    ) -> int | None:
        """Cut along a plane: a picture, an array of numbers, or triangles.

        Pixels are square in space. Outside of the data they are transparent, or NaN in an array. Colours, labels and
        several channels of a volume keep their colours. In anatomy the patient's left is on the right, in arrays,
        too. Exit code 3: some pixels failed.
        """
        from farfield.cli import contour, sliceimage
        from farfield.errors import UsageError
        from farfield.pictures.slices import ENDINGS
        from farfield.results.mesh import ENDINGS as MESHES
        from farfield.results.outputs import output_path

        output_path(output, (*ENDINGS, *MESHES), "slices")
        options = {
            "normal": normal,
            "origin": origin,
            "up": up,
            "extent": extent,
            "size": size,
            "resolution": resolution,
            "field": field,
            "cmap": cmap,
            "range": range_,
            "grey16": grey16,
            "invert": invert,
            "bar": bar,
            "letters": letters and not no_labels,
            "title": title,
            "convention": convention,
            "window": window,
            "level": level,
            "nearest": nearest,
        }
        if not sliceimage.is_image(output):
            pixels = {
                "--up": up,
                "--extent": extent,
                "--size": size,
                "--resolution": resolution,
                "--cmap": cmap,
                "--title": title,
                "--range": range_,
                "--window": window,
                "--level": level,
                "--invert": invert,
                "--convention": convention,
            }
            given = next((name for name, value in pixels.items() if value is not None), None)
            if given is not None or grey16 or nearest:
                given = given or ("--grey16" if grey16 else "--nearest")
                raise UsageError(f"{given} is for pictures and arrays; {output} holds triangles")
            return contour.plane(common, source, output, step, options)
        return sliceimage.slice_image(common, source, output, step, options)
