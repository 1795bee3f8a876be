"""The steps of `farfield demo`: make a flow several times larger than the limit, convert it, trace a rake, draw it, and
report reads and memory. Each step is a command in its own process, so that its peak of memory is its own and users
can repeat it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield import demo
from farfield.errors import DataError, FarfieldError, Interrupted, MemoryLimitError
from farfield.runtime.sizes import format_bytes, parse_bytes

LIMIT = "64MiB"
SCALE = 4
"""10 million points, 380 MB: six times the limit, and made in seconds."""
RAKE = "plane:-2.2,-0.4,2:-2.2,0.4,2:-2.2,-0.4,6:20:3"
"""Three ribbons at three heights upstream of the cylinder, which its wake folds at three frequencies. They touch a
sixth of the pages; a curtain over the whole height touches nearly half."""
SCALARS = "velocity_magnitude,pressure"
RUN_KEYS = (
    "wall_s",
    "cpu_s",
    "wait_s",
    "base_bytes",
    "peak_bytes",
    "limit_bytes",
    "pages",
    "bytes_read",
    "reads",
)
"""Keys of every command's --json. For the demo they come from the trace."""
_ROOM = 1.2
"""Factor of disk space: the store is about as large as the files."""


@dataclass
class Story:
    """One run of the demo."""

    folder: Path
    say: Callable[[str], None]
    progress: bool | None = None
    """A progress argument, as in `reporting`."""
    quick: bool = False
    """Use a sixtieth of the data, for tests."""

    def tell(self) -> dict[str, Any]:
        """Runs every step; returns its results.

        Raises:
            DataError: if the disk is too full, or if a step fails.
        """
        scale, limit = (1, "8MiB") if self.quick else (SCALE, LIMIT)
        begun = time.monotonic()
        self._room(450_000_000 if not self.quick else 10_000_000)
        self.say("A tapered cylinder sheds vortices, faster at its thin end: six zones, as PLOT3D files.")
        files = self.folder / ("taper-small" if self.quick else "taper")
        was_there = files.is_dir()
        grid, solution = demo.make_in(files, "taper", scale=scale, progress=self.progress)
        size = grid.stat().st_size + solution.stat().st_size
        made = "made before" if was_there else f"generated in {time.monotonic() - begun:.1f} s"
        self.say(f"   {grid}\n   {solution}\n   {format_bytes(size)}, {made}")
        self.say(f"\nEverything from here on runs within {limit}{_compared(size, _bytes(limit))}.")
        store = self.folder / "taper.zarr"
        lines, picture = self.folder / "taper.vtp", self.folder / "taper.png"
        common = ["--memory-limit", limit]
        self.say("\n1. Convert it to a store of pages (optional: PLOT3D files are paged where they lie, too)")
        converted = self._run("convert", f"{grid}+q={solution}", store, "--overwrite", *common)
        self.say(
            f"   {format_bytes(converted['bytes_out'])} in {converted['wall_s']:.1f} s, holding "
            f"{format_bytes(converted['peak_bytes'])} at most"
        )
        self.say("\n2. Trace a rake of three ribbons through it: the pages on their way are read, and no others")
        traced = self._run("trace", store, "--seeds", RAKE, "--scalars", SCALARS, "-o", lines, *common)
        pages = traced["pages"]
        share = 100.0 * pages["touched"] / max(1, pages["total"])
        self.say(
            f"   {traced['lines']} lines with {traced['points']:,} points in {traced['wall_s']:.2f} s\n"
            f"   touched {pages['touched']:,} of {pages['total']:,} pages ({share:.1f} %), read "
            f"{format_bytes(traced['bytes_read'])} of {format_bytes(size)}\n"
            f"   held {format_bytes(traced['peak_bytes'])} at most, under a limit of {format_bytes(traced['limit_bytes'])}"
        )
        self.say("\n3. Draw the lines beside the body")
        drawn = self._run("render", store, "--lines", lines, "--color", "velocity_magnitude", "-o", picture, *common)
        self.say(f"   {picture}: {drawn['size'][0]} x {drawn['size'][1]}, drawn in {drawn['wall_s']:.1f} s")
        self.say(f"\nDone in {time.monotonic() - begun:.0f} s. Look at {picture}, then try:")
        for words in self._next(store):
            self.say("   " + _as_typed(words))
        return {
            "folder": str(self.folder),
            "bytes": size,
            "convert": converted,
            "trace": traced,
            "render": drawn,
            "total_s": time.monotonic() - begun,
            **{key: traced[key] for key in RUN_KEYS},
        }

    def _next(self, store: Path) -> list[list[str]]:
        return [
            ["farfield", "info", str(store)],
            ["farfield", "probe", str(store), "2", "0.5", "4"],
            ["farfield", "trace", str(store), "--seeds", "random:2000:1", "--memory-limit", "32MiB", "-o", "lines.npz"],
            ["farfield", "render", str(store), "--size", "3840x2160", "--view", "-y", "-o", "side.png"],
            ["python", "-c", f"import farfield as ff; print(ff.open({str(store)!r}))"],
        ]

    def _room(self, needed: int) -> None:
        # Checked before the folder is made, so that a refusal leaves no empty folder.
        place = self.folder.absolute()
        try:
            there = next(folder for folder in (place, *place.parents) if folder.exists())
            free = shutil.disk_usage(there).free
            if free < needed * 2 * _ROOM:
                raise DataError(
                    f"{self.folder}: the demo needs {format_bytes(needed * 2 * _ROOM)} of disk space and there are "
                    f"{format_bytes(free)}; name another folder with --dir"
                )
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{self.folder}: cannot use this folder: {error.strerror or error}") from error

    def _run(self, *words: str | os.PathLike[str]) -> dict[str, Any]:
        arguments = [os.fspath(w) for w in words]
        self.say("   $ " + shlex.join(["farfield", *arguments]))
        quiet = ["--no-progress"] if self.progress is False else []
        done = subprocess.run(
            [sys.executable, "-m", "farfield", *arguments, "--json", *quiet],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise _failure(done.returncode, arguments)
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def _as_typed(words: Sequence[str]) -> str:
    """A command quoted for a shell. An argument with single quotes gets double quotes, unless a shell would expand it.

    >>> print(_as_typed(["python", "-c", "print('a b')"]), _as_typed(["cat", "a b"]), _as_typed(["echo", "it's $5"]))
    python -c "print('a b')" cat 'a b' echo 'it'"'"'s $5'
    """
    return " ".join(f'"{w}"' if "'" in w and not set(w) & set('"$`\\!') else shlex.quote(w) for w in words)


def _compared(size: int, limit: int) -> str:
    """Text that compares the limit with the size of the data.

    >>> _compared(400, 64), _compared(60, 80)
    (', a sixth of the data', '; without --small the data are several times larger than the limit')
    """
    parts = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth", 6: "a sixth", 7: "a seventh", 8: "an eighth"}
    times = round(size / limit)
    if times < 2:
        return "; without --small the data are several times larger than the limit"
    return f", {parts[times]} of the data" if times in parts else f", {times} times less than the data"


def _failure(code: int, arguments: Sequence[str]) -> FarfieldError:
    """The error of a failed step, with the step's exit code. The step has printed its own message to stderr."""
    text = f"farfield {arguments[0]} ended with exit code {code}; its own message stands above"
    return {4: MemoryLimitError(text), 130: Interrupted(text)}.get(code, DataError(text))


def _bytes(limit: str) -> int:

    return parse_bytes(limit)
