"""Planes through volumes, sampled at pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farfield.pictures.slices import SliceImage, slice_image
from farfield.runtime.progress import Report


class VolumeSlices:
    """What a volume can be asked for that lies in a plane."""

    def slice_image(
        self,
        *,
        normal: str | Sequence[float],
        origin: str | Sequence[float] | None = None,
        up: str | Sequence[float] | None = None,
        extent: str | Sequence[float] | None = None,
        size: str | Sequence[int] | None = None,
        resolution: float | None = None,
        field: str | Sequence[str] | None = None,
        level: int | None = None,
        nearest: bool = False,
        convention: str | None = None,
        progress: bool | Report | None = None,
    ) -> SliceImage:
        """A plane sampled at the middles of pixels, as an array with its place.

        Args:
            normal: Across the plane: `"x"`, `"y"`, `"z"` or three numbers; its sign does not matter. In the picture the patient's
                left is on the right (in planes without it the back), or, where nothing is anatomy, x grows to the right wherever it
                can.
            origin: A point of the plane; None for the middle of the data.
            up: What is up, as far as it lies in the plane; None for the head or the front of anatomy, for the first row of images
                (TIFF, PNG, OME-Zarr and the like), else for z, or y where the plane faces z.
            extent: Left, right, bottom and top edge, as distances from the origin; None for the whole cross-section.
            size: Width and height in pixels; None for 1024 along the longer side.
            resolution: Edge of a pixel, in place of the size.
            field: A channel, or several; None for all, or those of the view.
            level: Of resolution, 0 the finest; None for that of the view, and of the whole volume for one that suits the pixels.
            nearest: Whether a pixel takes the nearest voxel; otherwise values between voxels are interpolated, but of labels.
            convention: Of anatomy `"radiological"` (None: the same) or `"neurological"`, its mirror image.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such channel.
            UsageError: if an argument makes no sense, or the plane does not meet the data.

        >>> import farfield as ff
        >>> cut = ff.open("demo:phantom").slice_image(normal="z", size=(64, 80))
        >>> cut.values.shape, cut.failed, cut.length_unit
        ((80, 64), 0, 'mm')
        """
        plane: dict[str, Any] = {"normal": normal, "origin": origin, "up": up, "extent": extent}
        more: dict[str, Any] = {
            "field": field,
            "level": level,
            "nearest": nearest,
            "convention": convention,
            "progress": progress,
        }
        return slice_image(self, **plane, size=size, resolution=resolution, **more)  # type: ignore[arg-type]
