"""Shards of stores and their names: files that changed places are noticed, and stores whose shards say no name are read."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import google_crc32c
import nibabel
import numpy as np
import pytest

import farfield
from plot3d_files import box, source_of, write
from running import Command, Json

CODECS = ("none", "zstd", "lz4")


def exchange(one: Path, other: Path) -> None:
    """Gives each of two files the other's name."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


@pytest.mark.parametrize("codec", CODECS)
def test_arrays_of_a_flow(codec: str, tmp_path: Path, ff: Command) -> None:
    store = tmp_path / "flow.zarr"
    ff("convert", source_of(*write(tmp_path, [box(9, 8, 7)], real=4)), store, "--codec", codec)
    ff("probe", store, 0.5, 0.5, 0.5)
    coordinates, momentum = (next(store.glob(f"*/{name}/c.*")) for name in ("xyz", "momentum"))
    exchange(coordinates, momentum)
    done = ff("probe", store, 0.5, 0.5, 0.5, ok=(1, 3))
    assert "xyz" in done.stderr and "changed places" in done.stderr, done.stderr
    assert "changed places" in ff("validate", store, ok=(1, 3)).stderr
    exchange(coordinates, momentum)
    ff("validate", store)


def test_steps_of_a_volume(tmp_path: Path, ff: Command) -> None:
    voxels = np.random.default_rng(1).integers(0, 255, (20, 20, 20, 2), np.uint8)
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), tmp_path / "v.nii")
    store = tmp_path / "v.zarr"
    ff("convert", tmp_path / "v.nii", store, "--codec", "none")
    first, second = sorted(store.glob("0/c.*"))
    exchange(first, second)
    assert "changed places" in ff("validate", store, ok=(1, 3)).stderr
    with farfield.open(store) as volume, pytest.raises(farfield.FarfieldError, match="changed places"):
        np.asarray(volume[0])
    exchange(first, second)
    with farfield.open(store) as volume:
        assert np.array_equal(np.asarray(volume[1]), voxels[..., 1].T)


def crc(*parts: bytes) -> bytes:
    return struct.pack("<I", int.from_bytes(google_crc32c.Checksum(b"".join(parts)).digest(), "big"))


def seal(shards: list[bytes]) -> list[object]:
    """What a root document says of the shards of an array: their bytes, and a checksum of those of all pages and indexes."""
    of_each = []
    for whole in shards:
        first = struct.unpack_from("<Q", whole)[0]
        entries = np.frombuffer(whole, "<u8", first // 16 * 2).reshape(-1, 2)
        there = entries[entries[:, 0] != 2**64 - 1].tolist()
        pages = [whole[offset + size - 4 : offset + size] for offset, size in there]
        of_each.append(crc(*pages, whole[entries.nbytes :][:4]))
    return [sum(map(len, shards)), crc(*of_each)[::-1].hex()]


def without_name(whole: bytes) -> bytes:
    """A shard as version 2 has it: its first page begins where the index ends."""
    first = struct.unpack_from("<Q", whole)[0]
    entries = np.frombuffer(whole, "<u8", first // 16 * 2).reshape(-1, 2).copy()
    entries[entries[:, 0] != 2**64 - 1, 0] -= 4
    return entries.tobytes() + crc(entries.tobytes()) + whole[first:]


def as_version_2(store: Path) -> None:
    """Turns a store into one of version 2, with all that its root document says of its shards."""
    root = json.loads((store / "zarr.json").read_text())
    about = root["attributes"]["farfield"]
    about["version"], about["crc32c"] = 2, "00000000"
    # Times have no shards.
    for folder in {path.parent for path in store.rglob("c.*") if path.parent.name != "time"}:
        paths = sorted(folder.glob("c.*"))
        before = [path.read_bytes() for path in paths]
        after = [without_name(whole) for whole in before]
        about["arrays"][about["arrays"].index(seal(before))] = seal(after)
        for path, whole in zip(paths, after, strict=True):
            path.write_bytes(whole)
    text = json.dumps(root, separators=(",", ":")).encode()
    digits = crc(text)[::-1].hex().encode()
    (store / "zarr.json").write_bytes(text.replace(b'"crc32c":"00000000"', b'"crc32c":"' + digits + b'"', 1))


@pytest.mark.parametrize("codec", CODECS)
def test_a_store_of_version_2(codec: str, tmp_path: Path, ff: Command, ff_json: Json) -> None:
    store = tmp_path / "flow.zarr"
    ff("convert", source_of(*write(tmp_path, [box(9, 8, 7)], real=4)), store, "--codec", codec)
    now = ff_json("probe", store, 0.5, 0.5, 0.5)["values"]
    as_version_2(store)
    assert ff_json("probe", store, 0.5, 0.5, 0.5)["values"] == now
    ff("validate", store)
    ff("convert", store, tmp_path / "again.zarr")
    assert ff_json("probe", tmp_path / "again.zarr", 0.5, 0.5, 0.5)["values"] == now
