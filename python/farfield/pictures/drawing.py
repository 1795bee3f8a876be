"""Drawing of scenes and open datasets into files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from farfield import _core
from farfield.dataset.kinds import is_open_volume
from farfield.errors import UsageError
from farfield.flow.definitions import SPEED, beneath, speed
from farfield.pictures.flat_volumes import flat_picture, is_flat
from farfield.results import outputs
from farfield.results.image_files import ENDINGS as PICTURES
from farfield.results.image_files import drawn_as_png, is_other
from farfield.runtime import run_context
from farfield.runtime.resources import Resources
from farfield.scene.composition import scene_of
from farfield.scene.drawn import as_drawn
from farfield.scene.files import files_of, placed, placed_text, save_scene
from farfield.scene.films import Film, Frames, add_outputs, looked_at
from farfield.scene.invisible import of_drawn, of_volume
from farfield.scene.models import Scene
from farfield.scene.native import is_colored, to_native
from farfield.scene.volumes import fields_of, first_scene, settled
from farfield.sources.source import Source
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.options import Options
from farfield.volume.space import are_counted

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.volume.dataset import VolumeDataset

Path = str | os.PathLike[str]
Notice = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Data:
    """The known data of a scene, and functions that find the others."""

    volume: Callable[[], AbstractContextManager[VolumeDataset]] | None = None
    """Opens the volume of the scene's source, if it is one."""
    info: Mapping[str, Any] | None = None
    """The `info` of a dataset of zones."""
    find_info: Callable[[Source], Mapping[str, Any]] | None = None
    """Finds `info`."""
    files: Source | None = None
    """The files of a dataset of zones, if already located."""
    options: Options = field(default_factory=Options)
    """Options of a volume."""


@run_context.run()
def render_open(
    data: Dataset,
    output: Path,
    *,
    size: tuple[int, int] | None = None,
    frames: Frames | None = None,
    fps: float | None = None,
    resume: bool = False,
    resources: Resources | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
) -> dict[str, Any]:
    """The default picture of an open dataset, as in `farfield.render`; `resources` take precedence over the dataset's
    own.

    Python reads through the open dataset. The extension opens the files again, with the same memory limit.
    """
    film = film_of(data, output, frames=frames, fps=fps, resume=resume)
    target = target_of(output, film)
    held = (resources or Resources()).held_by(data.stats())
    more: dict[str, Any] = {"film": film, "of_flags": True}
    if not is_open_volume(data):
        chosen, info = scene_of(data, progress=held.progress)
        more |= {"data": Data(info=info, files=data._source), "plot3d": plot3d, "zone_order": zone_order}
        return draw(_sized(chosen, size), target, held, **more)
    if is_flat(data):
        outputs.check([target if film is None else film.written()], data._reads())
        return flat_picture(data, target, size=size, film=film, progress=held.progress)
    opening = data._opening
    chosen = default_of(data, opening.source, film)
    # The scene already names the view's part, so the remaining defaults come from the whole volume.
    whole = data._whole()
    shown = Data(volume=lambda: contextlib.nullcontext(whole), info=data.info(), options=opening.options)
    return draw(_sized(chosen, size), target, held, data=shown, **more)


def film_of(data: Dataset, output: Path, *, frames: Frames | None, fps: float | None, resume: bool) -> Film | None:
    """The pictures for an output's name; `frames` default to the selected time steps."""
    film = Film.of(output, frames=frames, fps=fps, resume=resume)
    if film is None or frames is not None:
        return film
    return Film.of(output, frames=data._all_selected(), fps=fps, resume=resume)


def target_of(output: Path, film: Film | None) -> str:
    """The name of a picture, or the pattern of those of a film.

    Raises:
        UsageError: if its ending is not one of pictures.
    """
    return outputs.output_path(output, PICTURES, "pictures") if film is None else film.pattern


def default_of(volume: VolumeDataset, source: str, film: Film | None) -> Scene:
    """The default scene of a volume, or a view of one, for a picture or a film."""
    steps = None if film is None else looked_at(volume, film)
    return first_scene(volume, source, volume._step or 0, steps=steps)


def _sized(scene: Scene, size: tuple[int, int] | None) -> Scene:
    return scene if size is None else scene.model_copy(update={"size": size})


@run_context.run()
def draw(
    scene: Scene,
    target: str,
    resources: Resources,
    *,
    data: Data | None = None,
    film: Film | None = None,
    scene_file: str | None = None,
    save_as: str | None = None,
    of_flags: bool = False,
    notice: Notice | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Draws a scene, as in `farfield.render`. `target` is the name of its file, or the pattern of a `film`. `data` are
    its data, and errors name `scene_file`. `save_as` receives the scene before drawing, and again with the chosen
    values after drawing several time steps. `of_flags`: the scene has no file, so errors name no part of it. `notice`
    receives the dataset's `info`, if known or needed. Definitions in `plot3d` take precedence over those of the
    scene.

    Raises:
        UsageError: if the scene is invalid.
        UnknownName: if it names something that the dataset lacks.
    """
    data = data or Data()
    how: dict[str, Any] = {"plot3d": beneath(plot3d, scene.define), "zone_order": zone_order}
    film = None if film is None else film.of_scene(scene)
    files, read = files_of(scene, data.files, scene_file=scene_file, volume=data.options)
    info = data.info
    document: dict[str, Any] = {}
    with contextlib.nullcontext() if film is None else film.in_folder(), placed(scene, scene_file, of_flags=of_flags):
        outputs.check([*add_outputs(document, scene, target, film), save_as, resources.events], read)
        if scene.views and is_other(target):
            raise UsageError(f"{target}: pictures of several views are PNG; end the name in .png")
        if save_as is not None:
            save_scene(scene, save_as)
        tables: list[bytes] = []
        described: VolumeDescription | None = None
        unseen: list[str] = []
        if scene.source is not None and files is None and data.volume is not None:
            with data.volume() as opened:
                steps = None if film is None else looked_at(opened, film, scene)
                samples: dict[str, Any] = {}
                asked, scene = scene, settled(scene, opened, steps, samples)
                unseen, fields = of_volume(asked, opened, steps, samples), fields_of(opened)
                described, tables = opened._description, opened._description.tables
                spec = opened._spec
                times = {"times": spec["times"], "time_units": spec["time_units"], "times_counted": are_counted(spec)}
                if notice is not None:
                    notice({"what": "volume", "source": opened.path, "guessed": spec["guessed"], **times})
            info, notice = {"fields": list(fields.values()), **times}, None
        elif data.options != Options():
            raise UsageError(f"{scene.source or 'the scene'}: not a volume; remove the options of volumes")
        needs_info = is_colored(scene) or SPEED in scene.model_dump_json()
        if info is None and files is not None and data.find_info is not None and needs_info:
            info = data.find_info(files)
        if notice is not None and info is not None:
            notice(info)
        if described is None and info is not None:
            how["plot3d"] = beneath(how["plot3d"], speed(info["fields"]))
        document |= to_native(
            scene, resources.settings, info, files, None if described is None else described.spec, **how
        )
        with resources.reporting() as report:
            is_one = film is None and not scene.views
            with (
                drawn_as_png(target, resources.settings.memory_limit())
                if is_one
                else contextlib.nullcontext(target) as png
            ):
                text = _core.render(json.dumps(document), png, resources.native(), tables=tables, progress=report)
    found: dict[str, Any] = json.loads(text)
    if is_one:
        found["output"] = target
    if described is not None:
        found = described.counted(found)
    if film is None and len(scene.path) > 1:
        stem, end = os.path.splitext(os.path.basename(os.fspath(target)))
        unseen.append(
            f"path: this is its first picture alone: a name with the place of a number draws all of them, as -o {stem}_%04d{end}"
        )
    warnings = [placed_text(sentence, scene_file, of_flags=of_flags) for sentence in unseen]
    # For several steps, `drawn` describes the last picture only.
    found["stats"]["warnings"] += warnings + (of_drawn(found["drawn"]) if film is None else [])
    if save_as is not None and film is not None:
        save_scene(as_drawn(scene, film, found), save_as)
    return found
