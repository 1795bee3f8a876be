"""Runs that need no open dataset: convert, validate, render; and grid surfaces of one."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farfield import once, outputs, sources
from farfield.definitions import SPEED, Definitions, added, beneath, speed
from farfield.errors import UsageError
from farfield.names import field_names
from farfield.otherpictures import ENDINGS, drawn_as_png, is_other
from farfield.progress import Report, reporting
from farfield.settings import Settings

if TYPE_CHECKING:
    from farfield.dataset import Dataset
    from farfield.scene import Scene
    from farfield.scene.films import Film, Frames
    from farfield.volume.description import VolumeDescription
    from farfield.volume.options import Options

Path = str | os.PathLike[str]
Notice = Callable[[Mapping[str, Any]], None]
PICTURES = ENDINGS
LINES = (".vtp", ".npz", ".parquet", ".pvd")


def output_path(path: Path, allowed: Sequence[str], what: str) -> str:
    """The path as text.

    Raises:
        UsageError: if it does not end in one of `allowed`.
    """
    target = os.fspath(path)
    if os.path.splitext(target)[1].lower() not in allowed:
        end = "one of these" if len(allowed) > 1 else "this"
        each = list(dict.fromkeys(allowed))
        ends = " or ".join(filter(None, (", ".join(each[:-1]), each[-1])))
        raise UsageError(f"{target}: {what} are written as {ends}; end the name in {end}")
    return target


def _located(
    source: Path,
    settings: Settings,
    *,
    q: Path | Iterable[Path] | None = None,
    function: Path | Iterable[Path] | None = None,
    **options: Any,
) -> sources.Source:
    """The files of a source, with the options (plot3d, zone_order) that it is opened with.

    Raises:
        DataError: if one is not there.
        UsageError: if the source makes no sense.
    """
    found = sources.parse(source, q=q, function=function)
    return found.with_options(cache_dir=str(settings["cache_dir"]), settled=settings.definitions(), **options)


def convert(
    source: Path,
    destination: Path,
    *,
    q: Path | Iterable[Path] | None = None,
    function: Path | Iterable[Path] | None = None,
    page: int | None = None,
    layout: str | None = None,
    codec: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    append: bool = False,
    dry_run: bool = False,
    fields: Sequence[str] | None = None,
    define: Definitions | None = None,
    levels: int | None = None,
    downsample: str | None = None,
    volume: Mapping[str, Any] | None = None,
    memory_limit: str | int | None = None,
    workers: int | None = None,
    readers: int | None = None,
    events: Path | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Streams a dataset into a Zarr v3 store, in memory bounded by the limit; returns what `convert --json` prints.

    A volume becomes a pyramid, as OME-Zarr 0.5 has it: all channels and time steps, each level half as fine as the one before.

    Args:
        source: As in `farfield.open`.
        destination: The folder of the store.
        q: As in `farfield.open`.
        function: As in `farfield.open`.
        page: Page edge in points: 4, 8, 16, 32 or 64; None: 16, of volumes 32.
        layout: `"cubed"` or `"flat"`.
        codec: `"none"`, `"zstd"` or `"lz4"`.
        resume: Complete a store that an interrupted conversion left.
        overwrite: Replace a store that is there, once the new one is whole.
        append: Add the time steps of the source that the store does not have yet; its pages stay what they are, and it takes
            the place of the old one in one step. Where there is no store, it is made.
        dry_run: Only say what it would cost.
        fields: The fields that the store is to hold beside the grid, derived ones too, which are made page by page; None: the
            stored ones.
        define: Fields made of others, as in `farfield.open`, for `fields`.
        levels: Of volumes, how many levels at most; None: down to where the longest side has at most 64 voxels.
        downsample: Of volumes, how up to eight voxels become one: `"mean"` (of those that have a value; whole numbers are rounded
            to the nearest, halves to even), `"majority"` (what most of them are; of several the lowest) or `"nearest"` (the
            first); None: majority for labels, else mean.
        volume: As in `farfield.open`.
        memory_limit: As in `farfield.open`.
        workers: As in `farfield.open`.
        readers: As in `farfield.open`.
        events: As in `farfield.open`.
        plot3d: As in `farfield.open`.
        zone_order: As in `farfield.open`.
        progress: As in `farfield.open`.

    Raises:
        DataError: if the source cannot be read, the destination exists, or the disk is full; with `append`, if steps that are there
            were changed since, or new ones do not come after them or are of other zones or fields.
        UnknownName: if there is no such field.
        UsageError: if an argument makes no sense, or source and destination lie in each other.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.convert("demo:box", folder + "/box.zarr", page=8)["page"]
    ...     ff.convert("demo:box", folder + "/few.zarr", fields=["velocity", "vorticity"])["fields"]
    8
    ['velocity', 'vorticity']
    """
    from farfield import _core

    given = {"memory_limit": memory_limit, "workers": workers, "readers": readers}
    settings = Settings({**given, "page": page, "layout": layout, "codec": codec})
    told = _volume_options(source, volume)
    if told is not None:
        from farfield.volumestores import convert_volume

        of_flows = {
            "q": q, "function": function, "append": append, "fields": fields, "define": define, "plot3d": plot3d,
            "zone_order": zone_order,
        }  # fmt: skip
        _no_options_of_flows(source, of_flows)
        return convert_volume(
            source,
            destination,
            settings,
            options=told,
            page=settings["page"],
            levels=levels,
            downsample=downsample,
            resume=resume,
            overwrite=overwrite,
            dry_run=dry_run,
            events=events,
            progress=progress,
        )
    if levels is not None or downsample is not None:
        wrong = "levels" if levels is not None else "downsample"
        raise UsageError(f"{os.fspath(source)}: this is a dataset of zones, which has no levels: leave {wrong} away")
    plot3d = added(plot3d, define)
    found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    if SPEED in field_names(fields or ()):
        from farfield.dataset import open_source

        with open_source(found, settings, plot3d=plot3d, zone_order=zone_order, progress=False) as dataset:
            plot3d = beneath(plot3d, dataset._known.implied)
        found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    options = {
        "fields": field_names(fields or ()),
        **{name: settings[name] for name in ("page", "layout", "codec")},
        "resume": resume,
        "overwrite": overwrite,
        "append": append,
        "given": [name for name, value in (("page", page), ("layout", layout), ("codec", codec)) if value is not None],
        "dry_run": dry_run,
    }
    read = found.reads()
    target = os.path.abspath(destination)
    if overwrite and os.path.isdir(target):
        # A store may be cut anew: it is read until the new one is whole and takes its place.
        read = [name for name in read if os.path.realpath(name) != target]
    outputs.check([destination, events], read)
    with reporting(progress) as report:
        text = _core.convert(
            found.path,
            os.fspath(destination),
            **found.with_options(**options).native(),
            **settings.means(replacement=False),
            events=_events(events),
            progress=report,
        )
    return _object(text)


def _volume_options(source: Path, volume: Mapping[str, Any] | None) -> Options | None:
    """What is said of the volume that a source is; None where it is a dataset of zones.

    Raises:
        UsageError: if something is said of a volume that is none.
    """
    from farfield.volume.options import Options
    from farfield.volume.sniffing import is_volume

    told = Options.of(volume)
    if is_volume(source, told):
        return told
    if volume:
        raise UsageError(f"{os.fspath(source)}: this is no volume: leave the options of volumes away")
    return None


def _no_options_of_flows(source: Path, given: Mapping[str, Any]) -> None:
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        raise UsageError(f"{os.fspath(source)}: this is a volume, which has no zones: leave {wrong} away")


def validate(
    source: Path,
    *,
    q: Path | Iterable[Path] | None = None,
    function: Path | Iterable[Path] | None = None,
    volume: Mapping[str, Any] | None = None,
    memory_limit: str | int | None = None,
    workers: int | None = None,
    readers: int | None = None,
    events: Path | None = None,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Reads every page once and checks its checksum, where it has one, and its shape; returns what `validate --json` prints.

    A dataset that does not hold is an answer (`ok` False and a list of `failures`), not an error. Of a volume `never_written`
    counts chunks that its format defines as never written: whoever reads them gets the fill value. `volume` is as in
    `farfield.open`.

    Raises:
        DataError: if the dataset cannot be opened at all.

    >>> import farfield as ff
    >>> ff.validate("demo:box")["ok"]
    True
    """
    from farfield import _core

    settings = Settings({"memory_limit": memory_limit, "workers": workers, "readers": readers})
    told = _volume_options(source, volume)
    if told is not None:
        from farfield.volumestores import validate_volume

        _no_options_of_flows(source, {"q": q, "function": function, "plot3d": plot3d, "zone_order": zone_order})
        return validate_volume(source, settings, options=told, events=events, progress=progress)
    found = _located(source, settings, q=q, function=function, plot3d=plot3d, zone_order=zone_order)
    outputs.check([events], found.reads())
    with reporting(progress) as report:
        text = _core.validate(
            found.path,
            **found.native(),
            **settings.means(replacement=False),
            events=_events(events),
            progress=report,
        )
    return _object(text)


def extract_surface(
    dataset: Dataset,
    output: Path,
    *,
    surfaces: Sequence[str] | None = None,
    scalars: Sequence[str] = (),
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Writes grid surfaces, with fields on them, to a `.vtp`, `.npz`, `.ply` or `.glb` file.

    A `.vtp` or `.npz` has every point, and quadrilaterals; a `.ply` or `.glb` has triangles, normals, and the points of these.

    Args:
        dataset: An open dataset.
        output: The file.
        surfaces: `"zone1:k=1"` and so on, 1-based, or parts such as `"zone1:k=1,i=2:40"`; None for all walls.
        scalars: Fields to write.
        progress: As in `farfield.open`.

    Raises:
        UnknownName: if a zone or field does not exist.
        UsageError: if a surface does not lie in its zone, or the file's name does not end as it should, or is one of the
            dataset's.

    >>> import tempfile, farfield as ff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ff.extract_surface(ff.open("demo:box"), folder + "/face.vtp", surfaces=["zone1:k=1"])["points"]
    2009
    """
    from farfield.contours import MESHES
    from farfield.surfaces import parse_surface

    target = output_path(output, MESHES, "surfaces")
    listed = None if surfaces is None else [parse_surface(text).native() for text in surfaces]
    options = {"surfaces": listed, "scalars": field_names(scalars), "step": dataset._step or 0}
    outputs.check([target], dataset._source.reads())
    with reporting(progress) as report:
        return _object(dataset._native.extract_surface(json.dumps(options), target, progress=report))


@once.run()
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
    from farfield.dataset import Dataset
    from farfield.flatvolumes import flat_picture, is_flat
    from farfield.scene import Scene, load_scene
    from farfield.scene.defaults import scene_and_info
    from farfield.scene.files import as_scene
    from farfield.scene.films import Film, looked_at
    from farfield.scene.volumes import first_scene
    from farfield.volume.options import Options
    from farfield.volume.sniffing import is_volume
    from farfield.volumedata import VolumeDataset, open_volume

    film = Film.of(output, frames=frames, fps=fps, resume=resume)
    if film is not None and frames is None and isinstance(scene, Dataset | VolumeDataset):
        film = Film.of(output, frames=scene._all_selected(), fps=fps, resume=resume)
    target = output_path(output, PICTURES, "pictures") if film is None else film.pattern
    means = {"memory_limit": memory_limit, "workers": workers, "readers": readers, "replacement": replacement}
    how: dict[str, Any] = {"plot3d": plot3d, "zone_order": zone_order}
    told = scene._options if isinstance(scene, VolumeDataset) and volume is None else Options.of(volume)
    if isinstance(scene, Dataset | VolumeDataset):
        held = scene.stats()
        own = {"memory_limit": held["limit_bytes"], **held}
        means = {key: own.get(key) if value is None else value for key, value in means.items()}
    settings = Settings(means)
    files: sources.Source | None = None
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
        source = scene._source if isinstance(scene, VolumeDataset) else os.fspath(scene)
        _no_options_of_flows(source, how)

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


@once.run()
def draw(
    scene: Scene,
    target: str,
    settings: Settings,
    *,
    film: Film | None = None,
    info: Mapping[str, Any] | None = None,
    files: sources.Source | None = None,
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
    from farfield import _core
    from farfield.dataset import open_source
    from farfield.scene.files import files_of, placed, placed_text, save_scene
    from farfield.scene.films import add_outputs, as_drawn, looked_at
    from farfield.scene.native import is_colored, to_native
    from farfield.scene.unseen import of_drawn, of_volume
    from farfield.scene.volumes import fields_of, settled, to_look_at
    from farfield.volume.options import Options
    from farfield.volume.sniffing import is_volume
    from farfield.volumespace import are_counted

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


def is_scene_file(name: str) -> bool:
    """Whether a name means a scene and not a source.

    >>> is_scene_file("wing.json"), is_scene_file("wing.p3d.json"), is_scene_file("wing.xyz+q=wing.q")
    (True, False, False)
    """
    return name.endswith(".json") and not name.endswith(".p3d.json")


def _events(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)


def _object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found
