"""A stand-in for the extension that records calls: for tests of what the Python side asks for, not of what comes of it."""

from __future__ import annotations

import importlib
import json
import re
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import farfield
from farfield.errors import UnknownName


def bind() -> None:
    """Imports the modules that take the extension when they are imported, before something stands in for it: they would keep
    that in all tests that come after.
    """
    folder = Path(farfield.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if re.search(r"^from farfield import .*\b_core\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            importlib.import_module(".".join(parts).removesuffix(".__init__"))


def put(monkeypatch: pytest.MonkeyPatch, core: types.ModuleType) -> None:
    """Puts a stand-in in the place of the extension in all modules that have taken it."""
    bind()
    monkeypatch.setitem(sys.modules, "farfield._core", core)
    monkeypatch.setattr(farfield, "_core", core, raising=False)
    for name, module in list(sys.modules.items()):
        if name.startswith("farfield.") and hasattr(module, "_core"):
            monkeypatch.setattr(module, "_core", core)


STATS = {
    "wall_s": 0.5, "cpu_s": 0.4, "wait_s": 0.1, "base_bytes": 1, "peak_bytes": 2, "limit_bytes": 3,
    "pages": {"total": 10, "touched": 2, "faults": 2, "hits": 8, "evictions": 0, "prefetched": 0, "prefetched_used": 0},
    "bytes_read": 100, "reads": 2, "workers": 3, "readers": 7, "replacement": "lru", "warnings": [],
}  # fmt: skip

INFO = {
    "source": "fake", "format": "fake", "guessed": [], "order_assumed": [], "notes": [], "dimension": 3,
    "coordinates_dtype": "float64",
    "zones": [
        {"name": "zone1", "dims": [5, 4, 3], "iblank": True, "points": 60, "page": [5, 4, 3], "pages": 1,
         "box": [[0, 0, 0], [4, 3, 2]], "header": None, "iblank_values": {"1": 59, "-3": 1}},
    ],
    "fields": [
        {"name": "density", "components": 1, "dtype": "float32", "units": "1", "standard_name": "", "long_name": "density",
         "derived": False, "definition": None, "range": [0, 59], "center": None},
        {"name": "velocity", "components": 3, "dtype": "float32", "units": "1", "standard_name": "", "long_name": "velocity",
         "derived": True, "definition": "momentum / density", "range": None, "center": None},
        {"name": "pressure_coefficient", "components": 1, "dtype": "float32", "units": "1", "standard_name": "",
         "long_name": "pressure coefficient", "derived": True, "definition": None, "range": None, "center": 0.0},
    ],
    "times": [0.0, 0.5, 1.5], "times_counted": False, "times_gaps": [1], "times_why": None, "time_units": "L/a",
    "pages": {"total": 10, "bytes": 4096},
    "bytes_disk": 1, "bytes_memory": 2, "checked": False, "layout": "in place", "codec": None,
    "limit_least_bytes": 1000, "walls": [{"zone": "zone1", "axis": "j", "index": 1, "box": [[1, 1, 0], [2, 2, 2]]}],
    "settings": None,
}  # fmt: skip


@dataclass
class Calls:
    """What was asked, in order: (name, arguments)."""

    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    """Result, or exception, by the call's name, where a test wants another than the usual one."""

    def note(self, call: str, usual: Any, **arguments: Any) -> Any:
        for key in ("options", "scene"):
            if isinstance(arguments.get(key), str):
                arguments[key] = json.loads(arguments[key])
        self.made.append((call, arguments))
        answer = self.answers.get(call, usual)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, np.ndarray) else json.dumps(answer)

    def last(self, name: str) -> dict[str, Any]:
        """The arguments of the last call of that name."""
        return next(arguments for made, arguments in reversed(self.made) if made == name)


def flat(source: str, resources: str, options: str = "{}") -> dict[str, Any]:
    """The keys of a source, of resources and of options as arguments of one call."""
    document = json.loads(source)
    return {
        "source": document["path"],
        "q": document["q"] or None,
        "function": document["function"] or None,
        **json.loads(resources),
        "options": {**document["options"], **json.loads(options)},
    }


def module(calls: Calls) -> types.ModuleType:
    """A module with the names of `farfield._core`."""

    class Dataset:
        def info(self, **k: Any) -> str:
            return str(calls.note("info", INFO, **k))

        def look(self, **k: Any) -> str:
            found = {"zones": [{"name": "zone1", "box": [[0, 0, 0], [4, 3, 2]]}], "walls": INFO["walls"]}
            return str(calls.note("look", found, **k))

        def probe(self, position: tuple[float, float, float], **k: Any) -> str:
            where = {"zone": "zone1", "ijk": [1, 2, 3], "position": position, "values": {"density": 1.2}, "units": {},
                     "note": None}  # fmt: skip
            return str(calls.note("probe", where, at=position, **k))

        def probe_ijk(self, zone: str, ijk: tuple[float, float, float], **more: Any) -> str:
            where = {"zone": zone, "ijk": ijk, "position": [0, 0, 0], "values": {}, "units": {}, "note": None}
            return str(calls.note("probe_ijk", where, zone=zone, at=ijk, **more))

        def trace(self, options: str, output: str, **k: Any) -> str:
            done = {"lines": 2, "points": 9, "reasons": {"left": 2}, "outside": 0, "partial": False, "output": output,
                    "bytes_written": 5, "stats": STATS}  # fmt: skip
            return str(calls.note("trace", done, options=options, output=output, **k))

        def run(self, job: str, options: str, *, output: str | None = None, **k: Any) -> str:
            done = {"points": 4, "cells": 1, "surfaces": [], "output": output, "bytes_written": 5, "stats": STATS}
            return str(calls.note("run", done, job=job, options=options, output=output, **k))

        def describe(self, name: str, zone: str) -> str:
            raise UnknownName(f"no field named '{name}'; there are: density")

        def read(self, name: str, zone: str, step: int, lo: Any, hi: Any) -> np.ndarray[Any, Any]:
            calls.note("read", None, name=name, zone=zone, step=step, lo=lo, hi=hi)
            shape = (3, 3, 4, 5) if name == "velocity" else (3, 4, 5)
            whole = np.arange(np.prod(shape), dtype="f4").reshape(shape)
            return whole[..., lo[2] : hi[2], lo[1] : hi[1], lo[0] : hi[0]].copy()

        def stats(self) -> str:
            return json.dumps(STATS)

        def set_memory_limit(self, memory_limit: int) -> None:
            calls.note("set_memory_limit", None, memory_limit=memory_limit)

        def close(self) -> None:
            calls.note("close", None)

        @staticmethod
        def open(source: str, resources: str, **k: Any) -> Dataset:
            calls.note("open", None, **flat(source, resources), **k)
            return Dataset()

    def convert(source: str, destination: str, resources: str, *, options: str, **k: Any) -> str:
        done = {"destination": destination, "dry_run": False, "resumed": False, "bytes_in": 10, "bytes_out": 11,
                "pages_written": 2, "shards": 1, "zones": [], "page": 16, "layout": "cubed", "codec": "none",
                "padding_disk": 1.0, "padding_memory": 1.0, "seconds_estimated": None, "guessed": [],
                "order_assumed": [], "stats": STATS}  # fmt: skip
        return str(calls.note("convert", done, destination=destination, **flat(source, resources, options), **k))

    def validate(source: str, resources: str, **k: Any) -> str:
        done = {"ok": True, "pages_checked": 3, "pages_unchecked": 0, "failures": [], "failed": 0, "stats": STATS}
        return str(calls.note("validate", done, **flat(source, resources), **k))

    def render(scene: str, output: str, resources: str, **k: Any) -> str:
        Path(output).write_bytes(b"")
        document = json.loads(scene)
        maps = {
            name: {"field": m["field"], "range": m["range"] or [0, 1], "units": "1"}
            for name, m in document["maps"].items()
        }
        done = {"output": output, "size": document["size"], "maps": maps, "drawn": [], "camera": {}, "bytes_written": 0,
                "stats": STATS, "partial": False}  # fmt: skip
        return str(calls.note("render", done, scene=scene, output=output, **json.loads(resources), **k))

    made = types.ModuleType("farfield._core")
    made.__dict__.update(Dataset=Dataset, convert=convert, validate=validate, render=render)
    return made
