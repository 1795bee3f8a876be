"""Volumes opened to choose the values that a scene leaves open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, cast

from numpy.typing import NDArray

from farfield.errors import MemoryLimitError
from farfield.runtime.resources import Resources
from farfield.volume.dataset import VolumeDataset
from farfield.volume.formats.options import Options
from farfield.volume.native import Native
from farfield.volume.opening import open_volume


@contextlib.contextmanager
def to_look_at(
    source: str, resources: Resources, options: Mapping[str, Any] | Options | None = None
) -> Iterator[VolumeDataset]:
    """Opens a volume to choose open values of a scene. The ledger does not charge the arrays of samples, so pages get
    half of the limit, if that suffices."""
    with open_volume(source, resources.beside(), options=options) as opened:
        whole = opened.memory_limit
        with contextlib.suppress(MemoryLimitError):
            opened.set_memory_limit(whole // 2)
            opened._native = cast("Native", _Sparing(opened._native, whole))
        yield opened


class _Sparing:
    """A volume of the extension with half of its limit, or all of it once half is too small."""

    def __init__(self, native: Native, whole: int) -> None:
        self._native = native
        self._whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def read_box(self, *asked: Any) -> NDArray[Any]:
        try:
            return self._native.read_box(*asked)
        except MemoryLimitError:
            # An error with the whole limit is final, and then names the user's limit.
            self._native.set_memory_limit(self._whole)
            return self._native.read_box(*asked)
