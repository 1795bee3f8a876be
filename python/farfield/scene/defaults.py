"""The default picture of a dataset or a source."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from farfield.flow.dataset import Dataset
from farfield.flow.opening import open_source
from farfield.runtime.progress import Report
from farfield.runtime.resources import Resources
from farfield.runtime.settings import Settings
from farfield.scene.composition import scene_of
from farfield.scene.models import Scene
from farfield.sources.parsing import parse


def default_scene(
    dataset: Dataset | str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    progress: bool | Report | None = None,
    lines: bool = True,
) -> Scene:
    """The default picture of an open dataset or a source. `lines` False omits traced lines.

    Raises:
        DataError: if the dataset cannot be read.

    >>> [o.kind for o in default_scene("demo:box").objects]
    ['outline', 'lines']
    """
    resources = Resources(settings or Settings(), progress=progress)
    return scene_and_info(dataset, resources, plot3d=plot3d, zone_order=zone_order, lines=lines)[0]


def scene_and_info(
    dataset: Dataset | str | os.PathLike[str],
    resources: Resources,
    *,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    lines: bool = True,
) -> tuple[Scene, dict[str, Any]]:
    """As `default_scene`, with the dataset's `info`, so that the caller need not open it again."""
    if isinstance(dataset, Dataset):
        return scene_of(dataset, progress=resources.progress, lines=lines)
    text = os.fspath(dataset)
    with open_source(parse(text), resources.beside(), plot3d=plot3d, zone_order=zone_order) as opened:
        return scene_of(opened, text=text, progress=resources.progress, lines=lines)
