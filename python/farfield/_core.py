"""Loads the extension and re-exports its names.

Only this module imports `farfield._native`. An unsupported processor or an unbuilt checkout then ends in one
sentence, not in an illegal instruction or a traceback.
"""

from __future__ import annotations

import platform
from typing import Any

from farfield.errors import FarfieldError

# The kernels are compiled for x86-64-v3; `lzcnt` is called `abm` in /proc/cpuinfo.
_NEEDED = ("avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm")


def missing_cpu_features(cpuinfo: str = "/proc/cpuinfo") -> list[str]:
    """Instructions that the build uses and this processor lacks. Empty if the processor's features are unknown."""
    if platform.machine() != "x86_64":
        return []
    try:
        with open(cpuinfo, encoding="ascii", errors="replace") as file:
            flags = next((set(line.split(":", 1)[1].split()) for line in file if line.startswith("flags")), None)
    except OSError:  # no Linux, or no access to /proc: assume a processor that is new enough
        return []
    return [] if flags is None else [name for name in _NEEDED if name not in flags]


if _missing := missing_cpu_features():
    raise FarfieldError(
        f"this processor lacks {', '.join(_missing)}, which this build of Farfield uses; "
        "change target-cpu in .cargo/config.toml and build it from source"
    )
try:
    from farfield._native import (
        Dataset,
        Lines,
        convert,
        export_events,
        known_ranges,
        render,
        replay_events,
        stored_volume,
        summarise,
        validate,
    )
except ImportError as error:
    raise FarfieldError(f"the compiled part of Farfield does not load ({error}); run 'make build'") from error

__all__ = [
    "Dataset",
    "Lines",
    "convert",
    "export_events",
    "known_ranges",
    "missing_cpu_features",
    "render",
    "replay_events",
    "save_mesh",
    "stored_volume",
    "summarise",
    "validate",
]


def save_mesh(path: str, arrays: dict[str, Any], meta: str) -> None:
    """Writes a surface: see `farfield/_native.pyi`."""
    from farfield import _native

    _native.save_mesh(path, arrays, meta)


def PageServer(options: str) -> Any:  # noqa: N802 - a class of the extension
    """A running page server: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.PageServer(options)


def new_token() -> tuple[str, str]:
    """A token and its hash: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.new_token()


def server_status(url: str) -> str:
    """The counts of a page server: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.server_status(url)


def set_server_credentials(server: str, token: str | None, pin: str | None) -> None:
    """What a server is shown, and by what it is believed: see `farfield/_native.pyi`."""
    from farfield import _native

    _native.set_server_credentials(server, token, pin)


def set_disk_cache(folder: str, bytes: int, offline: bool) -> None:
    """The disk cache before servers: see `farfield/_native.pyi`."""
    from farfield import _native

    _native.set_disk_cache(folder, bytes, offline)


def disk_cache_notice() -> str | None:
    """What is wrong with the disk cache: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.disk_cache_notice()


def disk_cache_info(folder: str) -> tuple[int, int]:
    """Bytes and records of a disk cache: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.disk_cache_info(folder)


def disk_cache_clear(folder: str) -> int:
    """Clears a disk cache: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.disk_cache_clear(folder)


def set_alias(name: str, target: str) -> None:
    """The folder at a server for which a name stands: see `farfield/_native.pyi`."""
    from farfield import _native

    _native.set_alias(name, target)


def time_reads(path: str, bytes: int, count: int, depth: int, most_s: float) -> tuple[list[float], float, int]:
    """Measured reads of a remote file: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.time_reads(path, bytes, count, depth, most_s)


def _reach(paths: list[str]) -> None:
    """Puts the settings of servers into force, and starts the servers of `ssh://` paths that have none yet."""
    if any("://" in path for path in paths):
        from farfield.runtime.network import configure

        configure()
    if any(path.startswith("ssh://") for path in paths):
        from farfield.serving.ssh import ensure

        ensure(paths)


def stat_files(paths: list[str]) -> list[tuple[str, int, str, int] | None]:
    """What is known of files, asked in one batch: see `farfield/_native.pyi`."""
    from farfield import _native

    _reach(paths)
    return _native.stat_files(paths)


def list_folder(folder: str) -> list[tuple[str, bool, int]]:
    """The entries of a folder: see `farfield/_native.pyi`."""
    from farfield import _native

    _reach([folder])
    return _native.list_folder(folder)


def FileReader(path: str) -> Any:  # noqa: N802 - a class of the extension
    """A file of one version: see `farfield/_native.pyi`."""
    from farfield import _native

    _reach([path])
    return _native.FileReader(path)


def Opening() -> Any:  # noqa: N802 - a class of the extension
    """What is known of files meanwhile is shared: see `farfield/_native.pyi`."""
    from farfield import _native

    return _native.Opening()
