"""Choice of the best store and readers for a kind of run, by measurements of a short run on this machine.

One parameter after another is chosen, by running the command on stores that differ in it alone: first page size,
which matters most, then layout, codec and number of readers. This needs nine conversions at most, not all
combinations.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from farfield.errors import DataError, Interrupted, MemoryLimitError, UsageError
from farfield.results.text_tables import aligned
from farfield.runtime.page_cache import evict
from farfield.runtime.progress import Report, reporting
from farfield.runtime.sizes import format_bytes
from farfield.sources import places
from farfield.sources.parsing import parse

COMMANDS = ("trace", "extract", "render", "probe", "flowmap")
"""Commands that run on a store and report their times."""
PAGES = (8, 16, 32)
LAYOUTS = ("cubed", "flat")
CODECS = ("none", "lz4", "zstd")
READERS = (8, 32, 128)
CLOSE = 1.03
"""Times within this ratio count as equal; then the first choice, which is the default or cheaper, is preferred."""


@dataclass(frozen=True)
class Choice:
    """Parameters of a store and of reading it."""

    page: int = 16
    layout: str = "cubed"
    codec: str = "none"
    readers: int = 0
    """Number of readers; 0 for the default."""

    def words(self) -> list[str]:
        """The options of `convert` for such a store."""
        return ["--page", str(self.page), "--layout", self.layout, "--codec", self.codec]

    def __str__(self) -> str:
        readers = f", {self.readers} readers" if self.readers else ""
        return f"pages of {self.page}, {self.layout}, codec {self.codec}{readers}"


@dataclass
class Bench:
    """Stores of a dataset in a folder, and measured times of a run on each."""

    source: str
    like: list[str]
    folder: Path
    runs: int
    told: Report | None
    done: int = 0
    times: dict[Choice, dict[str, Any]] = field(default_factory=dict)

    def measure(self, choice: Choice) -> float:
        """The median of the command's times in seconds on such a store. Each store is made once. Infinite if the
        command's memory limit is too small for pages of that size."""
        if choice not in self.times:
            self._tell()
            store = self.folder / f"{choice.page}-{choice.layout}-{choice.codec}.zarr"
            if not store.exists():
                _farfield(["convert", self.source, str(store), *choice.words()])
            try:
                self.times[choice] = self._run(choice, store)
            except MemoryLimitError as error:
                nothing = dict.fromkeys(("wall_s", "spread", "bytes_read"))
                self.times[choice] = {**nothing, "store_bytes": _size(store), "refused": str(error)}
        middle: float | None = self.times[choice]["wall_s"]
        return math.inf if middle is None else middle

    def _run(self, choice: Choice, store: Path) -> dict[str, Any]:
        words = [str(store) if word == self.source else word for word in self.like]
        result = self.folder / f"result{_ending(self.like)}"
        words += ["-o", str(result)] if _writes(self.like) else []
        words += ["--readers", str(choice.readers)] if choice.readers else []
        found = []
        for _ in range(self.runs):
            if result.is_dir():  # `flowmap` does not overwrite a folder
                shutil.rmtree(result)
            evict([store])
            found.append(_farfield(words))
        found.sort(key=lambda f: f["wall_s"])
        middle = found[len(found) // 2]
        return {
            "wall_s": middle["wall_s"],
            "spread": (found[-1]["wall_s"] - found[0]["wall_s"]) / max(middle["wall_s"], 1e-9),
            "bytes_read": middle["bytes_read"],
            "store_bytes": _size(store),
        }

    def best(self, choices: Sequence[Choice]) -> Choice:
        """The first choice whose time equals the best."""
        least = min(choices, key=self.measure)
        if math.isinf(self.measure(least)):
            raise MemoryLimitError(self.times[least]["refused"])
        # If runs of one choice scatter more, the difference between two choices is not significant.
        close = max(CLOSE, 1.0 + 0.5 * self.times[least]["spread"])
        return next(c for c in choices if self.measure(c) <= close * self.measure(least))

    def settle(self) -> Choice:
        """Chooses one parameter after another, starting from the default."""
        default_page = Choice().page
        chosen = self.best([Choice(page) for page in sorted(PAGES, key=lambda p: p != default_page)])
        chosen = self.best([Choice(chosen.page, layout) for layout in LAYOUTS])
        chosen = self.best([Choice(chosen.page, chosen.layout, codec) for codec in CODECS])
        return self.best([Choice(chosen.page, chosen.layout, chosen.codec, n) for n in (0, *READERS)])

    def _tell(self) -> None:
        if self.told is not None and not self.told("measuring", self.done, len(PAGES) + len(CODECS) + len(READERS)):
            raise Interrupted("interrupted")
        self.done += 1


def tune(
    source: str,
    like: str,
    *,
    runs: int = 3,
    scratch: str | os.PathLike[str] | None = None,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Proposes page size, layout, codec and readers for runs like a short one; returns the JSON of `tune --json`.

    Args:
        source: A source, as in `farfield convert`.
        like: The command of a short run, such as `"trace wing.xyz --seeds random:200:1 --memory-limit 1GiB"`. Stores
            replace the source in it. Each run starts with its store evicted from the page cache.
        runs: Runs per store; the median counts.
        scratch: A folder for the stores, which take about ten times the size of the data; None for the system's
            temporary folder. Its new files are removed at the end.
        progress: As in `farfield.open`.

    Raises:
        UsageError: if the command does not run on a store, or does not name the source.
        MemoryLimitError: if the command's limit is too small for every page size.
        DataError: if a run fails for another reason, or if the disk is full.
    """
    words = shlex.split(like)
    if words[:1] == ["farfield"]:
        words = words[1:]
    if not words or words[0] not in COMMANDS:
        raise UsageError(f"--like: '{like}' is no run to be like; it begins with one of {', '.join(COMMANDS)}")
    if source not in words:
        raise UsageError(f"--like: the command does not name {source}; write it there as it is written before --like")
    if any(w in ("-o", "--output", "--readers", "--json", "--events") for w in words):
        raise UsageError("--like: leave out -o, --readers, --events and --json; they are added")
    found = parse(source)
    data = sum(_size(p) for p in found.reads())
    with tempfile.TemporaryDirectory(prefix="farfield-tune-", dir=scratch) as folder, reporting(progress) as told:
        room, needs = shutil.disk_usage(folder).free, 10 * data
        if room < needs:
            raise DataError(
                f"{folder}: the stores take up to {format_bytes(needs)}, and {format_bytes(room)} are free; name a "
                "folder with room by --scratch"
            )
        bench = Bench(source, words, Path(folder), max(1, runs), told)
        chosen = bench.settle()
        rows = [
            {"page": c.page, "layout": c.layout, "codec": c.codec, "readers": c.readers or None, **row}
            for c, row in bench.times.items()
        ]
        default = bench.times[Choice()]["wall_s"]
        best = bench.times[chosen]
    return {
        "source": source,
        "like": like,
        "page": chosen.page,
        "layout": chosen.layout,
        "codec": chosen.codec,
        "readers": chosen.readers or None,
        "wall_s": best["wall_s"],
        "default_wall_s": default,
        "convert": f"farfield convert {shlex.quote(source)} OUT.zarr {shlex.join(chosen.words())}",
        "measured": rows,
    }


def table(found: dict[str, Any]) -> list[str]:
    """The proposal as text: the measurements, and the command for the best store."""
    head = ["page", "layout", "codec", "readers", "time", "spread", "read", "store"]
    rows = [
        [
            str(r["page"]),
            r["layout"],
            r["codec"],
            str(r["readers"] or "default"),
            *(
                ["over the limit", "", ""]
                if r["wall_s"] is None
                else [f"{r['wall_s']:.3f} s", f"{100 * r['spread']:.0f} %", format_bytes(r["bytes_read"])]
            ),
            format_bytes(r["store_bytes"]),
        ]
        for r in found["measured"]
    ]
    readers = f", and runs with --readers {found['readers']}" if found["readers"] else ""
    return [
        *aligned([head, *rows]),
        "",
        f"{_seconds(found['default_wall_s'])} with the defaults, {_seconds(found['wall_s'])} with",
        f"  {found['convert']}{readers}",
    ]


def _seconds(value: float | None) -> str:
    """A time as text, if there is one.

    >>> _seconds(0.25), _seconds(None)
    ('0.250 s', 'over the memory limit')
    """
    return "over the memory limit" if value is None else f"{value:.3f} s"


def _writes(words: Sequence[str]) -> bool:
    return words[0] != "probe"


def _ending(words: Sequence[str]) -> str:
    return {"render": ".png", "extract": ".vtp", "flowmap": ".zarr"}.get(words[0], ".npz")


def _size(place: str | Path) -> int:
    if isinstance(place, str) and places.is_remote(place):
        return places.getsize(place) if places.isfile(place) else 0
    path = Path(place)
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file())


def _farfield(words: Sequence[str]) -> dict[str, Any]:
    """Runs a command in a new process; returns the JSON object that it prints.

    Raises:
        MemoryLimitError: if its memory limit is too small.
        DataError: if it fails for another reason, with its message.
    """
    command = [sys.executable, "-m", "farfield", *words, "--json", "--no-progress", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 3):
        said = done.stderr.strip().splitlines()
        kind = MemoryLimitError if done.returncode == MemoryLimitError.exit_code else DataError
        raise kind(f"'farfield {shlex.join(words)}' failed: {said[-1] if said else done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
