"""DICOM and NIfTI as people have them: right answers by pydicom, nibabel and SimpleITK, or by how the files were made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from case_table import Cases, Try


def _grey(name: str) -> np.ndarray:
    """A picture's first channel as shares of white, without what is clear."""
    with Image.open(name) as found:
        rgba = np.asarray(found.convert("RGBA"), dtype=float)
    return np.where(rgba[..., 3] > 0, rgba[..., 0], np.nan) / 255


def _block_on_the_right(name: str) -> None:
    values = np.load(name) if name.endswith(".npy") else _grey(name)
    bright = values > np.nanmin(values) + 0.9 * (np.nanmax(values) - np.nanmin(values))
    assert 0.6 < np.nonzero(bright)[1].mean() / values.shape[1] < 0.85, name


def _sides(folder: Path) -> None:
    for name in ("a.png", "b.png", "a.npy", "b.npy"):
        _block_on_the_right(str(folder / name))
    assert np.array_equal(np.load(folder / "a.npy"), np.load(folder / "b.npy"))
    mirrored = np.load(folder / "n.npy")
    assert np.array_equal(mirrored, np.load(folder / "b.npy")[:, ::-1])


def _ramp(folder: Path) -> None:
    shown, turned = _grey(str(folder / "a.png")), _grey(str(folder / "b.png"))
    row = shown.shape[0] // 8
    assert shown[row, 5] > 0.99 and shown[row, -5] < 0.01, "left white, right black"
    assert np.allclose(shown + turned, 1.0, atol=2 / 255)
    deep = np.asarray(Image.open(folder / "g.png").convert("LA"))[..., 0]
    assert deep[row, 5] > 250 and deep[row, -5] < 5


def _palette(folder: Path) -> None:
    """Every voxel has its colour of the table, of which the higher bytes are the colour."""
    import pydicom
    from pydicom.pixels import apply_color_lut

    header = pydicom.dcmread(folder / "p.dcm")
    truth = np.asarray(apply_color_lut(header.pixel_array, header)) >> 8
    drawn = np.asarray(Image.open(folder / "a.png").convert("RGB"))
    rows, columns = truth.shape[:2]
    at = np.ix_(
        ((np.arange(rows) + 0.5) * drawn.shape[0] / rows).astype(int),
        ((np.arange(columns) + 0.5) * drawn.shape[1] / columns).astype(int),
    )
    # The rule stands on some of the last row.
    assert np.array_equal(drawn[at][:-1], truth[:-1])


def _tiles(folder: Path) -> None:
    """The tiles stand where PS3.3 C.7.6.17.3 places them: row by row."""
    import pydicom

    frames = pydicom.dcmread(folder / "w.dcm").pixel_array
    truth = frames.reshape(2, 3, 8, 8, 3).transpose(0, 2, 1, 3, 4).reshape(16, 24, 3)
    assert np.array_equal(np.load(folder / "w.npy"), truth)


def _levels(folder: Path) -> None:
    import pydicom

    frames = pydicom.dcmread(folder / "small.dcm").pixel_array
    truth = frames.reshape(1, 2, 8, 8, 3).transpose(0, 2, 1, 3, 4).reshape(8, 16, 3)[:, :12]
    assert np.array_equal(np.load(folder.parent / "p.npy"), truth)


def _mosaic(folder: Path) -> None:
    import pydicom

    picture = pydicom.dcmread(folder / "m.dcm").pixel_array
    for tile in range(4):
        down, across = divmod(tile, 2)
        found = np.load(folder / f"{tile}.npy")
        assert np.array_equal(found, picture[12 * down :, 10 * across :][:12, :10]), tile


_FIRST = "extract slice {0} --normal z --origin 0,0,{1} --nearest --resolution {2} -o {3}"
_TILE = (
    "extract slice m.dcm --normal z --origin 0,0,{} --size 10x12 --extent 3.15,10.15,-8.75,-2.75 --nearest -o {}.npy"
)
"""The voxels of a slice of the mosaic."""
CASES: Cases = {
    "volumes/laterality_dicom_vs_nifti": [
        Try("extract slice dcm --normal z -o a.png", json={"edges.left": "R", "edges.right": "L", "edges.top": "A"}),
        Try(
            "extract slice same.nii --normal z -o b.png", json={"edges.left": "R", "edges.right": "L", "edges.top": "A"}
        ),
        Try("extract slice dcm --normal z -o a.npy"),
        Try("extract slice same.nii --normal z -o b.npy", says=("R left, L right, A top, P bottom",)),
        Try(
            "extract slice same.nii --normal z --convention neurological -o n.npy",
            json={"edges.left": "L"},
            check=_sides,
        ),
        Try("extract slice same.nii --normal 1,1,0 -o c.png", json={"edges.top": "S", "edges.bottom": "I"}),
        Try(
            "extract slice same.nii --normal z --convention left -o d.png", exit=2, says=("radiological, neurological",)
        ),
    ],
    "volumes/dicom_two_series": [
        Try("info .", json={"dims": [10, 12, 8]}, says=("1a .*8 files.* 1b .*3 files",)),
        Try("info .::1b", json={"dims": [6, 6, 3]}),
        Try("info .::1.2.3.4.5.2", json={"dims": [6, 6, 3]}),
        Try("info .::2", exit=2, says=("no series '2'; there are: 1a .*, 1b",)),
        Try("info .::1", exit=2, says=("2 series are '1': name one of 1a .*, 1b",)),
    ],
    "volumes/dicom_padding": [
        Try("probe . --ijk 1 1 1", json={"values.ser": float("nan")}),
        Try("probe . --ijk 1 1 1", says=("no value", "-2000 only fills it up"), never=("-3024",)),
        Try("info .", json={"channels.0.missing": -2000}),
    ],
    "volumes/dicom_window_per_slice": [
        Try("info .", json={"channels.0.limits": [22.0, 1189.0]}, says=("2 different windows",)),
        Try("extract slice . --normal z -o ../a.png", says=("from 22 to 1189", "note: .*different windows")),
    ],
    "volumes/dicom_mono1": [
        Try(
            "extract slice cr.dcm --normal z --no-bar --no-letters -o a.png",
            says=("MONOCHROME1", "inverted: the lowest"),
        ),
        Try("extract slice cr.dcm --normal z --grey16 -o g.png"),
        Try(
            "extract slice cr.dcm --normal z --no-invert --no-bar --no-letters -o b.png",
            check=_ramp,
            never=("inverted:",),
        ),
        Try("render cr.dcm -o r.png", says=("inverted: the lowest is white",)),
        Try("info cr.dcm", json={"channels.0.inverted": True}),
    ],
    "volumes/dicom_palette": [
        Try("info p.dcm", json={"kind": "rgb"}),
        Try("info p.dcm --kind scalar", json={"kind": "scalar", "dims": [10, 12, 1]}),
        Try("extract slice p.dcm --normal z --nearest -o a.png", check=_palette),
    ],
    "volumes/dicom_modality_lut": [
        # The first voxel is 10: 10 n^2.
        Try("probe l.dcm --ijk 1 1 1", json={"values.ser": 1000.0}),
        Try("probe l.dcm --ijk 6 1 1", json={"values.ser": 40.0}, says=("ModalityLUTSequence",)),
    ],
    "volumes/nii_slope_slope_nan_inter": [
        Try("probe a.nii --ijk 1 1 1", says=("scl_inter is nan, no number: values are 2 times",)),
        Try("info a.nii", json={"channels.0.scale": [2.0, 0.0]}),
    ],
    "volumes/dicom_wsi_tiled": [
        Try("info w.dcm", json={"dims": [24, 16, 1], "kind": "rgb", "spacing": [0.001, 0.001, 0.001]}),
        Try(_FIRST.format("w.dcm", 0, 0.001, "w.npy"), check=_tiles),
    ],
    "volumes/dicom_wsi_pyramid": [
        Try(
            "info .",
            json={"levels.0.dims": [24, 16, 1], "levels.1.dims": [12, 8, 1], "levels.1.origin": [0.0005, 0.0005, 0.0]},
        ),
        Try("info .", says=("4b .*label, 1 file of 8 x 8",), json={"contents.0.name": "4a", "contents.0.shown": True}),
        Try("info .::4b", json={"dims": [8, 8, 1]}),
        Try("extract slice . --normal z --level 1 --nearest --resolution 0.002 -o ../p.npy", check=_levels),
    ],
    "volumes/dicom_dated": [
        Try(
            "info .",
            json={"times": [0, 5, 11], "dates.2": "2020-01-02T00:00:01"},
            says=("order of their AcquisitionTime",),
        ),
        Try("probe . --ijk 1 1 2 --step 2", json={"values.ser": 220.0, "time": 11.0, "date": "2020-01-02T00:00:01"}),
        Try("probe . --ijk 1 1 2 --step 1", says=("step 1, at 2020-01-01T23:59:55",)),
        Try("extract slice . --normal z --step 1 -o ../a.png", json={"step": 1, "date": "2020-01-01T23:59:55"}),
        Try("render . --step 1 -o ../b.png --size 64x48", json={"step": 1, "date": "2020-01-01T23:59:55"}),
    ],
    "volumes/dicom_localizer": [
        Try(
            "info .",
            json={"dims": [5, 4, 3]},
            says=(r"4a \(ser, axial, 3 files", "4b .*coronal localizer, 1 file of 7 x 6"),
        ),
        Try("info .::4b", json={"dims": [7, 6, 1]}),
        Try("info .::4", exit=2, says=("2 series are '4': name one of 4a",)),
    ],
    "volumes/dicom_voi_lut": [
        # The table falls over its 16 values, of which the first is that of -8.
        Try("info v.dcm", json={"channels.0.limits": [-8.0, 7.0], "channels.0.inverted": True}),
        Try(
            "extract slice v.dcm --normal z -o a.png",
            says=("VOILUTSequence. is not followed", "from -8 to 7.*inverted"),
        ),
    ],
    "volumes/dicom_segments": [
        Try(
            "info s.dcm",
            json={"dims": [7, 5, 2], "kind": "labels", "spacing": [0.7, 0.5, 3.0]},
            says=("1 liver, 2 spleen",),
        ),
        # Both segments are there: the second one is kept.
        Try("probe s.dcm --ijk 1 2 1", json={"values.ser": 2}),
        Try("probe s.dcm --ijk 1 1 1", json={"values.ser": 1}),
        Try("probe s.dcm --ijk 7 5 2", json={"values.ser": 2}),
    ],
    "volumes/dicom_film": [
        Try(
            "info f.dcm",
            json={"dims": [5, 4, 1], "times": [0, 0.04, 0.08], "spacing.0": 0.3},
            says=("at the detector",),
        ),
        Try("probe f.dcm --ijk 1 1 1 --step 2", json={"values.ser": 40.0}),
    ],
    "volumes/dicom_mosaic": [
        # The picture's corner is at 0, 0: a tile's is half of what is around it further.
        Try("info m.dcm", json={"dims": [10, 12, 4], "origin": [3.5, 3.0, 0.0], "spacing": [0.7, 0.5, 2.0]}),
        *(Try(_TILE.format(2 * n, n)) for n in range(3)),
        Try(_TILE.format(6, 3), check=_mosaic),
    ],
    "volumes/dicom_slicelocation": [
        # The file of the least SliceLocation, 10.0, is 0.dcm, whose InstanceNumber is the last.
        Try("probe . --ijk 1 1 1", json={"values.ser": 1834.0}, says=("in the order of SliceLocation",)),
        Try("info .", json={"spacing": [0.7, 0.5, 2.0], "dims": [10, 12, 8]}),
    ],
    "volumes/nii_sform_ne_qform": [
        Try("info a.nii", json={"orientation": "LAS"}, says=("sform and its qform differ by up to 27 mm",)),
    ],
    "volumes/dicom_no_preamble": [
        Try("info .", json={"format": "DICOM", "dims": [10, 12, 8]}, says=("Implicit VR Little Endian",)),
    ],
    "volumes/dicom_no_group2": [Try("info .", json={"format": "DICOM", "dims": [10, 12, 8]})],
    "volumes/dicom_duplicates": [
        Try("info .", json={"dims": [10, 12, 4]}, says=("the same SOPInstanceUID.*once",)),
    ],
    "volumes/nii_bz2": [
        Try("info a.nii.bz2", json={"format": "NIfTI-1, bz2", "dims": [6, 7, 8]}),
    ],
    "volumes/nii_wrong_name": [
        Try("info gz.nii", json={"format": "NIfTI-1, gzip", "dims": [6, 7, 8]}),
        Try("info plain.nii.gz", json={"format": "NIfTI-1", "dims": [6, 7, 8]}),
    ],
    "volumes/nii_complex64": [
        # 38 + 32j, by nibabel.
        Try("probe a.nii --ijk 2 3 4", json={"values.a": 49.6789693}, says=("complex: magnitudes are shown",)),
        Try("probe a.nii --ijk 2 3 4 --component real", json={"values.a": 38.0}),
        Try("probe a.nii --ijk 2 3 4 --component imag", json={"values.a": 32.0}),
        Try("probe a.nii --ijk 2 3 4 --component phase", json={"values.a": 0.69989288}),
        Try("probe a.nii --ijk 2 3 4 --component angle", exit=2, says=("magnitude, real, imag, phase",)),
    ],
    "volumes/nii_label_float": [
        Try("info a.nii", json={"kind": "labels", "channels.0.dtype": "int32"}),
        Try("convert a.nii a.zarr"),
        Try("info a.zarr", json={"kind": "labels"}),
    ],
}
