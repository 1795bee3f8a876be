"""Loads the extension and re-exports its names.

Only this module imports `farfield._native`. An unsupported processor or an unbuilt checkout then ends in one
sentence, not in an illegal instruction or a traceback.
"""

from __future__ import annotations

import json
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
        Opening,
        PageServer,
        convert,
        disk_cache_clear,
        disk_cache_info,
        disk_cache_notice,
        export_events,
        flush_disk_cache,
        known_ranges,
        new_token,
        remove_staged,
        render,
        replay_events,
        server_status,
        set_alias,
        set_disk_cache,
        set_server_credentials,
        stored_volume,
        summarise,
        time_reads,
        validate,
    )
except ImportError as error:
    raise FarfieldError(f"the compiled part of Farfield does not load ({error}); run 'make build'") from error

__all__ = [
    "Dataset",
    "FileReader",
    "Lines",
    "Opening",
    "PageServer",
    "convert",
    "disk_cache_clear",
    "disk_cache_info",
    "disk_cache_notice",
    "flush_disk_cache",
    "export_events",
    "known_ranges",
    "list_folder",
    "missing_cpu_features",
    "new_token",
    "remove_staged",
    "render",
    "replay_events",
    "save_mesh",
    "server_status",
    "set_alias",
    "set_disk_cache",
    "set_server_credentials",
    "stage_files",
    "stat_files",
    "stored_volume",
    "summarise",
    "time_reads",
    "validate",
]


def save_mesh(path: str, arrays: dict[str, Any], meta: str) -> None:
    """Writes a surface: see `farfield/_native.pyi`."""
    from farfield import _native

    _native.save_mesh(path, arrays, meta)


def _reach(paths: list[str]) -> None:
    """Puts the settings of servers into force, and starts the servers of `ssh://` paths that have none yet."""
    if any("://" in path for path in paths):
        from farfield.runtime.network import configure

        configure()
    if any(path.startswith("ssh://") for path in paths):
        from farfield.serving.ssh import ensure

        ensure(paths)


def stat_files(paths: list[str], *, first_bytes: bool = False) -> list[tuple[str, int, str, int] | None]:
    """What is known of files, asked in one batch: see `farfield/_native.pyi`."""
    from farfield import _native

    _reach(paths)
    return _native.stat_files(paths, first_bytes=first_bytes)


def stage_files(options: str, progress: Any = None) -> str:
    """Brings files to page servers: see `farfield/_native.pyi`."""
    from farfield import _native

    _reach([path for path, _ in json.loads(options)["files"]])
    return _native.stage_files(options, progress)


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
