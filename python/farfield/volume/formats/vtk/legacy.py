"""Legacy VTK files (`.vtk`) of grids in rows and planes: structured points, rectilinear and structured grids, as text or binary.

Their header is lines of words, with numbers between them; a pass over the lines finds where the numbers of each array stand. Those
of binary files have their highest byte first and lie one after the other, so that they are paged where they lie.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import unquote

from farfield.errors import DataError
from farfield.volume.formats.cache_conversion import PIECE
from farfield.volume.formats.vtk.arrays import DataArray
from farfield.volume.formats.vtk.outline import BLANKING, Outline, Piece

_MARK = b"# vtk DataFile"
_GRIDS = {
    b"STRUCTURED_POINTS": "ImageData",
    b"STRUCTURED_GRID": "StructuredGrid",
    b"RECTILINEAR_GRID": "RectilinearGrid",
}
_DATASET = re.compile(rb"^\s*DATASET\s+(\w+)", re.MULTILINE | re.IGNORECASE)
_TYPES = {
    "unsigned_char": "uint8", "char": "int8", "signed_char": "int8", "unsigned_short": "uint16", "short": "int16",
    "unsigned_int": "uint32", "int": "int32", "unsigned_long": "uint64", "long": "int64", "float": "float32", "double": "float64",
    "vtktypeint64": "int64", "vtktypeuint64": "uint64", "vtkidtype": "int32", "bit": "bit",
}  # fmt: skip
"""NumPy types of numbers. Ids are written as `int`, whatever VTK has in memory; eight bits lie in a byte."""
_LONGEST_LINE = 1 << 12
_MOST_LINES = 1 << 16


def legacy_kind(start: bytes) -> bytes | None:
    r"""The word behind DATASET in a legacy file that begins so; None of other files.

    >>> legacy_kind(b"# vtk DataFile Version 3.0\nx\nASCII\nDATASET STRUCTURED_POINTS\n"), legacy_kind(b"other")
    (b'STRUCTURED_POINTS', None)
    """
    if not start.startswith(_MARK):
        return None
    found = _DATASET.search(start)
    return b"" if found is None else found[1].upper()


def is_legacy_grid(start: bytes) -> bool:
    """Whether a file that begins so is a legacy file of a grid in rows and planes."""
    return legacy_kind(start) in _GRIDS


def is_legacy(found: Outline) -> bool:
    """Whether an outline is of a legacy file."""
    return "type" not in found.about


def refuse_legacy(path: str, start: bytes) -> None:
    """Raises for a legacy file of another kind, with what to do."""
    kind = legacy_kind(start)
    if kind is None or kind in _GRIDS:
        return
    named = kind.decode("latin-1").lower().replace("_", " ") or "unknown"
    raise DataError(
        f"{path}: this is a legacy VTK file of the kind '{named}', which is not read: structured points, structured and "
        "rectilinear grids are; resample it to a grid (in ParaView: Resample To Image, saved as .vti)"
    )


def legacy_outline(path: str, file: BinaryIO, length: int) -> Outline:
    """What a legacy file says of itself, as if it were one piece of VTK XML.

    Raises:
        DataError: if it is damaged, or of a kind that is not read.
    """
    return _Walk(path, file, length).outline()


@dataclass
class _Walk:
    """A pass over a file's lines."""

    path: str
    file: BinaryIO
    length: int
    at: int = 0
    text: bool = True

    def outline(self) -> Outline:
        self._line()
        self._line()  # its title
        form = self._line().strip().upper()
        if form not in ("ASCII", "BINARY"):
            raise self._wrong(f"its third line is '{form[:40]}', and should be ASCII or BINARY")
        self.text = form == "ASCII"
        found = Outline(self.path, "", {"byte_order": "BigEndian", "header_type": "UInt64"})
        piece = Piece([])
        where, count, cells = "", 0, 0
        for _ in range(_MOST_LINES):
            words = self._words()
            if not words:
                break
            key = words[0].upper()
            if key == "DATASET" and len(words) > 1:
                kind = words[1].upper().encode()
                if kind not in _GRIDS:
                    refuse_legacy(self.path, _MARK + b"\nDATASET " + kind)
                    raise self._wrong(f"its DATASET is '{words[1][:40]}'")
                found.kind = _GRIDS[kind]
            elif key in ("DIMENSIONS", "EXTENT"):
                size = [self._whole(w) for w in words[1:]]
                if len(size) != (3 if key == "DIMENSIONS" else 6) or (key == "DIMENSIONS" and min(size) < 1):
                    raise self._wrong(f"its {key} are '{' '.join(words[1:])}'")
                piece.extent = size if key == "EXTENT" else [v for n in size for v in (0, n - 1)]
                found.grid["WholeExtent"] = " ".join(map(str, piece.extent))
                cells = 1
                for n in range(3):
                    cells *= max(piece.extent[2 * n + 1] - piece.extent[2 * n], 1)
            elif key in ("ORIGIN", "SPACING", "ASPECT_RATIO"):
                found.grid["Origin" if key == "ORIGIN" else "Spacing"] = " ".join(words[1:])
            elif key == "POINTS" and len(words) == 3:
                self._put(piece, "Points", "Points", words[2], 3, self._whole(words[1]))
            elif key in ("X_COORDINATES", "Y_COORDINATES", "Z_COORDINATES") and len(words) == 3:
                self._put(piece, "Coordinates", key[0].lower(), words[2], 1, self._whole(words[1]))
            elif key in ("POINT_DATA", "CELL_DATA") and len(words) > 1:
                where, count = ("PointData" if key == "POINT_DATA" else "CellData"), self._whole(words[1])
                nodes = 1
                for n in range(3):
                    nodes *= piece.extent[2 * n + 1] - piece.extent[2 * n] + 1 if piece.extent else 1
                wanted = nodes if where == "PointData" else cells
                if count != wanted:
                    raise self._wrong(f"it has {key} {count:,}, and its dimensions ask for {wanted:,}")
            elif key == "SCALARS" and len(words) > 2:
                components = self._whole(words[3]) if len(words) > 3 else 1
                table = self.at
                if (self._words() or [""])[0].upper() != "LOOKUP_TABLE":
                    self.at = table
                piece.active.setdefault(where, unquote(words[1]))
                self._put(piece, where, words[1], words[2], components, count)
            elif key == "BLANKING" and len(words) == 3:
                self._put(piece, BLANKING, key, words[2], 1, self._whole(words[1]))
            elif key in ("VECTORS", "NORMALS") and len(words) > 2:
                self._put(piece, where, words[1], words[2], 3, count)
            elif key in ("TENSORS", "TENSORS6") and len(words) > 2:
                self._put(piece, where, words[1], words[2], 9 if key == "TENSORS" else 6, count)
            elif key == "TEXTURE_COORDINATES" and len(words) > 3:
                self._put(piece, where, words[1], words[3], self._whole(words[2]), count)
            elif key == "COLOR_SCALARS" and len(words) > 2:
                self._put(
                    piece, where, words[1], "float" if self.text else "unsigned_char", self._whole(words[2]), count
                )
            elif key == "LOOKUP_TABLE" and len(words) > 2:
                self._skip("float" if self.text else "unsigned_char", 4 * self._whole(words[2]))
            elif key == "FIELD" and len(words) > 2:
                self._field(found, piece, where, self._whole(words[2]))
            elif key == "METADATA":
                while self._line().strip():
                    pass
            else:
                raise self._wrong(f"its line '{' '.join(words)[:60]}' makes no sense where it stands")
        if not found.kind or not piece.extent:
            raise self._wrong("it says not what it is (DATASET) and how large (DIMENSIONS)")
        found.pieces.append(piece)
        return found

    def _field(self, found: Outline, piece: Piece, where: str, arrays: int) -> None:
        done = 0
        while done < arrays:
            words = self._words()
            if words and words[0].upper() == "METADATA":
                while self._line().strip():
                    pass
                continue
            if len(words) != 4:
                raise self._wrong(f"its FIELD has {arrays:,} arrays, and {done:,} are there")
            name, components, count, kind = words[0], self._whole(words[1]), self._whole(words[2]), words[3]
            done += 1
            if kind.lower() not in _TYPES:
                self._texts(components * count)
                continue
            if where:
                self._put(piece, where, name, kind, components, count)
                continue
            made = self._array(name, kind, components, count)
            if name.upper() in ("TIME", "TIMEVALUE"):
                found.time = made

    def _texts(self, count: int) -> None:
        """Passes over texts, which are lines, or lengths and letters."""
        for _ in range(count):
            if self.text:
                self._line()
                continue
            first = self._bytes(1)[0]
            # Its two highest bits say how many bytes the length takes.
            more = {3: 0, 2: 1, 1: 3, 0: 7}[first >> 6]
            size = int.from_bytes(bytes([first & 63]) + self._bytes(more), "big")
            self._bytes(min(size, self.length))

    def _bytes(self, count: int) -> bytes:
        self.file.seek(self.at)
        found = self.file.read(count)
        if len(found) != count:
            raise self._wrong("it ends within its numbers: it was cut off")
        self.at += count
        return found

    def _put(self, piece: Piece, where: str, name: str, kind: str, components: int, count: int) -> None:
        if not where:
            raise self._wrong(f"'{name}' stands before POINT_DATA and CELL_DATA")
        made = self._array(name, kind, components, count)
        piece.arrays.setdefault(where, []).append(made)

    def _array(self, name: str, kind: str, components: int, count: int) -> DataArray:
        dtype = _TYPES.get(kind.lower())
        if dtype is None:
            raise self._wrong(f"'{name}' is of the type '{kind}', which is not read")
        if components < 1:
            raise self._wrong(f"'{name}' has {components} numbers a point")
        made = DataArray(unquote(name), dtype, components, "ascii" if self.text else "bare", self.at)
        self._skip(kind, components * count)
        made.end = self.at
        return made

    def _skip(self, kind: str, count: int) -> None:
        """Passes over numbers."""
        if not self.text:
            bits = {"": 1, "8": 8, "16": 16, "32": 32, "64": 64}[re.sub(r"\D", "", _TYPES[kind.lower()])]
            size = -(-count * bits // 8)
            if self.at + size > self.length:
                raise self._wrong(f"it needs {size:,} bytes from byte {self.at:,} on, and ends at {self.length:,}")
            self.at += size
            return
        left = count
        self.file.seek(self.at)
        inside = False
        while left:
            piece = self.file.read(PIECE)
            if not piece:
                raise self._wrong(f"it ends {left:,} numbers too early: it was cut off")
            found = len(piece.split())
            if found == 0:
                inside = False
                self.at += len(piece)
                continue
            # A word that began in the piece before was counted there.
            starts = found - (1 if inside and not piece[:1].isspace() else 0)
            if starts < left:
                left -= starts
                self.at += len(piece)
                inside = not piece[-1:].isspace()
                continue
            at = 0
            if inside and not piece[:1].isspace():
                at = _end_of_word(piece, 0)
            for word in re.compile(rb"\S+").finditer(piece, at):
                left -= 1
                at = word.end()
                if not left:
                    break
            else:
                self.at += len(piece)
                inside = True
                continue
            self.at += at
            if at == len(piece):
                self.at += _end_of_word(self.file.read(_LONGEST_LINE), 0)

    def _words(self) -> list[str]:
        """The words of the next line that has some; none at the end."""
        while self.at < self.length:
            words = self._line().split()
            if words:
                return words
        return []

    def _line(self) -> str:
        self.file.seek(self.at)
        read = self.file.readline(_LONGEST_LINE)
        if len(read) == _LONGEST_LINE and not read.endswith(b"\n"):
            raise self._wrong(f"a line of words is longer than {_LONGEST_LINE:,} letters")
        self.at += len(read)
        return read.decode("latin-1")

    def _whole(self, word: str) -> int:
        try:
            return int(word)
        except ValueError as error:
            raise self._wrong(f"'{word[:40]}' should be a whole number") from error

    def _wrong(self, what: str) -> DataError:
        return DataError(f"{self.path}: {what}; the file is damaged or no legacy VTK file: write it again")


def _end_of_word(text: bytes, at: int) -> int:
    found = re.compile(rb"\s").search(text, at)
    return len(text) if found is None else found.start()
