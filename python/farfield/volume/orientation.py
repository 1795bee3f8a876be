"""What is up in a picture of a plane of a volume: head or front of anatomy, the first row of images, north of maps.

>>> import farfield as ff
>>> upward(ff.open("demo:phantom"), (0.0, 0.0, 1.0))  # y is to the back
(0.0, -1.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from farfield.errors import UsageError

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset

Vector = tuple[float, float, float]
UP = ("S", "A")
"""What is up of anatomy: the first of these that lies in the plane."""
OPPOSITE = {"R": "L", "L": "R", "A": "P", "P": "A", "S": "I", "I": "S"}
_IN_PLANE = 0.5
"""Sine of the angle to the normal from which on a direction lies in a plane rather than across it: 30 degrees, so that in planes
of scans that are tilted the head is still up."""
_IMAGES = ("TIFF", "BigTIFF", "ImageJ", "OME", "DICOM", "PNG", "JPEG", "BMP", "GIF", "WebP")
"""First words of formats whose rows every program shows from the top down."""
_ARRAYS = ("Zarr", "NetCDF")
"""First words of formats in which y may be a coordinate."""


def upward(volume: VolumeDataset, normal: Sequence[float]) -> Vector | None:
    """What is up in a plane across `normal`; None where nothing says it: z is then, or y where the plane faces z.

    >>> import farfield as ff
    >>> upward(ff.open("demo:phantom"), (0.0, 1.0, 0.0))
    (0.0, 0.0, 1.0)
    """
    across = np.asarray(normal, dtype=np.float64)
    length = float(np.linalg.norm(across))
    if not length > 0:
        return None
    across = across / length
    letters = volume.anatomy
    if letters is not None:
        for letter in UP:
            at = next((n for n in range(3) if letter in (letters[n], OPPOSITE[letters[n]])), None)
            if at is not None and np.sqrt(max(0.0, 1.0 - across[at] ** 2)) > _IN_PLANE:
                return _axis(at, 1.0 if letters[at] == letter else -1.0)
        return None
    seen_along = np.asarray(volume.space.direction[2], dtype=np.float64)
    if of_images(made_as(volume)) and abs(float(seen_along @ across)) > np.sqrt(1 - _IN_PLANE**2):
        # Rows that go up instead are those of a picture that is stored upside down.
        return _axis(1, -1.0)
    return None


def _axis(at: int, sign: float) -> Vector:
    x, y, z = (sign if n == at else 0.0 for n in range(3))
    return x, y, z


def made_as(volume: VolumeDataset) -> str:
    """The format in which a volume was found; of a store of ours that of what was converted."""
    return volume._description.made_as or volume.format


def of_images(form: str) -> bool:
    """Whether a format's rows are shown from the top down by every program.

    >>> of_images("OME-TIFF"), of_images("PNG images"), of_images("VTK XML ImageData")
    (True, True, False)
    """
    return form.startswith(_IMAGES)


def is_map(volume: VolumeDataset) -> bool:
    """Whether y is a coordinate, and is not the number of a row: of maps, and of what VTK writes."""
    by = made_as(volume)
    if by.startswith(("VTK", "GeoTIFF")) or "degree" in (volume.length_unit, *(volume.space.axis_units or ())):
        return True
    return by.startswith(_ARRAYS) and volume.length_unit != "voxel"


CONVENTIONS = ("radiological", "neurological")
"""From which side anatomy is seen: as from the feet, with the patient's left on the right of the picture, or as from the head."""
_TO_THE_RIGHT = {"radiological": "LPS", "neurological": "RAS"}


def rightward(anatomy: str | None, convention: str | None = None) -> Vector:
    """For x, y and z 1 where they grow to the right of pictures, and -1 where they fall: of anatomy its `convention` says so.

    In planes with the patient's left and right the left is on the right in radiological pictures; in the others, which are seen
    from the patient's left, the back is. Neurological pictures are their mirror images.

    Raises:
        UsageError: if there is no such convention.

    >>> rightward("LPS"), rightward("RAS"), rightward("RAS", "neurological"), rightward(None)
    ((1.0, 1.0, 1.0), (-1.0, -1.0, 1.0), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
    """
    chosen = convention or CONVENTIONS[0]
    if chosen not in CONVENTIONS:
        raise UsageError(f"--convention: '{convention}' is none of {', '.join(CONVENTIONS)}")
    if anatomy is None:
        return 1.0, 1.0, 1.0
    x, y, z = (1.0 if letter in _TO_THE_RIGHT[chosen] else -1.0 for letter in anatomy)
    return x, y, z


def way(direction: Sequence[float], anatomy: str | None) -> str | None:
    """What a direction means in letters of anatomy, as `R to L`; None where it means none, or is tilted.

    >>> way((1.0, 0.0, 0.0), "LPS"), way((0.0, -1.0, 0.0), "LPS"), way((0.6, 0.8, 0.0), "LPS"), way((1.0, 0.0, 0.0), None)
    ('R to L', 'P to A', None, None)
    """
    if anatomy is None:
        return None
    at = max(range(3), key=lambda n: abs(direction[n]))
    if abs(direction[at]) < _STRAIGHT:
        return None
    to = anatomy[at] if direction[at] > 0 else OPPOSITE[anatomy[at]]
    return f"{OPPOSITE[to]} to {to}"


_STRAIGHT = 0.9
"""Part of a direction along an axis from which on it is said to point there: some 25 degrees."""
