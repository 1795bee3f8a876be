"""Conversions into the cache: whole or not there, made once however many want them, bounded in memory."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import shutil
import signal
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.errors import DataError, Interrupted, MemoryLimitError
from farfield.volume.formats.cache_conversion import converted
from farfield.volume.formats.options import Options, ReaderResources
from farfield.volume.formats.reading import read
from volume_files import look

SIZE = 1 << 20


def pieces() -> Iterator[bytes]:
    for n in range(16):
        yield bytes([n]) * (SIZE // 16)


def slow() -> Iterator[bytes]:
    for piece in pieces():
        time.sleep(0.02)
        yield piece


def convert(folder: Path, how: Any = pieces, **more: Any) -> Any:
    source = folder / "a.bin"
    if not source.exists():
        source.touch()
    resources = ReaderResources(folder / "cache", more.pop("progress", None), more.pop("say", None))
    return converted(str(source), resources, count=SIZE, why="is of a test", how="test", pieces=how, **more)


def left(folder: Path) -> list[str]:
    """What was made, without what the cache notes of it."""
    made = (
        p for p in (folder / "cache").rglob("*") if p.is_file() and p.suffix != ".lock" and ".records" not in p.parts
    )
    return sorted(p.name for p in made)


def test_whole_or_not_there(tmp_path: Path) -> None:
    def ends() -> Iterator[bytes]:
        yield bytes(100)

    def too_much() -> Iterator[bytes]:
        yield bytes(SIZE + 1)

    def stops() -> Iterator[bytes]:
        yield bytes(100)
        raise KeyboardInterrupt

    for how, error, text in (
        (ends, DataError, "ends after 100 of"),
        (too_much, DataError, "holds more than"),
        (stops, KeyboardInterrupt, None),
    ):
        with pytest.raises(error, match=text):
            convert(tmp_path, how)
        assert left(tmp_path) == []
    with pytest.raises(Interrupted):
        convert(tmp_path, progress=lambda phase, done, total: done < total / 2)
    assert left(tmp_path) == []
    made = convert(tmp_path)
    assert Path(made.path).read_bytes() == b"".join(pieces()) and len(left(tmp_path)) == 1
    assert convert(tmp_path, ends).path == made.path


def test_what_a_kill_left_of_another_source_goes(tmp_path: Path) -> None:
    (tmp_path / "cache" / "data").mkdir(parents=True)
    (tmp_path / "cache" / "data" / ".b-0.raw.part").write_bytes(bytes(100))
    convert(tmp_path)
    assert len(left(tmp_path)) == 1


def test_full_disks_are_said_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 1000))
    with pytest.raises(
        DataError, match=r"a\.bin: it is of a test and takes 1\.0 MiB .* has 1000 bytes free; make room"
    ):
        convert(tmp_path)


def _worker(folder: Path, results: Any) -> None:
    said: list[str] = []
    made = convert(folder, slow, say=said.append)
    results.put((Path(made.path).read_bytes() == b"".join(pieces()), len(said)))


def test_made_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_worker, args=(tmp_path, results)) for _ in range(3)]
    for w in workers:
        w.start()
    found = [results.get(timeout=60) for _ in workers]
    for w in workers:
        w.join()
    assert all(whole for whole, _ in found) and sum(said for _, said in found) == 1 and len(left(tmp_path)) == 1


def _forever(folder: Path) -> None:
    def endless() -> Iterator[bytes]:
        yield bytes(1000)
        time.sleep(60)

    convert(folder, endless)


def test_after_a_kill(tmp_path: Path) -> None:
    worker = multiprocessing.get_context("spawn").Process(target=_forever, args=(tmp_path,))
    worker.start()
    until = time.monotonic() + 30
    while not left(tmp_path) and time.monotonic() < until:
        time.sleep(0.02)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert [n.startswith(".") for n in left(tmp_path)] == [True]
    made = convert(tmp_path)
    assert Path(made.path).read_bytes() == b"".join(pieces()) and len(left(tmp_path)) == 1


@pytest.mark.parametrize("kind", ["hdf5", "zarr", "tiff"])
def test_what_is_decoded_whole_has_to_fit(kind: str, tmp_path: Path) -> None:
    # Whatever the values are: compressing random ones took 20 seconds.
    data = np.resize(np.arange(9, dtype="u2"), (3, 2048, 2048))
    path = tmp_path / f"a.{kind}"
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("a", data=data, chunks=(1, 2048, 2048), scaleoffset=4)
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr")
        codecs = pytest.importorskip("numcodecs")
        made = zarr.create_array(
            path, shape=data.shape, chunks=(1, 2048, 2048), dtype="u2", zarr_format=2, compressors=codecs.LZMA()
        )
        made[...] = data
    else:
        tifffile = pytest.importorskip("tifffile")
        tifffile.imwrite(path, data, compression="lzma", photometric="minisblack", rowsperstrip=2048)
    with pytest.raises(
        MemoryLimitError, match=r"decoded whole, .* at a time, needs about .*; raise --memory-limit to that"
    ):
        read(str(path), Options(), ReaderResources(tmp_path / "cache", memory_limit=8 << 20))
    assert left(tmp_path) == []
    read(str(path), Options(), ReaderResources(tmp_path / "cache", memory_limit=64 << 20))
    assert len(left(tmp_path)) == 1


@pytest.mark.parametrize("kind", ["nii.gz", "hdf5", "tiff", "vti"])
def test_memory_is_bounded(kind: str, tmp_path: Path) -> None:
    """48 MiB of voxels are converted in much less."""
    data = np.random.default_rng(3).integers(0, 9, (48, 1024, 1024), dtype="u1")
    path = tmp_path / f"a.{kind}"
    if kind == "nii.gz":
        nibabel = pytest.importorskip("nibabel")
        path.write_bytes(gzip.compress(nibabel.Nifti1Image(data.T, np.eye(4)).to_bytes(), 1))
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("a", data=data, chunks=(16, 64, 64), compression="lzf")
    elif kind == "tiff":
        tifffile = pytest.importorskip("tifffile")
        data = data.reshape(1, 48 * 1024, 1024)
        tifffile.imwrite(
            path, data[0], compression="zlib", rowsperstrip=1 << 20, photometric="minisblack", metadata=None
        )
    else:
        vtk = pytest.importorskip("vtk")
        from vtk.util import numpy_support

        made = vtk.vtkImageData()
        made.SetDimensions(1024, 1024, 48)
        made.GetPointData().SetScalars(numpy_support.numpy_to_vtk(data.reshape(-1), deep=True))
        writer = vtk.vtkXMLImageDataWriter()
        writer.SetInputData(made)
        writer.SetFileName(str(path))
        writer.SetDataModeToBinary()
        writer.Write()
    if kind == "tiff":
        from farfield.volume.formats.tiff import reader as tiff

        tiff.LARGEST_CHUNK, before = 1 << 20, tiff.LARGEST_CHUNK
    tracemalloc.start()
    try:
        read(str(path), Options(), ReaderResources(tmp_path / "cache"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        if kind == "tiff":
            tiff.LARGEST_CHUNK = before
    assert peak < 24 << 20, f"{peak >> 20} MiB"
    assert np.array_equal(look(path, tmp_path / "cache").numbers() if kind != "tiff" else data, data)
