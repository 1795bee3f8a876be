"""Stores at servers for zarr-python, which decodes codecs that the extension does not have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from farfield.sources import places


def of(zarr: Any, path: str) -> Any:
    """The store of a folder at a server, for reading."""
    base = zarr.abc.store

    class ServerStore(base.Store):  # type: ignore[misc, name-defined]
        """Files below a folder, read through places."""

        supports_writes = supports_deletes = supports_listing = True
        supports_partial_writes = False

        def __init__(self) -> None:
            super().__init__(read_only=True)

        def __eq__(self, other: object) -> bool:
            return self is other

        __hash__ = object.__hash__

        async def get(self, key: str, prototype: Any = None, byte_range: Any = None) -> Any:
            name = places.join(path, key)
            try:
                size = places.getsize(name)
            except FileNotFoundError:
                return None
            first, end = _range(base, byte_range, size)
            with places.open_binary(name) as file:
                file.seek(first)
                return prototype.buffer.from_bytes(file.read(end - first))

        async def get_partial_values(self, prototype: Any, key_ranges: Iterable[tuple[str, Any]]) -> list[Any]:
            return [await self.get(key, prototype, part) for key, part in key_ranges]

        async def exists(self, key: str) -> bool:
            return places.isfile(places.join(path, key))

        async def set(self, key: str, value: Any) -> None:
            raise PermissionError(f"{path}: a server is only read")

        async def delete(self, key: str) -> None:
            raise PermissionError(f"{path}: a server is only read")

        async def list(self) -> AsyncIterator[str]:
            async for name in self.list_prefix(""):
                yield name

        async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
            for folder, _, names in places.walk(path):
                inside = places.relpath(folder, path)
                for name in names:
                    key = name if inside == "." else f"{inside}/{name}"
                    if key.startswith(prefix):
                        yield key

        async def list_dir(self, prefix: str) -> AsyncIterator[str]:
            for name in places.listdir(places.join(path, prefix.strip("/")) if prefix.strip("/") else path):
                yield name

    return ServerStore()


def _range(base: Any, asked: Any, size: int) -> tuple[int, int]:
    """The first byte and the end of what zarr-python asks for."""
    if isinstance(asked, base.RangeByteRequest):
        return min(asked.start, size), min(asked.end, size)
    if isinstance(asked, base.OffsetByteRequest):
        return min(asked.offset, size), size
    if isinstance(asked, base.SuffixByteRequest):
        return max(0, size - asked.suffix), size
    return 0, size
