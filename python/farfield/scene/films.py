"""Pictures of several time steps: their files and their selection.

>>> film = Film.of("out_%04d.png", frames="0:10:5")
>>> film.pattern, film.native()
('out_%04d.png', {'frames': {'slice': [0, 10, 5]}, 'resume': False, 'fps': None})
>>> Film.of("out.png") is None
True
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from farfield.errors import DataError, UsageError
from farfield.pictures.directions import moderate_camera
from farfield.results.image_files import ENDINGS, is_other

if TYPE_CHECKING:
    from farfield.scene.models import Scene
    from farfield.volume.dataset import VolumeDataset

NUMBER = re.compile(r"%\d*d")
"""The placeholder for the step's number in a file name."""
VIDEO = ".mp4"
FPS = 24.0
"""Default pictures per second of a video."""
IN_FOLDER = "frame_%04d.png"

Frames = str | slice | Sequence[int]


@dataclass(frozen=True)
class Film:
    """Files and time steps of several pictures."""

    pattern: str
    """Name of the pictures with a placeholder for the step's number, or name of the video."""
    frames: dict[str, list[int | None]] | None
    """The steps for the extension: a slice or a list. None: those of the scene, else all."""
    resume: bool = False
    fps: float | None = None
    """Pictures per second of a video; None for separate files."""
    folder: str | None = None
    """The folder of the pictures if the output is a folder that does not exist yet."""

    @classmethod
    def of(
        cls,
        output: str | os.PathLike[str],
        *,
        frames: Frames | None = None,
        fps: float | None = None,
        resume: bool = False,
    ) -> Film | None:
        """The film for an output's name and options; None for a single picture. In a folder, pictures get numbers.

        Raises:
            UsageError: if options do not suit the name, or if a video is requested and `ffmpeg` is not installed.
        """
        text = os.fspath(output)
        is_named = text.lower().endswith((*ENDINGS, VIDEO))
        new = text.endswith(os.sep) and not os.path.exists(text)
        folder = text.rstrip(os.sep) if new else None
        if text.endswith(os.sep) or (os.path.isdir(text) and not is_named):
            text = os.path.join(text, IN_FOLDER)
        is_video = text.lower().endswith(VIDEO)
        if not is_video and not NUMBER.search(os.path.basename(text)):
            given = [
                name for name, v in (("frames", frames), ("fps", fps), ("resume", resume or None)) if v is not None
            ]
            if given:
                raise UsageError(
                    f"{text}: {given[0]} is for pictures of many time steps; name them out_%04d.png, a folder, or a .mp4"
                )
            return None
        if is_video and resume:
            raise UsageError(f"{text}: a video cannot be resumed; numbered pictures (out_%04d.png) can")
        if is_video and shutil.which("ffmpeg") is None:
            numbered = os.path.splitext(text)[0] + "_%04d.png"
            raise UsageError(
                f"{text}: this system has no ffmpeg, which makes videos; install it, or write numbered pictures: -o {numbered}"
            )
        if is_other(text):
            raise UsageError(f"{text}: pictures of many time steps are PNG: name them {os.path.splitext(text)[0]}.png")
        if not is_video and fps is not None:
            raise UsageError(f"{text}: fps is for videos; numbered pictures have no speed")
        if fps is not None and not 0 < fps < float("inf"):
            raise UsageError(f"fps is a positive number, not {fps}")
        steps = None if frames is None else read_frames(frames)
        return cls(text, steps, resume, (fps or FPS) if is_video else None, folder)

    def of_scene(self, scene: Scene) -> Film:
        """Fills in the scene's time steps, unless some are selected."""
        said = self.frames is not None or scene.frames is None
        return self if said else replace(self, frames=read_frames(scene.frames))

    def native(self) -> dict[str, Any]:
        """The form for the extension."""
        return {"frames": self.frames or read_frames(None), "resume": self.resume, "fps": self.fps}

    def written(self) -> str:
        """The first path that the run creates: its new folder, else its pictures."""
        return self.folder or self.pattern

    @contextlib.contextmanager
    def in_folder(self) -> Iterator[None]:
        """Makes the folder of the pictures, and removes it if it stays empty.

        Raises:
            DataError: if the folder cannot be made.
        """
        if self.folder is None or os.path.exists(self.folder):
            yield
            return
        try:
            os.mkdir(self.folder)
        except OSError as error:
            raise DataError(f"{self.folder}: cannot make the folder: {error.strerror or error}") from error
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)
            raise


def view_output(pattern: str, view: str) -> str:
    """The name of a view's picture. The view's name replaces `{view}`, or precedes the number or the ending.

    >>> view_output("out_%04d.png", "front"), view_output("a.b/out.png", "top"), view_output("{view}/%d.png", "top")
    ('out_front_%04d.png', 'a.b/out_top.png', 'top/%d.png')
    """
    if "{view}" in pattern:
        return pattern.replace("{view}", view)
    folder, name = os.path.split(pattern)
    number = NUMBER.search(name)
    if number is None:
        stem, end = os.path.splitext(name)
        return os.path.join(folder, f"{stem}_{view}{end}")
    before, after = name[: number.start()], name[number.start() :]
    return os.path.join(folder, f"{before}{view}_{after}")


def add_outputs(document: dict[str, Any], scene: Scene, target: str, film: Film | None) -> list[str]:
    """Adds outputs to the extension's document; returns their names, or the patterns of their names.

    Raises:
        UsageError: if the name has a placeholder for a view and the scene has no views.
    """
    document["film"] = None if film is None else film.native()
    if not scene.views:
        if "{view}" in target:
            raise UsageError(f"{target}: the scene has no views that could stand for {{view}}")
        return [target]
    names = [view_output(target, view.name) for view in scene.views]
    document["views"] = [
        {
            "output": name,
            "camera": None if view.camera is None else moderate_camera(view.camera.model_dump(mode="json")),
            "size": None if view.size is None else list(view.size),
            "title": view.title,
            "objects": view.objects,
        }
        for name, view in zip(names, scene.views, strict=True)
    ]
    return names


def read_frames(frames: Frames | None) -> dict[str, list[int | None]]:
    """The time steps in the form for the extension; None is all.

    Raises:
        UsageError: if the text is invalid, or if the steps are not evenly spaced and rising.
    """
    if frames is None:
        return {"slice": [None, None, None]}
    if isinstance(frames, slice):
        said = {"slice": [None if v is None else int(v) for v in (frames.start, frames.stop, frames.step)]}
    elif isinstance(frames, str):
        said = _parsed(frames)
    else:
        return {"list": [int(v) for v in frames]}
    every = said.get("slice", [None])[-1]
    if every is not None and every < 1:
        raise UsageError(f"a stride of {every} steps is invalid; it must be 1 or more")
    return said


def steps_of(volume: VolumeDataset, film: Film, scene: Scene | None = None) -> Sequence[int]:
    """The time steps that a film of a volume shows. Along a scene's path, `frames` counts pictures, and its keys give
    the steps."""
    count = len(volume._selected_steps())
    if scene is not None and scene.path:
        ends = [scene.step if key.step is None else key.step for key in scene.path]
        return [step for step in range(min(ends), max(ends) + 1) if step < count]
    said = film.native()["frames"]
    if "slice" in said:
        return range(count)[slice(*said["slice"])]
    wrong = next((n for n in said["list"] if not -count <= n < count), None)
    if wrong is not None:
        raise UsageError(f"there is no time step {wrong}; there are {count}, counted from 0")
    return [n % count for n in said["list"]]


def looked_at(volume: VolumeDataset, film: Film, scene: Scene | None = None) -> list[int]:
    """The time steps of a film that determine ranges and opacities: the first, the middle and the last."""
    return ends_and_middle(steps_of(volume, film, scene))


def ends_and_middle(steps: Sequence[int]) -> list[int]:
    """The first, middle and last of some time steps, without repeats.

    >>> ends_and_middle(range(10)), ends_and_middle([3]), ends_and_middle([])
    ([0, 5, 9], [3], [])
    """
    return list(dict.fromkeys([steps[0], steps[len(steps) // 2], steps[-1]])) if steps else []


def _parsed(text: str) -> dict[str, list[int | None]]:
    try:
        if ":" not in text:
            return {"list": [int(part) for part in text.split(",")]}
        parts = [int(part) if part.strip() else None for part in text.split(":")]
    except ValueError:
        parts = []
    if not 2 <= len(parts) <= 3:
        raise UsageError(f"'{text}' are not time steps; write them like 0:100:2 (from, up to before, every), or 3,7,9")
    return {"slice": [*parts, None][:3]}
