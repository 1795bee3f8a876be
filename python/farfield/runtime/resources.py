"""Resources of a run, its log and its progress."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Self

from farfield.runtime.progress import Report, reporting
from farfield.runtime.settings import Settings

Path = str | os.PathLike[str]
NAMES = ("memory_limit", "workers", "readers", "replacement")
"""Settings that limit a run."""


@dataclass(frozen=True)
class Resources:
    """The memory limit, threads, reads, replacement, log of events and progress of a run, as in `farfield.open`.

    >>> found = Resources.of(memory_limit="64MiB", workers=2, progress=False)
    >>> found.native()
    '{"memory_limit": 67108864, "workers": 2, "readers": 0, "replacement": "clock", "events": null}'
    """

    settings: Settings = field(default_factory=Settings)
    """The limit, threads, reads and replacement, with their origins."""
    events: Path | None = None
    """A file for the log of events."""
    progress: bool | Report | None = None
    """A progress function, or True or False for a bar; None for a bar on terminals."""

    @classmethod
    def of(
        cls,
        *,
        memory_limit: str | int | None = None,
        workers: int | None = None,
        readers: int | None = None,
        replacement: str | None = None,
        events: Path | None = None,
        progress: bool | Report | None = None,
        **more: Any,
    ) -> Self:
        """Resources from the keywords of a call. None means the value of a variable or file. `more` are other
        settings."""
        given = {"memory_limit": memory_limit, "workers": workers, "readers": readers, "replacement": replacement}
        return cls(Settings({**given, **more}), events, progress)

    def native(self, *, replacement: bool = True) -> str:
        """The form for the extension, without progress. `replacement` False: for a run that replaces no pages."""
        return json.dumps({**self.settings.resources(replacement=replacement), "events": self.log})

    @property
    def log(self) -> str | None:
        """The name of the log of events."""
        return None if self.events is None else os.fspath(self.events)

    def reporting(self) -> AbstractContextManager[Report | None]:
        """The report function for the duration of the run."""
        return reporting(self.progress)

    def beside(self) -> Resources:
        """Resources for further opening during the run, without its log."""
        return replace(self, events=None)

    def held_by(self, stats: Mapping[str, Any]) -> Resources:
        """Fills in the values of an open dataset, from its `stats`, where none are given."""
        own = {"memory_limit": stats["limit_bytes"], **stats}
        held = {name: value for name in NAMES if (value := own.get(name)) is not None}
        return replace(self, settings=Settings({**held, **self.settings.flags}))


def decoding(memory_limit: int) -> str:
    """Resources of a reader that decodes arrays of its files, in the form for the extension: one thread."""
    return json.dumps({"memory_limit": memory_limit, "workers": 1})
