"""Planes through volumes: channels, levels, anatomy and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield.dataset.field_names import field_names
from farfield.pictures.colors import DIVERGING, lut
from farfield.pictures.sampled_values import sample
from farfield.pictures.signed_fields import reach_of_signed
from farfield.pictures.slices import Plane, SliceStyle
from farfield.volume.orientation import rightward, upward, way

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset

_GREY = "gray"
"""The usual colour map of scans."""


class VolumeSlicing:
    """`Slicing` of a volume."""

    def __init__(self, volume: VolumeDataset) -> None:
        self._volume = volume

    def options(self, plane: Plane, *, is_picture: bool) -> dict[str, Any]:
        """The options for the extension. A picture omits the channels that the file switches off."""
        volume = self._volume
        options = plane.native(volume._step or 0)
        chosen = volume if plane.level is None else volume.level(plane.level)
        options["level"] = None if plane.level is None and volume._level == 0 else chosen._level
        options["nearest"] = plane.nearest
        if options["up"] is None:
            options["up"] = upward(volume, options["normal"])
        options["rightward"] = rightward(volume.anatomy, plane.convention)
        options["fields"] = field_names(plane.field) or (shown_names(volume) if is_picture else volume.fields)
        return options

    def colors(self, fields: Sequence[str], style: SliceStyle) -> dict[str, Any] | None:
        """Grey, or the given map; None for labels, stored colours and several channels."""
        limits = style.limits
        if style.is_plain:
            if len(fields) > 1 or self._volume.kind == "labels":
                return None
            limits = next((c.limits for c in self._volume.channels if c.name == fields[0]), None)
            # Files may contain windows without a width; then use the slice's own range.
            limits = limits if limits is not None and limits[0] < limits[1] else None
        is_inverted = self._is_inverted(fields[0], style)
        table = None if style.grey16 else lut(style.cmap or _GREY)
        return {
            "range": limits,
            "grey16": style.grey16,
            "inverted": style.grey16 and is_inverted,
            "table": table[::-1] if table is not None and is_inverted else table,
        }

    def inverted(self, fields: Sequence[str], style: SliceStyle) -> list[str]:
        """Channels that the file inverts. With a given map, only the option `invert` counts."""
        return [name for name in fields if self._is_inverted(name, style)]

    def _is_inverted(self, name: str, style: SliceStyle) -> bool:
        if style.cmap is not None and self._volume._opening.options.invert is None:
            return False
        return any(c.inverted for c in self._volume.channels if c.name == name)

    def signed(self, options: dict[str, Any], ranges: Sequence[Sequence[float]]) -> tuple[float, dict[str, Any]] | None:
        """Zero, if the channel has meaningful values on both sides of it."""
        volume, (low, high), name = self._volume, ranges[0], options["fields"][0]
        if any(c.limits is not None and c.name == name for c in volume.channels) or not low < 0 < high:
            return None
        if reach_of_signed(volume, name, sample(volume, name, [volume._step or 0])) is None:
            return None
        return 0.0, {"table": lut(DIVERGING)}

    def is_of_numbers(self, style: SliceStyle) -> bool:
        """For scalars, unless a colour map is given."""
        return self._volume.kind == "scalar" and style.cmap is None

    def finished(self, done: dict[str, Any], inverted: Sequence[str], *, is_picture: bool) -> dict[str, Any]:
        """Adds the inverted channels, and the anatomy of the edges."""
        anatomy = self._volume.anatomy
        if is_picture:
            done["inverted"] = list(inverted)
        if anatomy is not None:
            done["anatomy"] = {side: way(done[side], anatomy) for side in ("right", "up")}
        return self._volume._counted(done)


def shown_names(volume: VolumeDataset) -> list[str]:
    """The channels of a view in a picture: those that the file switches on, or all if there is none."""
    chosen = volume._chosen_channels()
    shown = [n for n in chosen if n not in volume._description.hidden] or chosen
    return [volume.channels[n].name for n in shown]
