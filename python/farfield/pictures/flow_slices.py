"""Planes through zones: their fields and colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from farfield.dataset.field_names import field_names
from farfield.errors import UsageError
from farfield.pictures.colors import DIVERGING, SEQUENTIAL, lut
from farfield.pictures.signed_fields import has_sign, is_signed
from farfield.pictures.slices import Plane, SliceStyle

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset


class FlowSlicing:
    """`Slicing` of a dataset of zones."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def options(self, plane: Plane, *, is_picture: bool) -> dict[str, Any]:
        """The options for the extension; pictures and arrays have the same fields."""
        source = self._dataset._source
        options = plane.native(self._dataset._step or 0)
        if plane.level is not None or plane.nearest or plane.convention is not None:
            raise UsageError(
                f"{source.text}: levels of resolution, nearest voxels and conventions of anatomy are of volumes, and this is a "
                "dataset of zones"
            )
        main = source.main_field
        options["fields"] = field_names(plane.field) or ([main] if main is not None else [])
        if not options["fields"]:
            raise UsageError("a slice needs a field; 'farfield info' lists them")
        return options

    def colors(self, fields: Sequence[str], style: SliceStyle) -> dict[str, Any]:
        """Viridis, or the given map."""
        table = None if style.grey16 else lut(style.cmap or SEQUENTIAL)
        return {"range": style.limits, "grey16": style.grey16, "inverted": False, "table": table}

    def inverted(self, fields: Sequence[str], style: SliceStyle) -> list[str]:
        """Empty: no field is inverted."""
        return []

    def signed(self, options: dict[str, Any], ranges: Sequence[Sequence[float]]) -> tuple[float, dict[str, Any]] | None:
        """The field's own centre, or zero."""
        (low, high), name, middle = ranges[0], options["fields"][0], 0.0
        field = next((f for f in self._dataset.info()["fields"] if f["name"] == name), {"units": None, "center": None})
        if field["center"] is not None:
            middle = float(field["center"])
        elif not has_sign(name, field["units"]) or not is_signed(low, high):
            return None
        return (middle, {"table": lut(DIVERGING)}) if low < middle < high else None

    def is_of_numbers(self, style: SliceStyle) -> bool:
        """Only if grey of 16 bits is requested."""
        return False

    def finished(self, done: dict[str, Any], inverted: Sequence[str], *, is_picture: bool) -> dict[str, Any]:
        """The result, unchanged."""
        return done
