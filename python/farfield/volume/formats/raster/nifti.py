"""NIfTI-1 and NIfTI-2: `.nii`, `.nii.gz`, and pairs of `.hdr` and `.img`; also pairs of Analyze 7.5.

The header is that of nifti1.h (https://nifti.nimh.nih.gov). It is short, so each field is read here and checked
against the file.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats import number_parts
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.compression import beginning, codec_of, plain_name, unpacked
from farfield.volume.formats.decimals import decimals, tidied
from farfield.volume.formats.description import (
    Array,
    Channel,
    Geometry,
    Level,
    Volume,
    check_size,
    colour_channels,
    contiguous,
    from_affine,
    text_of,
)
from farfield.volume.formats.files import head, stem
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.signatures import nifti_version
from farfield.volume.space import Space

_TYPES = {
    2: "uint8", 4: "int16", 8: "int32", 16: "float32", 64: "float64", 256: "int8", 512: "uint16", 768: "uint32",
    1024: "int64", 1280: "uint64",
}  # fmt: skip
_COLOURS = {128: 3, 2304: 4}
_COMPLEX = {32: "complex64", 1792: "complex128"}
_OTHERS = {0: "unknown", 1: "binary", 1536: "float128", 2048: "complex256"}
_LENGTHS = {1: "m", 2: "mm", 3: "um"}
_TIMES = {8: "s", 16: "ms", 24: "us", 32: "Hz", 40: "ppm", 48: "rad/s"}
_LABELS = 1002
_NIFTI1 = {
    "dim": (40, "i2", 8), "intent": (68, "i2", 1), "datatype": (70, "i2", 1), "pixdim": (76, "f4", 8),
    "vox_offset": (108, "f4", 1), "slope": (112, "f4", 1), "inter": (116, "f4", 1), "units": (123, "u1", 1),
    "cal_max": (124, "f4", 1), "cal_min": (128, "f4", 1), "toffset": (136, "f4", 1),
    "qform": (252, "i2", 1), "sform": (254, "i2", 1), "quatern": (256, "f4", 6), "srow": (280, "f4", 12),
}  # fmt: skip
_NIFTI2 = {
    "datatype": (12, "i2", 1), "dim": (16, "i8", 8), "pixdim": (104, "f8", 8), "vox_offset": (168, "i8", 1),
    "slope": (176, "f8", 1), "inter": (184, "f8", 1), "cal_max": (192, "f8", 1), "cal_min": (200, "f8", 1),
    "toffset": (216, "f8", 1), "qform": (344, "i4", 1), "sform": (348, "i4", 1), "quatern": (352, "f8", 6),
    "srow": (400, "f8", 12), "units": (500, "i4", 1), "intent": (504, "i4", 1),
}  # fmt: skip


@dataclass
class _Header:
    version: int
    """Version of NIfTI; 0 for Analyze."""
    big_endian: bool
    pair: bool
    fields: dict[str, list[Any]]

    def one(self, key: str) -> Any:
        return self.fields[key][0]


def read(path: str, options: Options, resources: ReaderResources) -> Volume:
    """The volume in a NIfTI file or a pair; either file of a pair is a valid name.

    Raises:
        DataError: naming the invalid field.
    """
    header_file, data_file = _files(path)
    raw = beginning(header_file, 540)
    known = nifti_version(raw)
    if known is None:
        if not raw and (codec := codec_of(head(header_file, 16))) is not None:
            next(unpacked(header_file, codec), None)  # raises for a damaged stream
        raise DataError(
            f"{header_file}: this is no NIfTI header (its first number is neither 348 nor 540); the file was cut off "
            "or changed: copy it again"
        )
    header = _parse(header_file, raw, known)
    if data_file is None:
        data_file = _partner(header_file) if header.pair else header_file
    guessed: list[str] = []
    if header.version == 0:
        guessed.append(
            "an Analyze header does not say where it lies in space: voxels are along x, y and z from (0, 0, 0)"
        )
    array = _array(path, header, guessed)
    scale = _scale(header, guessed)
    reads = [path, header_file, data_file]
    _place(path, array, header, data_file, resources)
    codec = codec_of(head(data_file, 16))
    stored = _COMPLEX.get(int(header.one("datatype")))
    if stored is not None:
        # A slope scales complex numbers, so parts are taken after scaling.
        number_parts.take(data_file, array, stored, scale or (1.0, 0.0), resources, guessed)
        scale = None
    is_labels = int(header.one("intent")) == _LABELS and array.axes.strip("t") == "zyx" and options.kind != "scalar"
    if is_labels and array.dtype.startswith("float"):
        is_labels = scale in (None, (1.0, 0.0)) and number_parts.whole(data_file, array, resources, guessed)
    geometry, anatomy = _geometry(header_file, header, options, guessed)
    code = int(header.one("units"))
    length_unit = _LENGTHS.get(code & 7)
    if length_unit is None:
        length_unit = "mm"
        guessed.append("it does not say in which unit it lies: mm, as is usual for NIfTI")
    kind, channels = _channels(path, header, array, scale, is_labels=is_labels)
    steps = array.length("t")
    times: list[float] = []
    counted = False
    if steps > 1:
        kind_of = "float64" if header.version == 2 else "float32"
        apart, first = decimals(np.array([header.fields["pixdim"][4], header.one("toffset")], kind_of))
        counted = not math.isfinite(apart) or apart <= 0
        if counted:
            apart = 1.0
            guessed.append("it does not say how far its time steps are apart: steps are counted")
        first = first if math.isfinite(first) else 0.0
        times = [float(n) if counted else tidied(first + apart * n) for n in range(steps)]
    name = {0: "Analyze 7.5", 1: "NIfTI-1", 2: "NIfTI-2"}[header.version]
    return Volume(
        path=path,
        format=name + (f", {codec}" if codec is not None else ""),
        levels=[Level([array], geometry.origin, geometry.spacing)],
        channels=channels,
        kind=kind,
        guessed=guessed,
        length_unit=length_unit,
        anatomy=anatomy,
        direction=geometry.direction,
        times=times,
        time_units=_TIMES.get(code & 56, "1") if times and not counted else "1",
        reads=[*reads, array.place["contiguous"]["file"]],
    )


def _files(path: str) -> tuple[str, str | None]:
    """The file with the header, and the file with the numbers if it is another one."""
    root, suffix = os.path.splitext(plain_name(path))
    if suffix.lower() == ".img":
        tried = [root + ".hdr", root + ".HDR", root + ".hdr.gz", root + ".hdr.bz2"]
        places.prefetch_stats(tried)
        for other in tried:
            if places.isfile(other):
                return other, path
        raise DataError(f"{path}: its header {root}.hdr is not there; copy it here too")
    return path, None


def _partner(header_file: str) -> str:
    root = os.path.splitext(plain_name(header_file))[0]
    tried = [root + ".img", root + ".IMG", root + ".img.gz", root + ".img.bz2"]
    places.prefetch_stats(tried)
    for other in tried:
        if places.isfile(other):
            return other
    raise DataError(f"{header_file}: the numbers of this header, {root}.img, are not there; copy them here too")


def _parse(path: str, raw: bytes, known: tuple[int, bool]) -> _Header:
    version, big = known
    layout = _NIFTI2 if version == 2 else _NIFTI1
    needed = 540 if version == 2 else 348
    if len(raw) < needed:
        raise DataError(f"{path}: its header ends after {len(raw)} of {needed} bytes: it was cut off; copy it again")
    order = ">" if big else "<"
    fields = {
        key: np.frombuffer(raw, order + kind, count, offset).tolist() for key, (offset, kind, count) in layout.items()
    }
    if version == 0:
        # In Analyze, these bytes have another meaning or none.
        fields |= {"qform": [0], "sform": [0], "slope": [0.0], "units": [0], "intent": [0], "toffset": [0.0]}
        fields |= {"vox_offset": [0.0]} if not math.isfinite(fields["vox_offset"][0]) else {}
    pair = version == 0 or raw[344:348] == b"ni1\0" or (version == 2 and raw[4:8] == b"ni2\0")
    return _Header(version, big, pair, fields)


def _array(path: str, header: _Header, guessed: list[str]) -> Array:
    dim = header.fields["dim"]
    rank = int(dim[0])
    if not 1 <= rank <= 7:
        raise DataError(
            f"{path}: its dim[0] says {rank} dimensions, and should say 1 to 7; the header is damaged: copy it again"
        )
    sizes = [int(n) for n in dim[1 : rank + 1]] + [1] * (7 - rank)
    for n, size in enumerate(sizes, 1):
        if size < 1 and n > 3:
            guessed.append(f"its dim[{n}] is {size}, and should be at least 1: it is taken as 1")
            sizes[n - 1] = 1
        elif size < 1:
            raise DataError(
                f"{path}: its dim[{n}] is {size}, and should be at least 1; the header is damaged: copy it again"
            )
    x, y, z, t, *more = sizes
    several = [n for n in more if n > 1]
    if len(several) > 1:
        raise DataError(
            f"{path}: it has {rank} dimensions ({text_of(sizes[:rank])}); one behind the fourth may be more than 1: split it first"
        )
    c = several[0] if several else 1
    code = int(header.one("datatype"))
    colours = _COLOURS.get(code)
    if colours is None and code not in _TYPES and code not in _COMPLEX:
        name = _OTHERS.get(code, "not known")
        raise DataError(
            f"{path}: its datatype {code} ({name}) is none that a volume can have; convert it to float32 first"
        )
    shape: tuple[int, ...] = (z, y, x)
    axes = "zyx"
    if t > 1:
        shape, axes = (t, *shape), "t" + axes
    if c > 1:
        shape, axes = (c, *shape), "c" + axes
    if colours is not None:
        if c > 1:
            raise DataError(f"{path}: it has {c} colours a voxel; split it first")
        shape, axes = (*shape, colours), axes + "c"
    # Complex numbers start as two numbers each.
    dtype = "uint8" if colours is not None else _TYPES.get(code) or ("float64" if code == 32 else "complex128")
    return Array(stem(path), dtype, shape, axes, {}, list(range(colours or c)), big_endian=header.big_endian)


def _place(path: str, array: Array, header: _Header, data_file: str, resources: ReaderResources) -> None:
    offset = float(header.one("vox_offset"))
    least = 0 if header.pair else (544 if header.version == 2 else 352)
    if not math.isfinite(offset) or offset < 0 or offset != int(offset):
        raise DataError(
            f"{path}: its vox_offset is {offset:g}, which is no place in a file; the header is damaged: copy it again"
        )
    start = int(offset) if header.pair else max(int(offset), least)
    if array.item == 1:
        array.big_endian = False
    codec = codec_of(head(data_file, 16))
    if codec is not None:
        made = converted(
            data_file,
            resources,
            count=array.bytes,
            why=f"is compressed with {codec}, which cannot be read in part",
            how=f"{codec} from {start}",
            pieces=lambda: unpacked(data_file, codec, skip=start, count=array.bytes, ended=True),
        )
        array.place = contiguous(made.path, 0)
        return
    check_size(data_file, array.bytes, start, f"{text_of(array.shape)} numbers of {array.dtype}")
    array.place = contiguous(data_file, start)


def _geometry(path: str, header: _Header, options: Options, guessed: list[str]) -> tuple[Geometry, str | None]:
    steps = list(options.spacing or (abs(float(v)) for v in header.fields["pixdim"][1:4]))
    rank = int(header.fields["dim"][0])
    for n, value in enumerate(steps):
        if n >= rank and not (math.isfinite(value) and value > 0):
            steps[n] = 1.0
    if int(header.one("sform")) > 0:
        rows = [[float(v) for v in header.fields["srow"][n : n + 4]] for n in (0, 4, 8)]
        columns = [[row[n] for row in rows] for n in range(3)]
        has_qform = int(header.one("qform")) > 0
        if has_qform and _is_singular(columns):
            guessed.append("its sform is no matrix that places voxels (srow_x, srow_y and srow_z): its qform is taken")
        else:
            found = from_affine(path, columns, [row[3] for row in rows], "srow_x, srow_y and srow_z")
            if has_qform:
                _compare(header, found, steps, guessed)
            return found, "RAS"
    for n, value in enumerate(steps):
        if not math.isfinite(value) or value <= 0:
            raise DataError(
                f"{path}: its pixdim[{n + 1}] is {value:g}, and should be the positive distance between voxels; "
                "correct the header, or give --spacing X,Y,Z"
            )
    if int(header.one("qform")) > 0:
        return _by_qform(path, header, steps), "RAS"
    if header.version:
        guessed.append("neither its sform nor its qform says where it lies: voxels are along x, y and z from (0, 0, 0)")
    return from_affine(path, np.diag(steps).tolist(), (0.0, 0.0, 0.0), "pixdim"), None


def _by_qform(path: str, header: _Header, steps: list[float]) -> Geometry:
    rotation = _rotation(path, header.fields["quatern"][:3])
    if float(header.fields["pixdim"][0]) < 0:
        rotation[:, 2] *= -1
    columns = [[float(v) * steps[n] for v in rotation[:, n]] for n in range(3)]
    found = from_affine(path, columns, header.fields["quatern"][3:6], "quatern and pixdim")
    return Geometry(found.origin, (steps[0], steps[1], steps[2]), found.direction)


def _is_singular(columns: list[list[float]]) -> bool:
    matrix = np.array(columns)
    lengths = np.linalg.norm(matrix, axis=1)
    if not np.isfinite(matrix).all() or not lengths.all():
        return True
    return bool(abs(np.linalg.det(matrix / lengths[:, None])) < 1e-6)


_APART = 0.1
"""Largest difference of corners between sform and qform, in voxels, for rounded headers."""


def _compare(header: _Header, sform: Geometry, steps: list[float], guessed: list[str]) -> None:
    """Notes differences of the qform from the sform, which is used."""
    try:
        qform = _by_qform("", header, steps)
    except DataError:  # the unused qform may be damaged
        return
    last = [max(0, int(n) - 1) for n in header.fields["dim"][1:4]]

    def corners(at: Geometry) -> np.ndarray[Any, np.dtype[np.float64]]:
        space = Space((1, 1, 1), at.origin, at.spacing, at.direction)
        return np.array([space.position_of(np.array(c) * np.array(last)) for c in np.ndindex(2, 2, 2)])

    away = float(np.linalg.norm(corners(sform) - corners(qform), axis=1).max())
    if away > _APART * min(sform.spacing):
        names = [
            Space((1, 1, 1), at.origin, at.spacing, at.direction, "mm", "RAS").orientation() for at in (sform, qform)
        ]
        turned = f" (its axes go to {names[0]} and to {names[1]})" if names[0] != names[1] else ""
        guessed.append(f"its sform and its qform differ by up to {away:.4g} mm{turned}: the sform is taken")


def _rotation(path: str, quaternion: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rotation of a unit quaternion from b, c and d (nifti1_io.c, nifti_quatern_to_mat44)."""
    b, c, d = (float(v) for v in quaternion)
    rest = 1.0 - (b * b + c * c + d * d)
    if not math.isfinite(rest) or rest < -1e-3:
        raise DataError(
            f"{path}: its quaternion ({b:g}, {c:g}, {d:g}) is longer than 1; the header is damaged: copy it again"
        )
    if rest < 1e-7:
        length = math.sqrt(b * b + c * c + d * d)
        a, b, c, d = 0.0, b / length, c / length, d / length
    else:
        a = math.sqrt(rest)
    return np.array(
        [
            [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c],
        ]
    )


def _scale(header: _Header, guessed: list[str]) -> tuple[float, float] | None:
    """Factor and offset for stored numbers; None if the slope is absent or 0, which means no scaling."""
    slope, inter = float(header.one("slope")), float(header.one("inter"))
    if slope == 0 or not math.isfinite(slope):
        if header.version and (math.isinf(slope) or (math.isfinite(inter) and inter != 0)):
            guessed.append(
                f"its scl_slope is {slope:g}: its scl_inter, {inter:g}, is left out, and values are the stored numbers"
            )
        return None
    if not math.isfinite(inter):
        guessed.append(f"its scl_inter is {inter:g}, no number: values are {slope:g} times the stored numbers")
        return slope, 0.0
    return slope, inter


def _channels(
    path: str, header: _Header, array: Array, scale: tuple[float, float] | None, *, is_labels: bool
) -> tuple[str, list[Channel]]:
    components = array.length("c")
    if array.axes.endswith("c"):
        return colour_channels(components)
    low, high = float(header.one("cal_min")), float(header.one("cal_max"))
    limits = (low, high) if low < high else None
    name = stem(path)
    if components > 1:
        return "channels", [Channel(f"{name} {n}", scale=scale, limits=limits) for n in range(components)]
    return "labels" if is_labels else "scalar", [Channel(name, scale=scale, limits=limits)]
