"""A server of a local folder, in the place of the extension's access to servers: it counts what it is asked, refuses on demand,
and is known under `fake://host/`, of this test alone.
"""

from __future__ import annotations

import re
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from farfield import _core
from farfield.errors import AccessError, DataError
from farfield.sources import addresses, remote

HOST = "fake://host"


@dataclass
class Server:
    """Serves `root` as `fake://host/`."""

    root: Path
    lists: bool = True
    refused: str = ""
    """A pattern of paths that it refuses, as a server does with 403."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    begun: int = 0

    def url(self, path: Path | str) -> str:
        """The address of a file below the root."""
        name = str(path)
        return f"{HOST}{name.removeprefix(str(self.root))}" if name.startswith("/") else f"{HOST}/{name}"

    def of(self, kind: str) -> list[Any]:
        """What it was asked of a kind."""
        return [asked for of, asked in self.calls if of == kind]

    def local(self, path: str) -> Path:
        """The file of an address."""
        assert path == HOST or path.startswith(f"{HOST}/"), path
        assert not path.endswith("/") and "/./" not in path and "/../" not in path, path
        if self.refused and re.search(self.refused, path):
            raise AccessError(f"{path}: the server refuses (403)")
        return Path(f"{self.root}{path.removeprefix(HOST)}")

    def stat(self, path: str) -> tuple[str, int, str, int] | None:
        """One answer of `stat_files`."""
        place = self.local(path)
        try:
            found = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        kind = "file" if place.is_file() else "folder" if place.is_dir() else "other"
        return (
            kind,
            0 if kind == "folder" else found.st_size,
            f'"{found.st_mtime_ns:x}-{found.st_ino:x}"',
            found.st_mtime_ns,
        )

    def stat_files(self, paths: list[str], *, first_bytes: bool = False) -> list[tuple[str, int, str, int] | None]:
        self.calls.append(("stat", list(paths)))
        return [self.stat(path) for path in paths]

    def list_folder(self, folder: str) -> list[tuple[str, bool, int]]:
        self.calls.append(("list", folder))
        if not self.lists:
            raise AccessError(f"{folder}: the server refuses to list (403)")
        place = self.local(folder)
        if not place.is_dir():
            raise DataError(f"{folder}: there is no such folder")
        return [
            (e.name, e.is_dir(), 0 if e.is_dir() else e.stat().st_size) for e in sorted(place.iterdir()) if e.exists()
        ]

    def reader(self, path: str) -> Any:
        """What `FileReader` of the extension is."""
        self.calls.append(("open", path))
        said = self.stat(path)
        if said is None:
            raise DataError(f"{path}: there is no such file")
        server, place = self, self.local(path)

        class FileReader:
            size, version = said[1], said[2]

            def read_at(self, offset: int, length: int) -> bytes:
                server.calls.append(("read", (path, offset, length)))
                server.local(path)
                with open(place, "rb") as file:
                    file.seek(offset)
                    return file.read(length)

        return FileReader()

    def opening(self) -> Any:
        """What `Opening` of the extension is."""
        server = self

        class Opening:
            def __enter__(self) -> None:
                server.begun += 1

            def __exit__(self, *_: object) -> None:
                server.calls.append(("end", None))

        return Opening()


def put(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    """Registers the scheme, and puts the server in the place of the extension's access. Pages of what it serves are read by the
    extension from the local files, since reading those is not what is tested."""
    monkeypatch.setattr(addresses, "SCHEMES", {*addresses.SCHEMES, "fake"})
    layer = types.SimpleNamespace(
        stat_files=server.stat_files, list_folder=server.list_folder, FileReader=server.reader, Opening=server.opening
    )
    monkeypatch.setattr(remote, "extension", lambda: layer)
    own = _core.Dataset

    class Dataset:
        @staticmethod
        def open(source: str, *words: Any, **more: Any) -> Any:
            return own.open(source.replace(HOST, str(server.root)), *words, **more)

    monkeypatch.setattr(_core, "Dataset", Dataset)
    stored = _core.stored_volume
    monkeypatch.setattr(
        _core,
        "stored_volume",
        lambda path, *words, **more: stored(path.replace(HOST, str(server.root)), *words, **more),
    )
