"""Volumes that are opened to find out how they look."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

from numpy.typing import NDArray

from farfield.errors import MemoryLimitError
from farfield.runtime.progress import Report
from farfield.runtime.settings import Settings
from farfield.volume.dataset import VolumeDataset
from farfield.volume.formats.options import Options
from farfield.volume.native import Native
from farfield.volume.opening import open_volume


@contextlib.contextmanager
def to_look_at(
    source: str, settings: Settings, options: Mapping[str, Any] | Options | None, progress: bool | Report | None
) -> Iterator[VolumeDataset]:
    """Opens a volume to find out what a scene leaves open: what is looked at are arrays that nobody charges, so its pages have half
    of the limit, where that is enough for them.
    """
    with open_volume(source, settings, options=options, progress=progress) as opened:
        whole = opened.memory_limit
        with contextlib.suppress(MemoryLimitError):
            opened.set_memory_limit(whole // 2)
            opened._native = cast("Native", _Sparing(opened._native, whole))
        yield opened


class _Sparing:
    """A volume of the extension with half of its limit, until that is too little."""

    def __init__(self, native: Native, whole: int) -> None:
        self._native = native
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def read_box(self, *asked: Any) -> NDArray[Any]:
        try:
            return self._native.read_box(*asked)
        except MemoryLimitError:
            # What is wrong with all of it is said of the limit that was given.
            self._native.set_memory_limit(self._whole)
            return self._native.read_box(*asked)
