"""The files that the pages of docs/ name, small, and the blocks of code that stand on the pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plot3d_files import box, cut, write

CASES = Path(__file__).resolve().parent / "cases"


@dataclass(frozen=True)
class Block:
    """A fenced block of code with its language, and the comment of HTML on the line before it."""

    line: int
    language: str
    comment: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    fence = re.compile(r"(?:^<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    text = page.read_text(encoding="utf-8")
    all_of_them = list(fence.finditer(text))
    # A block that is written in another way would be passed over in silence.
    assert text.count("```") == 2 * len(all_of_them) and "\n    farfield " not in text, page
    for found in all_of_them:
        line = text.count("\n", 0, found.start(3)) + 1
        yield Block(line, found[2], (found[1] or "").strip(), found[3])


def commands(block: Block) -> Iterator[tuple[int, str]]:
    """The command lines of a shell block, each with the number of its first line; `\\` at an end joins lines."""
    begun, first = "", block.line
    for number, line in enumerate(block.text.splitlines(), block.line):
        first = first if begun else number
        begun += line
        if begun.endswith("\\"):
            begun = begun[:-1]
            continue
        if begun.strip() and not begun.lstrip().startswith("#"):
            yield first, begun
        begun = ""


def make(folder: Path) -> None:
    """All of them."""
    _flows(folder)
    _volumes(folder)
    _containers(folder)


def _flows(folder: Path) -> None:
    """wing.xyz and wing.q: two zones, the first with a wall; wing_1.q to wing_4.q are time steps. grid_*.xyz and sol_*.q
    are a grid that moves."""
    whole = box(41, 9, 7, size=(2, 1, 1))
    for q in whole.q[1:4]:
        q[:, 0] = 0.0
    parts = cut(whole, 2)
    for q in parts[1].q[1:4]:
        q[:, 0] = 0.3
    for n in range(5):
        write(folder, parts, stem="wing" if n == 0 else f"wing_{n}", time=0.5 * n)
        (folder / f"wing_{n}.xyz").unlink(missing_ok=True)
    for n in range(3):
        moved = box(15, 9, 7, origin=(0.05 * n, 0, 0))
        write(folder, [moved], stem=f"move_{n}", time=0.5 * n)
        (folder / f"move_{n}.xyz").rename(folder / f"grid_{n}.xyz")
        (folder / f"move_{n}.q").rename(folder / f"sol_{n}.q")
    write(folder, cut(box(15, 9, 7), 2), stem="model", order=">")
    (folder / "model.p3d.json").write_text(
        '{"reference": {"length": 0.1, "density": 1.225, "sound_speed": 340.3, "temperature": 288.15}}',
        encoding="utf-8",
    )
    for name, file in {
        "flow.vti": "vti-vectors/v.vti",
        "ocean.nc": "netcdf-uneven-depth/ocean.nc",
        "case.vtm": "vtm-multiblock/m.vtm",
        "b0.vts": "vtm-multiblock/b0.vts",
        "b1.vts": "vtm-multiblock/b1.vts",
        "run.pvd": "pvd-parts-and-times/parts.pvd",
        **{f"t{t}p{p}.vts": f"pvd-parts-and-times/t{t}p{p}.vts" for t in range(3) for p in range(2)},
    }.items():
        shutil.copy(CASES / "flows" / file, folder / name)


def _body(shape: tuple[int, int, int]) -> np.ndarray:
    """Something like computed tomography, [z, y, x]: air around tissue around bone."""
    z, y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    r = np.sqrt(x * x + y * y + 0.7 * z * z)
    return np.where(r < 0.35, 700, np.where(r < 0.8, 40 + 30 * x, -1000)).astype("<i2")


def _volumes(folder: Path) -> None:
    """scan.nii.gz and others of one body, 48 x 40 x 36 voxels."""
    import nibabel
    import tifffile
    from PIL import Image

    body = _body((36, 40, 48))
    place = np.diag([0.8, 0.8, 1.2, 1.0])
    image = nibabel.Nifti1Image(body.transpose(2, 1, 0), place)
    image.header.set_xyzt_units("mm")
    nibabel.save(image, folder / "scan.nii.gz")
    body.tofile(folder / "scan.raw")
    labels = np.digitize(body, [-500, 300]).astype("u1")
    head = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 48 40 36\nspacings: 0.8 0.8 1.2\nencoding: raw\n\n"
    (folder / "tissues.nrrd").write_bytes(head.encode() + labels.tobytes())
    grey = ((body[:8] + 1000) // 8).clip(0, 255).astype("u1")
    tifffile.imwrite(folder / "scan.tif", grey, photometric="minisblack")
    (folder / "slices").mkdir()
    for n, plane in enumerate(grey):
        Image.fromarray(plane).save(folder / "slices" / f"s{n:03}.png")
    two = np.stack([grey, 255 - grey], axis=1)
    tifffile.imwrite(
        folder / "cells.ome.tif",
        two,
        photometric="minisblack",
        metadata={
            "axes": "ZCYX",
            "Channel": {"Name": ["DAPI", "GFP"]},
            "PhysicalSizeX": 0.5,
            "PhysicalSizeXUnit": "µm",
        },
    )
    shutil.copytree(CASES / "volumes" / "dicom_two_series", folder / "series")
    shutil.copytree(CASES / "volumes" / "ome04_omero" / "i.zarr", folder / "image.zarr")


def _containers(folder: Path) -> None:
    """field.h5 and wind.nc (HDF5), the latter with winds on an even grid in metres, at three times."""
    import h5py

    with h5py.File(folder / "field.h5", "w") as file:
        file["group/temperature"] = np.linspace(0, 1, 6 * 7 * 8, dtype="f4").reshape(6, 7, 8)
        file["group/salinity"] = np.linspace(30, 36, 6 * 7 * 8, dtype="f4").reshape(6, 7, 8)
    with h5py.File(folder / "wind.nc", "w") as file:
        sizes = {"time": 3, "z": 6, "y": 7, "x": 8}
        for name, size in sizes.items():
            file[name] = np.arange(size, dtype="f8") * (1.0 if name == "time" else 10.0)
            file[name].make_scale(name)
            file[name].attrs["units"] = "s" if name == "time" else "m"
        for name, speed in (("u", 2.0), ("v", 1.0), ("w", 0.0)):
            wind = np.full(tuple(sizes.values()), speed, dtype="f4")
            file[name] = wind + 0.1 * np.arange(3, dtype="f4")[:, None, None, None]
            file[name].attrs["units"] = "m/s"
            for n, axis in enumerate(sizes):
                file[name].dims[n].attach_scale(file[axis])
