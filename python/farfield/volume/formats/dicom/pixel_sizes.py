"""Pixel sizes of DICOM images, from several elements."""

from __future__ import annotations

from typing import Any

from farfield.volume.formats.dicom.elements import number_of, numbers_of

_CM = 3
"""The code of centimetres in regions of ultrasound."""


def spacing_of(header: Any) -> tuple[tuple[float, float] | None, str]:
    """Millimetres between rows and between columns, or None; and a note unless they come from PixelSpacing."""
    found = numbers_of(header.get("PixelSpacing"), 2)
    if found is not None:
        return (found[0], found[1]), ""
    for tag, meaning in (("ImagerPixelSpacing", "at the detector"), ("NominalScannedPixelSpacing", "as scanned")):
        found = numbers_of(header.get(tag), 2)
        if found is not None:
            return (found[0], found[1]), f"its pixels are measured {meaning} ({tag}), since there is no PixelSpacing"
    for region in header.get("SequenceOfUltrasoundRegions") or ():
        units = [number_of(region.get(f"PhysicalUnits{axis}Direction")) for axis in "YX"]
        down, across = (number_of(region.get(f"PhysicalDelta{axis}")) for axis in "YX")
        if units == [_CM, _CM] and down and across:
            said = "its pixels are as large as those of its first region with centimetres (SequenceOfUltrasoundRegions)"
            return (abs(down) * 10, abs(across) * 10), said
    ratio = numbers_of(header.get("PixelAspectRatio"), 2)
    if ratio is not None and min(ratio) > 0 and ratio[0] != ratio[1]:
        said = f"it says only how high its pixels are to how wide ({ratio[0]:g} to {ratio[1]:g}, PixelAspectRatio): 1 mm wide"
        return (ratio[0] / ratio[1], 1.0), said
    return None, ""
