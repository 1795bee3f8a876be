"""Generated datasets: `demo:NAME` sources, and the flow of `farfield demo`."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from farfield.errors import DataError, UnknownName
from farfield.runtime.cache import note_use
from farfield.runtime.progress import Report, reporting
from farfield.runtime.settings import Settings
from farfield.sources.source import Source

_LAYOUT = 1
"""Version of the generators' bytes, a part of the folder's name; increase it when a generator changes."""


def source_of(name: str) -> Source:
    """The source `demo:NAME`, made in the cache unless it exists.

    Raises:
        UnknownName: if the demo does not exist.
        DataError: if it cannot be written.
    """
    folder = Settings()["cache_dir"] / "demo"
    grid, solution = make(name, folder, scale=1)
    note_use(grid.parent)
    return Source(str(grid), (str(solution),), (), {}, f"demo:{name}")


def make(name: str, folder: Path, *, scale: int, progress: bool | Report | None = None) -> tuple[Path, Path]:
    """Grid and q file of a demo dataset under `folder`, made unless they exist. Several processes may call it at once.

    Raises:
        UnknownName: if the demo does not exist.
        DataError: if it cannot be written.
    """
    from farfield.demo.datasets import KINDS

    if name not in KINDS:
        raise UnknownName(f"no demo named '{name}'; there are: {', '.join([*KINDS, 'phantom'])}")
    return make_in(folder / f"{name}-{scale}-v{_LAYOUT}", name, scale=scale, progress=progress)


def make_in(home: Path, name: str, *, scale: int, progress: bool | Report | None = None) -> tuple[Path, Path]:
    """As `make`, in a folder with a name of its own."""
    grid, solution = home / f"{name}.xyz", home / f"{name}.q"
    if home.is_dir():
        return grid, solution
    from farfield.demo.datasets import KINDS
    from farfield.demo.plot3d import write

    kind, folder = KINDS[name], home.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder))
    except OSError as error:
        raise DataError(
            f"{error.filename or folder}: cannot make the demo's folder: {error.strerror or error}"
        ) from error
    try:
        with reporting(progress) as report:

            def tick(done: float, total: float) -> None:
                if report is not None and not report("generating", done, total):
                    raise KeyboardInterrupt

            write(scratch / grid.name, scratch / solution.name, kind.zones(scale), header=kind.header, progress=tick)
        try:
            os.replace(scratch, home)
        except OSError:
            if not home.is_dir():  # else another process made the same bytes first
                raise
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{error.filename or home}: cannot write the demo: {error.strerror or error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return grid, solution
