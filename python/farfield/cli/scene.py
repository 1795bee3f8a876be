"""`farfield scene`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from farfield.cli.common import Common, command


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "scene", volume=True)
    def scene(
        common: Common,
        source: Annotated[str | None, typer.Argument(metavar="SRC", help="the dataset")] = None,
        output: Annotated[
            str | None, typer.Option("--output", "-o", metavar="FILE.json", help="the scene  [default: stdout]")
        ] = None,
        size: Annotated[str | None, typer.Option("--size", metavar="WxH", help="pixels  [default: 1600x900]")] = None,
        schema: Annotated[bool, typer.Option("--schema", help="print the JSON Schema of scenes instead")] = False,
    ) -> None:
        """Write a first scene of a dataset, to edit and draw again.

        It is the scene of 'farfield render SRC'. For a volume with time steps, its colours suit all steps. The JSON
        Schema (--schema) explains each key, and editors can use it.
        """
        import json

        from farfield.cli.flat import is_thin
        from farfield.errors import UsageError
        from farfield.results import outputs
        from farfield.scene.files import is_scene_file, json_schema, save_scene
        from farfield.scene.flags import Shorthand
        from farfield.volume.formats.options import Options

        if schema:
            print(json.dumps(json_schema(), indent=2))
            return
        if source is None:
            raise UsageError("missing argument 'SRC': the dataset; see 'farfield scene --help'")
        if output is not None and not is_scene_file(output):
            raise UsageError(f"{output}: scenes are written as .json; end the name in this")
        outputs.check([output, common.events], [])
        settings = common.settings(size=size)
        chosen = settings["size"] if settings.origin("size") != "default" else None
        how: dict[str, Any] = {"plot3d": common.plot3d, "zone_order": common.zone_order}
        how |= {"volume": Options.of(common.volume), "of_all_steps": True}
        found, info = Shorthand(size=chosen).scene(source, common.resources(settings), **how)
        if is_thin(info):
            raise UsageError(
                f"{source}: the volume is one voxel thick, and scenes hold nothing that shows one; 'farfield render' without a "
                "scene draws its picture, and 'farfield extract slice' makes one of a part of it"
            )
        if output is None:
            print(found.model_dump_json(indent=2))
            return
        save_scene(found, output)
        kinds = ", ".join(o.kind for o in found.objects) or "nothing"
        common.show(
            {"output": output, "objects": [o.kind for o in found.objects]}, [f"scene    {kinds}", f"wrote    {output}"]
        )
