"""Pictures of scenes, datasets and sources, as files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from farfield.dataset.kinds import is_open_volume
from farfield.errors import UsageError
from farfield.flow.dataset import Dataset
from farfield.flow.definitions import beneath
from farfield.flow.opening import open_source
from farfield.opening import refuse_options_of_flows
from farfield.pictures import drawing
from farfield.pictures.drawing import Data, default_of, film_of, render_open, target_of
from farfield.pictures.flat_volumes import flat_picture, is_flat
from farfield.pictures.opened_volumes import to_look_at
from farfield.results import outputs
from farfield.runtime import run_context
from farfield.runtime.progress import Report
from farfield.runtime.resources import Resources
from farfield.scene import Scene, load_scene
from farfield.scene.defaults import scene_and_info
from farfield.scene.files import as_scene, is_scene_file
from farfield.scene.films import Film, Frames
from farfield.sources.source import Source
from farfield.volume.dataset import VolumeDataset
from farfield.volume.formats.detection import is_volume
from farfield.volume.formats.options import Options
from farfield.volume.opening import open_volume
from farfield.volume.voxels import describe_source

Path = str | os.PathLike[str]


@run_context.run()
def render(
    scene: Scene | Mapping[str, Any] | Dataset | Path,
    output: Path,
    *,
    size: tuple[int, int] | None = None,
    frames: Frames | None = None,
    fps: float | None = None,
    resume: bool = False,
    memory_limit: str | int | None = None,
    workers: int | None = None,
    readers: int | None = None,
    replacement: str | None = None,
    events: Path | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    volume: Mapping[str, Any] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Draws a picture, or one per time step, in software, in tiles that the ledger charges; returns the JSON of `render
    --json`.

    Args:
        scene: A `Scene`, or a dictionary in the form of a scene file, both with paths relative to the working folder.
            Or the name of a scene file (`.json`), with paths relative to its folder. An open dataset, or a source,
            gives the default picture. An open dataset is opened a second time, with its files, options and definitions.
            Its limit, workers, readers and replacement are the defaults, and its own memory stays within its own limit.
            An open volume is drawn with its selected level, channel and time steps.
        output: The `.png` file. For several time steps: a pattern with a placeholder for the step's number
            (`"out_%04d.png"`), a folder, or a `.mp4`, for which `ffmpeg` is needed. Camera and colour ranges are the
            same in all of them. Each view of a scene gets a file, with its name before the number or the ending, or in
            the place of `{view}`.
        size: Width and height in pixels; None for the scene's.
        frames: Time steps, counted from 0: a slice, a list, or text like `"0:100:2"`; None for those of the scene, or
            all.
        fps: Pictures per second of a video; None for 24.
        resume: Skip numbered pictures that are complete and of the same scene and data.
        memory_limit: As in `farfield.open`; None for that of an open dataset. The same holds for the next three.
        workers: As in `farfield.open`.
        readers: As in `farfield.open`.
        replacement: As in `farfield.open`.
        events: As in `farfield.open`.
        plot3d: As in `farfield.open`.
        zone_order: As in `farfield.open`.
        volume: As in `farfield.open`, for the source of the picture or scene.
        progress: As in `farfield.open`.

    Raises:
        UsageError: if the scene is invalid.
        UnknownName: if it names something that the dataset lacks.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.render("demo:box", folder + "/box.png", size=(160, 90))["size"]
    ...     with ff.open("demo:box", memory_limit="64MiB") as ds:
    ...         ff.render(ds, folder + "/same.png", size=(160, 90))["stats"]["limit_bytes"] == 64 << 20
    [160, 90]
    True
    """
    resources = Resources.of(
        memory_limit=memory_limit,
        workers=workers,
        readers=readers,
        replacement=replacement,
        events=events,
        progress=progress,
    )
    how: dict[str, Any] = {"plot3d": plot3d, "zone_order": zone_order}
    options = Options.of(volume)
    if isinstance(scene, Dataset):
        films: dict[str, Any] = {"frames": frames, "fps": fps, "resume": resume}
        if not is_open_volume(scene):
            if volume:
                raise UsageError(f"{scene._name}: not a volume; remove the options of volumes")
            return render_open(scene, output, size=size, resources=resources, **films, **how)
        refuse_options_of_flows(scene._opening.source, how)
        if volume is None and not (is_flat(scene) and (events is not None or resources.settings.flags)):
            return render_open(scene, output, size=size, resources=resources, **films)
        said = scene._opening.options if volume is None else options
        film = film_of(scene, output, **films)
        target, held = target_of(output, film), resources.held_by(scene.stats())
        return _of_volume(scene._opening.source, held, said, target, film, scene, size=size)
    film = Film.of(output, frames=frames, fps=fps, resume=resume)
    target = target_of(output, film)
    data = Data(options=options)
    scene_file: str | None = None
    if isinstance(scene, Scene):
        chosen = scene
    elif isinstance(scene, Mapping):
        chosen = as_scene(scene)
    elif not isinstance(scene, str | os.PathLike):
        raise UsageError(f"a picture is of a scene, a dataset or a source, not of a {type(scene).__name__}")
    elif is_scene_file(os.fspath(scene)):
        scene_file, chosen = os.fspath(scene), load_scene(scene)
    elif is_volume(scene, options):
        refuse_options_of_flows(scene, how)
        return _of_volume(os.fspath(scene), resources, options, target, film, None, size=size)
    else:
        chosen, info = scene_and_info(scene, resources, **how)
        data = Data(info=info, options=options)
    if size is not None:
        chosen = chosen.model_copy(update={"size": size})
    of_flags = data.info is not None
    return draw(chosen, target, resources, data=data, film=film, scene_file=scene_file, of_flags=of_flags, **how)


def _of_volume(
    source: str,
    resources: Resources,
    options: Options,
    target: str,
    film: Film | None,
    like: VolumeDataset | None,
    *,
    size: tuple[int, int] | None,
) -> dict[str, Any]:
    """The default picture of a volume by its name; `like`: with the selected level, channel and steps of that volume."""

    def view_of(opened: VolumeDataset) -> VolumeDataset:
        return opened if like is None else opened._like(like)

    if like is not None:
        flat = is_flat(like)
    else:
        described, _ = describe_source(source, resources, options=options)
        flat = 1 in described.spec["levels"][0]["dims"]
    if flat:
        with open_volume(source, resources, options=options) as opened:
            outputs.check([target if film is None else film.written(), resources.events], opened._reads())
            return flat_picture(view_of(opened), target, size=size, film=film, progress=resources.progress)
    with contextlib.ExitStack() as until_drawn:
        opened = until_drawn.enter_context(to_look_at(source, resources, options))
        chosen = default_of(view_of(opened), source, film)
        if size is not None:
            chosen = chosen.model_copy(update={"size": size})
        data = Data(lambda: closing(opened, until_drawn), opened.info(), options=options)
        return draw(chosen, target, resources, data=data, film=film, of_flags=True)


@contextlib.contextmanager
def closing(opened: VolumeDataset, until_drawn: contextlib.ExitStack) -> Iterator[VolumeDataset]:
    """An open volume that is closed before drawing: the extension opens it again and needs its memory."""
    try:
        yield opened
    finally:
        until_drawn.close()


def draw(
    scene: Scene,
    target: str,
    resources: Resources,
    *,
    data: Data | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """As `drawing.draw`; opens the data if necessary.

    Raises:
        UsageError: if the scene is invalid.
        UnknownName: if it names something that the dataset lacks.
    """
    data = data or Data()

    def find_info(files: Source) -> Mapping[str, Any]:
        defined = beneath(plot3d, scene.define)
        with open_source(files, resources.beside(), plot3d=defined, zone_order=zone_order) as dataset:
            return dataset.info()

    def find_volume() -> contextlib.AbstractContextManager[VolumeDataset]:
        return to_look_at(str(scene.source), resources, data.options)

    found = replace(data, volume=data.volume or find_volume, find_info=find_info)
    return drawing.draw(scene, target, resources, data=found, plot3d=plot3d, zone_order=zone_order, **more)
