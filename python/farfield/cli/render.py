"""`farfield render`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from farfield.cli.advice import conversion_pays
from farfield.cli.common import Common, command, failure_lines, names_them, stats_lines
from farfield.cli.common import flat as as_flat
from farfield.errors import UsageError
from farfield.times.dates import moment_of, moment_text

PANEL = "Picture"


def _picture(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=PANEL, **more)


def _volume(*names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Volumes", **more)


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "render", raw=True)
    def render(
        common: Common,
        what: Annotated[
            str | None,
            typer.Argument(metavar="SCENE|SRC", help="a scene (.json) or a dataset; optional with --lines"),
        ] = None,
        output: Annotated[
            str,
            _picture(
                "--output",
                "-o",
                metavar="OUT",
                help="the .png, .tif or .jpg; for several time steps out_%04d.png, a folder, or a .mp4 (with ffmpeg)",
            ),
        ] = "",
        size: Annotated[
            str | None, _picture("--size", metavar="WxH", help="pixels  [default: the scene's, or 1600x900]")
        ] = None,
        lines: Annotated[
            list[str] | None, _picture("--lines", metavar="FILE", help="lines of a .vtp or .npz; repeatable")
        ] = None,
        seeds: Annotated[
            str | None,
            _picture("--seeds", metavar="SPEC", help="trace lines from these seeds, as in 'farfield trace'"),
        ] = None,
        surface: Annotated[
            list[str] | None,
            _picture("--surface", metavar="ZONE:k=N[,i=A:B]", help="a grid surface, or 'walls'; repeatable"),
        ] = None,
        contour: Annotated[
            list[str] | None,
            _picture("--contour", metavar="FIELD=VALUE", help="an isosurface, as in mach=1; repeatable"),
        ] = None,
        slice_: Annotated[
            list[str] | None,
            _picture(
                "--slice",
                metavar="AXIS=VALUE",
                help="a plane, as in z=0.1 or z (the middle), or NX,NY,NZ=X,Y,Z; repeatable",
            ),
        ] = None,
        cores: Annotated[bool, _picture("--cores", help="vortex cores")] = False,
        walls: Annotated[
            bool | None, _picture("--walls/--no-walls", help="the body, or the walls around the flow")
        ] = None,
        color: Annotated[
            str | None,
            _picture(
                "--color",
                metavar="FIELD",
                help="field that colours lines, contours, slices and cores, or surfaces if there are none; or a colour",
            ),
        ] = None,
        surface_color: Annotated[
            str | None,
            _picture("--surface-color", metavar="FIELD", help="field that colours the surfaces; or a colour"),
        ] = None,
        range_: Annotated[str | None, _picture("--range", metavar="A:B", help="range of --color")] = None,
        cmap: Annotated[
            str | None, _picture("--cmap", metavar="NAME", help="colour map of --color, any of the cmap package")
        ] = None,
        center: Annotated[
            float | None, _picture("--center", metavar="X", help="reference value in the middle of a diverging map")
        ] = None,
        radius: Annotated[float | None, _picture("--radius", metavar="R", help="radius of the lines")] = None,
        mesh: Annotated[bool, _picture("--mesh", help="draw the grid's lines on surfaces")] = False,
        outline: Annotated[bool | None, _picture("--outline/--no-outline", help="edges of the zones")] = None,
        view: Annotated[
            str | None,
            _picture("--view", metavar="DIR", help="direction to the eye: x, -x, y, -y, z, -z, iso, or X,Y,Z"),
        ] = None,
        up: Annotated[str | None, _picture("--up", metavar="X,Y,Z", help="upward direction")] = None,
        zoom: Annotated[float | None, _picture("--zoom", help="2 shows half as much")] = None,
        background: Annotated[
            str | None, _picture("--background", metavar="COLOR[,COLOR]", help="one colour, or top and bottom")
        ] = None,
        bar: Annotated[bool | None, _picture("--bar/--no-bar", help="scalar bars; names of channels")] = None,
        axes: Annotated[bool | None, _picture("--axes/--no-axes", help="orientation axes")] = None,
        title: Annotated[str | None, _picture("--title", help="a line at the top")] = None,
        samples: Annotated[
            int | None, _picture("--samples", min=1, max=4, help="samples of a pixel along each side")
        ] = None,
        step: Annotated[int | None, _picture("--step", min=0, help="time step, counted from 0")] = None,
        kind: Annotated[
            str | None,
            _picture("--kind", metavar="KIND", help="kind of lines from --seeds: streamline, pathline or streakline"),
        ] = None,
        tail: Annotated[
            float | None, _picture("--tail", metavar="T", help="pathlines: draw only the last duration T")
        ] = None,
        time: Annotated[bool | None, _picture("--time/--no-time", help="write the time into the picture")] = None,
        frames: Annotated[
            str | None, _picture("--frames", metavar="A:B:S", help="time steps, counted from 0; the scene's, or all")
        ] = None,
        fps: Annotated[float | None, _picture("--fps", help="pictures per second of a .mp4  [default: 24]")] = None,
        resume: Annotated[bool, _picture("--resume", help="keep existing pictures of the same scene and data")] = False,
        projection: Annotated[
            str | None,
            _volume(
                "--projection",
                metavar="HOW",
                help="composite, maximum, mean, or surface:VALUE, the first point with that value",
            ),
        ] = None,
        window: Annotated[
            float | None,
            _volume("--window", metavar="WIDTH", help="grey from black and clear to white, WIDTH wide around --level"),
        ] = None,
        level: Annotated[
            float | None,
            _volume(
                "--level", metavar="N", help="the middle of --window; without it the level of resolution, 0 the finest"
            ),
        ] = None,
        resolution: Annotated[
            int | None, _volume("--resolution", metavar="N", min=0, help="the level of resolution, also with --window")
        ] = None,
        invert: Annotated[
            bool | None,
            _volume(
                "--invert/--no-invert", help="the lowest value is white, or black (default: as the volume's file says)"
            ),
        ] = None,
        convention: Annotated[
            str | None,
            _volume(
                "--convention",
                metavar="radiological|neurological",
                help="slices of anatomy: the patient's left on the right (default), or the mirror image",
            ),
        ] = None,
        letters: Annotated[
            bool | None,
            _volume("--letters/--no-letters", help="slices: letters of anatomy at the edges, and a scale bar"),
        ] = None,
        shade: Annotated[bool | None, _volume("--shade/--no-shade", help="light on gradients")] = None,
        nearest: Annotated[bool, _volume("--nearest", help="the nearest voxel, without interpolation")] = False,
        labels: Annotated[
            bool, _volume("--labels", help="numbers are labels: a colour each, without interpolation; 0 is clear")
        ] = False,
        opacity_from: Annotated[
            str | None,
            _volume(
                "--opacity-from",
                metavar="WHAT",
                help="opacity of colours: alpha, luminance, or distance from a background",
            ),
        ] = None,
        budget: Annotated[
            str | None,
            _volume("--budget", metavar="TIME", help="time limit of a picture, such as 50ms; reports missing pixels"),
        ] = None,
        save_scene: Annotated[
            str | None, _picture("--save-scene", metavar="FILE", help="write the scene, to edit and draw again")
        ] = None,
    ) -> int:
        """Draw a picture, or one per time step.

        Draws volumes by rays, isosurfaces, slices, lines as tubes, the body, grid surfaces, vortex cores and
        outlines. Runs in software, without X, OpenGL or a GPU. A dataset alone gives its default picture; a volume
        one voxel thick gives its slice. 'farfield scene' writes a first scene to edit. Camera and colour ranges are
        the same in all pictures of a series.
        """
        from contextlib import ExitStack
        from functools import partial

        from pydantic import ValidationError

        from farfield.cli import PARTIAL, flat
        from farfield.pictures import rendering
        from farfield.pictures.drawing import Data
        from farfield.results import outputs
        from farfield.results.image_files import ENDINGS as PICTURES
        from farfield.scene.files import explain, is_scene_file
        from farfield.scene.films import Film
        from farfield.scene.flags import Shorthand
        from farfield.volume.formats.options import Options

        if not output:
            raise UsageError("missing option '--output' / '-o': the .png file; see 'farfield render --help'")
        settings = common.settings(size=size)
        film = Film.of(output, frames=frames, fps=fps, resume=resume)
        if film is not None and step is not None:
            raise UsageError(f"--step is for one picture; --frames {step} draws that one of many")
        target = outputs.output_path(output, PICTURES, "pictures") if film is None else film.pattern
        first = target if film is None else film.written()
        outputs.check([first, save_scene, common.events], [])  # inputs are known only after much reading
        if invert is not None:
            common.volume = {**common.volume, "invert": invert}
        resources = common.resources(settings)
        asked = Shorthand(
            lines=tuple(lines or ()),
            seeds=seeds,
            surfaces=tuple(surface or ()),
            contours=tuple(contour or ()),
            slices=tuple(slice_ or ()),
            cores=cores,
            walls=walls,
            color=color,
            surface_color=surface_color,
            range=range_,
            cmap=cmap,
            center=center,
            radius=radius,
            mesh=mesh,
            outline=outline,
            view=view,
            up=up,
            zoom=zoom,
            background=background,
            bar=bar,
            axes=axes,
            title=title,
            samples=samples,
            step=step,
            kind=kind,
            tail=tail,
            time=time,
            size=settings["size"] if settings.origin("size") != "default" else None,
            projection=projection,
            window=window,
            level=level,
            resolution=resolution,
            shade=shade,
            nearest=nearest,
            labels=labels,
            opacity_from=opacity_from,
            budget=budget,
        )
        how: dict[str, Any] = {"plot3d": common.plot3d, "zone_order": common.zone_order}
        told = Options.of(common.volume)
        known: dict[str, Any] = {}

        def heard(found: Mapping[str, Any]) -> None:
            known.update(found)
            common.tell(found)

        with ExitStack() as until_drawn:
            try:
                scene, info, opened = asked.with_volume(until_drawn, what, resources, volume=told, film=film, **how)
            except ValidationError as error:
                raise UsageError(f"invalid picture: {explain(error)}") from error
            if what is not None and flat.shows(asked, info):
                until_drawn.close()
                wants = letters is not False
                return flat.draw(common, asked, what, target, settings, film, convention=convention, letters=wants)
            if convention is not None or letters is not None:
                raise UsageError(
                    "--convention and --letters are of slices, and this is drawn in space: 'farfield extract slice' cuts it"
                )
            scene_file = what if what is not None and is_scene_file(what) else None
            known.update(info or {})
            look = None if opened is None else partial(rendering.closing, opened, until_drawn)
            result = rendering.draw(
                scene,
                target,
                resources,
                data=Data(look, info, options=told),
                film=film,
                scene_file=scene_file,
                of_flags=scene_file is None,
                save_as=save_scene,
                notice=heard,
                **how,
            )
        moment = moment_of(known, scene.step or 0) if known.get("what") == "volume" and film is None else {}
        result.update(moment)
        text = [f"{_words(result)} {result['size'][0]} x {result['size'][1]}: " + _drawn(result)]
        text += [f"when     {moment_text(moment)}"] * bool(moment)
        for found in result["maps"].values():
            if found["range"] is None:
                text.append(
                    f"range    {found['field']} has no finite value here: it is drawn in the grey of what is no number"
                )
                continue
            low, high = found["range"]
            unit = f" [{found['units']}]" if found.get("units", "1") not in (None, "1") else ""
            text.append(
                f"range    {found['field']} {low:.6g} to {high:.6g}{unit}; --range {low:.6g}:{high:.6g} fixes it"
            )
        if (redrawn := result.get("redrawn")) is not None:
            pictures = (
                "1 picture there is" if redrawn["pictures"] == 1 else f"{redrawn['pictures']:,} pictures there are"
            )
            text.append(f"redrawn  {pictures} {redrawn['why']}: drawn anew")
        if result.get("pixels_missing"):
            text.append(
                f"partial  in {result['pixels_missing']:,} pixels something of a volume is missing: pages cannot be read, and the"
                f" pixels are hatched in magenta and black; {names_them(scene.source)}"
            )
            text += failure_lines(result)
        if filled := result.get("pixels_filled"):
            width, height = result["size"]
            share = filled / (width * height * max(1, len(result.get("frames", [1]))))
            text.append(
                f"partial  {filled:,} pixels ({share:.0%}) were not cast by then: they are filled from those around,"
                " and striped in grey where nothing is known of them"
            )
        for drawn in result["drawn"]:
            if "failure" in drawn:
                text.append(f"partial  {drawn['name']}: pages failed, and lines stop where their data does")
                text.append(f"failure  {drawn['failure']}")
        text += conversion_pays(result["stats"], info or {}, scene.source)
        common.show(as_flat(result), [*text, *stats_lines(result["stats"]), f"wrote    {_written(result, target)}"])
        return PARTIAL if result["partial"] else 0


def _words(result: dict[str, Any]) -> str:
    return "pictures" if "frames" in result else "picture "


def _written(result: dict[str, Any], target: str) -> str:
    names = [view["output"] for view in result.get("views", [])] or [target]
    if "frames" not in result:
        return ", ".join(names)
    steps = [frame["step"] for frame in result["frames"]]
    kept = sum(frame["was_there"] for frame in result["frames"])
    count = len(set(steps))
    of = f"step {steps[0]}" if count == 1 else f"{count} steps, {steps[0]} to {steps[-1]}"
    if len(steps) > count:
        of += f", {len(steps)} pictures"
    return f"{', '.join(names)} of {of}" + (f"; {kept} were there" if kept else "")


def _drawn(result: dict[str, Any]) -> str:
    parts = [f"{d['name']} ({d['primitives']:,})" for d in result["drawn"] if d["primitives"]]
    return ", ".join(parts) or "nothing to draw"
