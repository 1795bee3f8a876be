"""Settings of servers: the disk cache before them, and work without them. They hold for the process."""

from __future__ import annotations

import atexit
import threading
from typing import Any

from farfield.runtime.settings import Settings

FLAGS = ("network_cache", "offline")
"""Settings that are flags of commands."""

_LOCK = threading.Lock()
_FLAGS: dict[str, Any] = {}
_IN_FORCE: list[tuple[str, int, bool]] = []
_USED: list[bool] = []
"""Not empty once the command has used a server."""


def use_flags(flags: dict[str, Any]) -> None:
    """Sets the flags of a command, for the servers that it uses."""
    with _LOCK:
        _USED.clear()
        _FLAGS.clear()
        _FLAGS.update({name: value for name, value in flags.items() if name in FLAGS and value is not None})


def configure() -> None:
    """Puts the settings into force. Called before a server is used; settings that are in force stay.

    Raises:
        UsageError: if a setting is invalid.
    """
    with _LOCK:
        _USED[:] = [True]
        settings = Settings(_FLAGS)
        wanted = (str(settings["cache_dir"] / "network"), settings.network_cache(), settings["offline"])
        if [wanted] == _IN_FORCE:
            return
        from farfield import _core

        _core.set_disk_cache(*wanted)
        if not _IN_FORCE:
            # The process would end without what waits for the disk.
            atexit.register(_core.flush_disk_cache)
        _IN_FORCE[:] = [wanted]


def notice() -> str | None:
    """What is wrong with the disk cache; once, and None if no server was used."""
    if not _USED:
        return None
    from farfield import _core

    return _core.disk_cache_notice()
