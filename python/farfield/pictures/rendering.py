"""Pictures of scenes, datasets and sources, as files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from farfield import _core
from farfield.errors import UsageError
from farfield.flow.dataset import Dataset
from farfield.flow.definitions import SPEED, beneath, speed
from farfield.flow.opening import open_source
from farfield.opening import refuse_options_of_flows
from farfield.pictures.flat_volumes import flat_picture, is_flat
from farfield.pictures.opened_volumes import to_look_at
from farfield.results import outputs
from farfield.results.image_files import ENDINGS as PICTURES
from farfield.results.image_files import drawn_as_png, is_other
from farfield.runtime import run_context
from farfield.runtime.progress import Report, reporting
from farfield.runtime.settings import Settings
from farfield.scene import Scene, load_scene
from farfield.scene.defaults import scene_and_info
from farfield.scene.drawn import as_drawn
from farfield.scene.files import as_scene, files_of, is_scene_file, placed, placed_text, save_scene
from farfield.scene.films import Film, Frames, add_outputs, looked_at
from farfield.scene.invisible import of_drawn, of_volume
from farfield.scene.native import is_colored, to_native
from farfield.scene.volumes import fields_of, first_scene, settled
from farfield.sources.source import Source
from farfield.volume.dataset import VolumeDataset
from farfield.volume.formats.description import VolumeDescription
from farfield.volume.formats.detection import is_volume
from farfield.volume.formats.options import Options
from farfield.volume.opening import open_volume
from farfield.volume.space import are_counted

Path = str | os.PathLike[str]
Notice = Callable[[Mapping[str, Any]], None]


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
    """Draws a picture, or one of each time step, in software, in charged tiles; returns what `render --json` prints.

    Args:
        scene: A `Scene` or a dictionary of what a scene file holds, whose paths are relative to the working folder; the name of
            a scene file (`.json`), whose paths are relative to its own folder; an open dataset or volume, or a source: these give
            the default picture. An open dataset is opened a second time, with its files, its options, what was defined in it and,
            where nothing else is said, its means; what it holds itself stays within its own limit. Of an open volume the level,
            channel and time steps are shown that were chosen.
        output: The `.png` file. Of many time steps: a pattern with a place for the step's number (`"out_%04d.png"`), a folder, or a
            `.mp4`, which the system's `ffmpeg` makes. Camera and ranges of colours are the same in all of them. Of a scene with
            views each gets a file, with its name before the number or the ending, or in the place of `{view}`.
        size: Width and height in pixels; None for the scene's.
        frames: Which time steps, counted from 0: a slice, a list, or text like `"0:100:2"`; None for those of the scene, or all.
        fps: Pictures a second of a video; None for 24.
        resume: Leave numbered pictures alone that are there, whole, and of the same scene and data.
        memory_limit: As in `farfield.open`; None for that of an open dataset, likewise below.
        workers: As in `farfield.open`.
        readers: As in `farfield.open`.
        replacement: As in `farfield.open`.
        events: As in `farfield.open`.
        plot3d: As in `farfield.open`.
        zone_order: As in `farfield.open`.
        volume: As in `farfield.open`, of the source of the picture or scene.
        progress: As in `farfield.open`.

    Raises:
        UsageError: if the scene makes no sense.
        UnknownName: if it names what the dataset does not have.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.render("demo:box", folder + "/box.png", size=(160, 90))["size"]
    ...     with ff.open("demo:box", memory_limit="64MiB") as ds:
    ...         ff.render(ds, folder + "/same.png", size=(160, 90))["stats"]["limit_bytes"] == 64 << 20
    [160, 90]
    True
    """
    film = Film.of(output, frames=frames, fps=fps, resume=resume)
    if film is not None and frames is None and isinstance(scene, Dataset | VolumeDataset):
        film = Film.of(output, frames=scene._all_selected(), fps=fps, resume=resume)
    target = outputs.output_path(output, PICTURES, "pictures") if film is None else film.pattern
    means = {"memory_limit": memory_limit, "workers": workers, "readers": readers, "replacement": replacement}
    how: dict[str, Any] = {"plot3d": plot3d, "zone_order": zone_order}
    told = scene._opening.options if isinstance(scene, VolumeDataset) and volume is None else Options.of(volume)
    if isinstance(scene, Dataset | VolumeDataset):
        held = scene.stats()
        own = {"memory_limit": held["limit_bytes"], **held}
        means = {key: own.get(key) if value is None else value for key, value in means.items()}
    settings = Settings(means)
    files: Source | None = None
    info: Mapping[str, Any] | None = None
    scene_file: str | None = None
    if isinstance(scene, Scene):
        chosen = scene
    elif isinstance(scene, Mapping):
        chosen = as_scene(scene)
    elif isinstance(scene, Dataset):
        (chosen, info), files = scene_and_info(scene, progress=progress), scene._source
    elif not isinstance(scene, str | os.PathLike | VolumeDataset):
        raise UsageError(f"a picture is of a scene, a dataset or a source, not of a {type(scene).__name__}")
    elif not isinstance(scene, VolumeDataset) and is_scene_file(os.fspath(scene)):
        scene_file, chosen = os.fspath(scene), load_scene(scene)
    elif isinstance(scene, VolumeDataset) or is_volume(scene, told):
        source = scene._opening.source if isinstance(scene, VolumeDataset) else os.fspath(scene)
        refuse_options_of_flows(source, how)

        def volume_of(opened: VolumeDataset) -> VolumeDataset:
            return opened._like(scene) if isinstance(scene, VolumeDataset) else opened

        with open_volume(source, settings, options=told, progress=progress) as opened:
            shown = volume_of(opened)
            flat = is_flat(shown)
            if not flat:
                steps = None if film is None else looked_at(shown, film)
                chosen, info = first_scene(shown, source, shown._step or 0, steps=steps), shown.info()
        if flat:
            with open_volume(source, settings, options=told, events=events, progress=progress) as opened:
                outputs.check([target if film is None else film.written(), events], opened._description.reads)
                return flat_picture(volume_of(opened), target, size=size, film=film, progress=progress)
    else:
        chosen, info = scene_and_info(scene, settings, progress=progress, **how)
    if size is not None:
        chosen = chosen.model_copy(update={"size": size})
    more: dict[str, Any] = {"film": film, "events": events, "volume": told.given(), "progress": progress, **how}
    of_flags = info is not None
    return draw(chosen, target, settings, info=info, files=files, scene_file=scene_file, of_flags=of_flags, **more)


@run_context.run()
def draw(
    scene: Scene,
    target: str,
    settings: Settings,
    *,
    film: Film | None = None,
    info: Mapping[str, Any] | None = None,
    files: Source | None = None,
    scene_file: str | None = None,
    save_as: str | None = None,
    of_flags: bool = False,
    notice: Notice | None = None,
    events: Path | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    volume: Mapping[str, Any] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """As `render`, of a scene; `target` is the name of its file, or the pattern of those of a `film`. Its dataset's `info` and
    `files` are found out if they are not at hand; `scene_file` is where it was read from, `save_as` where it is written to
    first, and again with what was settled when pictures of time steps are drawn. `of_flags`: nobody wrote the scene, and errors
    do not say where in it they are. `notice` gets the dataset's `info`, where that is at hand or needed. Definitions in `plot3d`
    win over those of the scene.

    Raises:
        UsageError: if the scene makes no sense.
        UnknownName: if it names what the dataset does not have.
    """
    how: dict[str, Any] = {"plot3d": beneath(plot3d, scene.define), "zone_order": zone_order}
    film = None if film is None else film.of_scene(scene)
    files, read = files_of(scene, files, scene_file=scene_file, volume=Options.of(volume))
    document: dict[str, Any] = {}
    with contextlib.nullcontext() if film is None else film.in_folder(), placed(scene, scene_file, of_flags=of_flags):
        outputs.check([*add_outputs(document, scene, target, film), save_as, events], read)
        if scene.views and is_other(target):
            raise UsageError(f"{target}: pictures of several views are PNG; end the name in .png")
        if save_as is not None:
            save_scene(scene, save_as)
        tables: list[bytes] = []
        described: VolumeDescription | None = None
        unseen: list[str] = []
        if scene.source is not None and files is None and is_volume(scene.source, Options.of(volume)):
            with to_look_at(scene.source, settings, volume, progress) as opened:
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
        elif volume:
            raise UsageError(f"{scene.source or 'the scene'}: this is no volume: leave the options of volumes away")
        if info is None and files is not None and (is_colored(scene) or SPEED in scene.model_dump_json()):
            with open_source(files, settings, progress=progress, **how) as dataset:
                info = dataset.info()
        if notice is not None and info is not None:
            notice(info)
        if described is None and info is not None:
            how["plot3d"] = beneath(how["plot3d"], speed(info["fields"]))
        document |= to_native(scene, settings, info, files, None if described is None else described.spec, **how)
        with reporting(progress) as report:
            is_one = film is None and not scene.views
            with drawn_as_png(target, settings.memory_limit()) if is_one else contextlib.nullcontext(target) as png:
                text = _core.render(
                    json.dumps(document),
                    png,
                    tables=tables,
                    **settings.means(),
                    events=_events(events),
                    progress=report,
                )
    found = _object(text)
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
    # Of pictures of many steps what is drawn is said of the last one.
    found["stats"]["warnings"] += warnings + (of_drawn(found["drawn"]) if film is None else [])
    if save_as is not None and film is not None:
        save_scene(as_drawn(scene, film, found), save_as)
    return found


def _events(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
