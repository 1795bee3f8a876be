"""Files that are no volume that is read here, though their name or content says what they are: the error that says so.

Without it they would be taken for PLOT3D files, of which nothing adds up.
"""

from __future__ import annotations

import os

from farfield.errors import DataError

_OURS = {
    ".nii": "NIfTI", ".nii.gz": "NIfTI", ".nrrd": "NRRD", ".nhdr": "NRRD", ".mha": "MetaImage", ".mhd": "MetaImage", ".tif": "TIFF",
    ".tiff": "TIFF", ".h5": "HDF5", ".hdf5": "HDF5", ".nc": "NetCDF", ".nc4": "NetCDF", ".dcm": "DICOM", ".vti": "VTK XML",
    ".vtr": "VTK XML", ".vts": "VTK XML", ".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG",
}  # fmt: skip
_TOOLS = {
    ".mgz": ("a FreeSurfer volume", "convert it to NIfTI (mri_convert {0} out.nii)"),
    ".mgh": ("a FreeSurfer volume", "convert it to NIfTI (mri_convert {0} out.nii)"),
    ".mnc": ("a MINC volume", "convert it to NIfTI (mnc2nii {0} out.nii)"),
    ".gipl": ("a GIPL volume", "convert it to NRRD (SimpleITK, or ITK-SNAP)"),
    ".mrc": ("an MRC volume", "convert it to TIFF (mrc2tif -s {0} out.tif), or give --shape, --dtype and --header-bytes 1024"),
    ".am": ("an Amira mesh", "save it as NRRD from Amira"),
    ".vdb": ("an OpenVDB volume", "sample it to a regular grid and write that as Zarr or NRRD"),
}  # fmt: skip


def refuse(path: str, start: bytes) -> None:
    """Raises for a file that begins with `start` and that is no volume.

    Raises:
        DataError: naming what it seems to be, and what to do.
    """
    name = os.path.basename(path)
    if start.startswith(b"# vtk DataFile"):
        raise DataError(
            f"{path}: this is a legacy VTK file, and of VTK the XML formats are read; save it as .vti, .vtr or .vts "
            "(in ParaView: File, Save Data)"
        )
    suffix = os.path.splitext(path.lower())[1]
    if suffix in _TOOLS:
        what, tool = _TOOLS[suffix]
        raise DataError(f"{path}: this is {what} by its name, which is not read; {tool.format(name)}")
    ours = _OURS.get(".nii.gz" if path.lower().endswith(".nii.gz") else suffix)
    if ours is not None and start:
        hint = ", or write it with its preamble (dcmconv)" if ours == "DICOM" else ""
        raise DataError(
            f"{path}: this is named like a {ours} file, and does not begin like one ({_shown(start)}): it was cut off, or is "
            f"something else; copy it again{hint}"
        )


def refuse_folder(path: str) -> None:
    """Raises for a folder that is a store of N5.

    Raises:
        DataError: naming what to do.
    """
    document = os.path.join(path, "attributes.json")
    if os.path.isfile(document):
        raise DataError(
            f"{path}: this is N5 by its attributes.json, which is not read; copy it to Zarr (with tensorstore, or n5-copy)"
        )


def _shown(start: bytes) -> str:
    text = start[:12]
    if all(32 <= b < 127 for b in text):
        return f"its first bytes are '{text.decode()}'"
    return f"its first bytes are {text.hex(' ')}"
