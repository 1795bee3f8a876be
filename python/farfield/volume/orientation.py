"""Upward directions in pictures of planes: head or front of anatomy, the first row of images, north of maps.

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
"""Upward directions of anatomy, by preference; one must lie in the plane."""
OPPOSITE = {"R": "L", "L": "R", "A": "P", "P": "A", "S": "I", "I": "S"}
_IN_PLANE = 0.5
"""Sine of the smallest angle to the normal of a direction in the plane: 30 degrees. So the head is up in tilted scans,
too."""
_IMAGES = ("TIFF", "BigTIFF", "ImageJ", "OME", "DICOM", "PNG", "JPEG", "BMP", "GIF", "WebP")
"""First words of formats whose rows all programs show from the top down."""
_ARRAYS = ("Zarr", "NetCDF")
"""First words of formats whose y may be a coordinate."""


def upward(volume: VolumeDataset, normal: Sequence[float]) -> Vector | None:
    """The upward direction in a plane with this normal; None if the volume gives none. The default is then z, or y if
    the plane faces z.

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
        # A volume with rows that go up is a picture stored upside down, so -y is right for it, too.
        return _axis(1, -1.0)
    return None


def _axis(at: int, sign: float) -> Vector:
    x, y, z = (sign if n == at else 0.0 for n in range(3))
    return x, y, z


def made_as(volume: VolumeDataset) -> str:
    """The original format of a volume; for our own store, that of the converted source."""
    return volume._description.made_as or volume.format


def of_images(form: str) -> bool:
    """Whether all programs show a format's rows from the top down.

    >>> of_images("OME-TIFF"), of_images("PNG images"), of_images("VTK XML ImageData")
    (True, True, False)
    """
    return form.startswith(_IMAGES)


def is_map(volume: VolumeDataset) -> bool:
    """Whether y is a coordinate, not a row number, as in maps and in VTK."""
    by = made_as(volume)
    if by.startswith(("VTK", "GeoTIFF")) or "degree" in (volume.length_unit, *(volume.space.axis_units or ())):
        return True
    return by.startswith(_ARRAYS) and volume.length_unit != "voxel"


CONVENTIONS = ("radiological", "neurological")
"""Views of anatomy: from the feet, with the patient's left on the right of the picture, or from the head."""
_TO_THE_RIGHT = {"radiological": "LPS", "neurological": "RAS"}


def rightward(anatomy: str | None, convention: str | None = None) -> Vector:
    """The sign of x, y and z to the right of pictures: 1 if they grow, -1 if they fall. For anatomy `convention`
    decides.

    In radiological pictures the patient's left is on the right. Planes without left and right are seen from the
    patient's left, with the back on the right. Neurological pictures are mirror images.

    Raises:
        UsageError: if the convention does not exist.

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
    """A direction in letters of anatomy, as `R to L`; None without anatomy, or for a tilted direction.

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
"""Smallest component along an axis of a direction that is not tilted: about 25 degrees."""
