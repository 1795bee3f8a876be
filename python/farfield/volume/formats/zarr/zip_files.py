"""Zarr stores in a zip file: documents are copied into the cache, chunks are paged where they lie in the file.

An entry of a zip file is stored as it is, or deflated by itself: either can be read in part, given where it begins. What the
directory of the file does not say, how long the local header of an entry is, is looked at for each chunk once.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from farfield.errors import DataError
from farfield.sources import places
from farfield.volume.formats.cache_conversion import identity
from farfield.volume.formats.description import Array, in_table, table_of
from farfield.volume.formats.files import LONGEST_DOCUMENT, head, stem, unreadable
from farfield.volume.formats.zarr.codecs import UndecodedError

_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
_ROOTS = ("zarr.json", ".zgroup", ".zarray", ".zmetadata")
_SMALL = 1 << 20
"""Bytes of the chunks of an array that are copied, too: coordinates are read line by line."""
_MOST_CHUNKS = 1 << 24
"""Chunks that are listed: each takes 24 bytes."""
_LOCAL = struct.Struct("<4s5H3I2H")
_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
_ABSENT = (1 << 64) - 1


@dataclass
class Mount:
    """A store in a zip file, and the folder in the cache that has its documents."""

    path: str
    folder: str
    entries: dict[str, zipfile.ZipInfo] = field(repr=False)
    """By their names in the store."""
    root: str = ""
    """The folder in the file that is the store, with a slash at its end."""

    def place(self, node: str, array: Array) -> bytes | None:
        """Says where the chunks of an array of this store lie, in a table that is given back; None if its chunks were copied.

        Raises:
            DataError: if they are too many, or written in a way that is not read in part.
        """
        prefix = places.relpath(node, self.folder).replace(os.sep, "/")
        inside = "" if prefix == "." else prefix + "/"
        if self._bytes(inside) <= _SMALL:
            return None
        kind, about = next(iter(array.place.items()))
        begin = places.relpath(str(about["prefix"]) + "x", self.folder).replace(os.sep, "/")[:-1]
        chunk = array.chunk or array.shape
        grid = [-(-n // c) for n, c in zip(array.shape, chunk, strict=True)]
        if math.prod(grid) > _MOST_CHUNKS:
            raise DataError(
                f"{self.path}: '{array.name}' has {math.prod(grid):,} chunks, and in a zip file {_MOST_CHUNKS:,} are the most; "
                "unpack it (unzip)"
            )
        rows = np.zeros((math.prod(grid), 3), dtype=np.uint64)
        files = {
            at: info
            for name, info in self.entries.items()
            if name.startswith(begin)
            and (at := _indices(name[len(begin) :], about["separator"], len(grid))) is not None
        }
        methods = {info.compress_type for info in files.values()}
        if any(i.flag_bits & 1 for i in files.values()):
            raise DataError(
                f"{self.path}: chunks of '{array.name}' are packed with a password; pack them again without (zip -0 -r)"
            )
        deflated = methods == {_DEFLATED}
        if not methods <= {_STORED, _DEFLATED} or len(methods) > 1 or (kind == "shards" and deflated):
            what = "shards" if kind == "shards" else "chunks in several ways, or by another one than deflate"
            error = UndecodedError(
                f"{self.path}: chunks of '{array.name}' are packed in a way that cannot be read in part; pack them again without "
                "compression (zip -0 -r)"
            )
            error.codec = f"a zip file of compressed {what}"
            raise error
        if kind == "shards":
            self._of_shards(array, about, grid, files, rows)
        else:
            starts = self._starts(list(files.values()))
            for (at, info), start in zip(files.items(), starts, strict=True):
                if all(n < count for n, count in zip(at, grid, strict=True)):
                    rows[np.ravel_multi_index(at, grid)] = (0, start, info.compress_size)
        if deflated:
            array.codecs = [{"name": "deflate"}, *array.codecs]
        array.place = in_table([self.path])
        return table_of(rows)

    def _bytes(self, inside: str) -> int:
        return sum(info.file_size for name, info in self.entries.items() if name.startswith(inside))

    def _starts(self, infos: Sequence[zipfile.ZipInfo]) -> Iterator[int]:
        """Where the bytes of entries begin."""
        with places.open_binary(self.path) as file:
            for info in infos:
                file.seek(info.header_offset)
                raw = file.read(_LOCAL.size)
                if len(raw) < _LOCAL.size or not raw.startswith(b"PK\x03\x04"):
                    raise DataError(
                        f"{self.path}: the entry {info.filename} is not where its directory says; copy it again"
                    )
                *_, name, extra = _LOCAL.unpack(raw)
                yield info.header_offset + _LOCAL.size + name + extra

    def _of_shards(
        self,
        array: Array,
        about: dict[str, object],
        grid: Sequence[int],
        files: dict[tuple[int, ...], zipfile.ZipInfo],
        rows: np.ndarray[tuple[int, ...], np.dtype[np.uint64]],
    ) -> None:
        """Chunks of shards, by the indexes of these."""
        shard = [int(n) for n in np.asarray(about["shard"])]
        per = [s // c for s, c in zip(shard, array.chunk or (), strict=True)]
        count, crc = math.prod(per), bool(about["index_crc32c"])
        size = 16 * count + (4 if crc else 0)
        for (at, info), start in zip(files.items(), self._starts(list(files.values())), strict=True):
            raw = head(self.path, size, start + (info.file_size - size if about["index_at_end"] else 0))
            if (
                info.file_size < size
                or len(raw) < size
                or (crc and crc32c(raw[:-4]) != int.from_bytes(raw[-4:], "little"))
            ):
                raise DataError(f"{self.path}: the index of the shard {info.filename} is damaged; copy it again")
            listed = np.frombuffer(raw, "<u8", 2 * count).reshape(count, 2)
            for n in np.flatnonzero(listed[:, 0] != _ABSENT):
                where = [a * p + m for a, p, m in zip(at, per, np.unravel_index(n, per), strict=True)]
                offset, length = (int(v) for v in listed[n])
                if offset + length > info.file_size:
                    raise DataError(
                        f"{self.path}: the index of the shard {info.filename} leads beyond it; copy it again"
                    )
                if all(w < g for w, g in zip(where, grid, strict=True)):
                    rows[np.ravel_multi_index(where, grid)] = (0, start + offset, length)


def is_zarr(path: str) -> bool:
    """Whether a file is a zip file with a Zarr store in it."""
    opened = places.for_library(path)
    if not zipfile.is_zipfile(opened):
        return False
    try:
        with zipfile.ZipFile(opened) as archive:
            return _root(archive.namelist()) is not None
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError):  # whoever unpacks it says what is wrong
        return False


def mount(path: str, cache_dir: Path) -> Mount:
    """The store in a zip file.

    Raises:
        DataError: if it is damaged, or the cache cannot be written.
    """
    try:
        with zipfile.ZipFile(places.for_library(path)) as archive:
            root = _root(archive.namelist())
            if root is None:
                raise DataError(f"{path}: this zip file holds no Zarr store; unpack it and name what comes of it")
            # Of entries of one name the last counts, as for whoever unpacks them.
            entries = {
                info.filename[len(root) :]: info
                for info in archive.infolist()
                if info.filename.startswith(root) and not info.is_dir() and _is_safe(info.filename)
            }
            # What errors and channels are called after is the last part of it.
            name, digest = stem(path), hashlib.sha256(identity(path).encode()).hexdigest()[:20]
            folder = cache_dir / "data" / f"{name}-{digest}.zip" / name
            made = Mount(places.abspath(path), str(folder), entries, root)
            if not folder.is_dir():
                _copy(archive, made, folder)
            return made
    except (zipfile.BadZipFile, EOFError, ValueError, RuntimeError) as error:
        raise DataError(f"{path}: its zip directory or a document in it is damaged ({error}); copy it again") from error
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise unreadable(path, error) from error


def _copy(archive: zipfile.ZipFile, made: Mount, folder: Path) -> None:
    """Documents, and the chunks of small arrays, into the cache: whole, or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    whole = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        arrays = {os.path.dirname(name) for name in made.entries if os.path.basename(name) in (".zarray", "zarr.json")}
        small = [f"{a}/" if a else "" for a in arrays if made._bytes(f"{a}/" if a else "") <= _SMALL]
        for name, info in made.entries.items():
            if os.path.basename(name) not in _DOCUMENTS and not name.startswith(tuple(small)):
                continue
            if info.file_size > LONGEST_DOCUMENT:
                raise DataError(f"{made.path}: its {name} is longer than any metadata document is; it is damaged")
            target = whole / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as source:
                target.write_bytes(source.read(LONGEST_DOCUMENT + 1))
        try:
            whole.rename(folder)
        except OSError:  # another run has just made it
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(whole, ignore_errors=True)


def _root(names: Sequence[str]) -> str | None:
    """The folder in the file that is the store: the one nearest to its top that has a document.

    >>> _root(["a.zarr/zarr.json", "a.zarr/0/zarr.json"]), _root([".zgroup"]), _root(["a.txt"])
    ('a.zarr/', '', None)
    """
    found = [name.removesuffix(base) for name in names for base in [name.rsplit("/", 1)[-1]] if base in _ROOTS]
    return min(found, key=lambda folder: (folder.count("/"), folder), default=None)


def _is_safe(name: str) -> bool:
    return not name.startswith("/") and ".." not in name.split("/") and "\\" not in name


def _indices(rest: str, separator: str, rank: int) -> tuple[int, ...] | None:
    """The place of a chunk by the end of its name; None of other names."""
    words = rest.split(separator)
    if len(words) != rank or not all(w.isascii() and w.isdecimal() for w in words):
        return None
    return tuple(map(int, words))


_TABLE = [0] * 256
for _byte in range(256):
    _value = _byte
    for _ in range(8):
        _value = (_value >> 1) ^ (0x82F63B78 if _value & 1 else 0)
    _TABLE[_byte] = _value


def crc32c(data: bytes) -> int:
    """The checksum of Castagnoli.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def beneath(mounted: Mount, path: str, text: str) -> str:
    """A message about the copy in the cache, as one about the zip file."""
    return text.replace(mounted.folder, path)
