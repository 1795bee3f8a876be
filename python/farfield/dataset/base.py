"""The base class of open datasets of every kind."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from farfield.dataset.contours import Surfaces
from farfield.dataset.notebook import as_html
from farfield.errors import FarfieldError
from farfield.pictures.slices import Plane, SliceImage, SliceStyle, Slicing, slice_image, write_slice
from farfield.runtime.progress import Report
from farfield.runtime.resources import Resources
from farfield.runtime.sizes import resolve_limit
from farfield.times.steps import TimeSteps

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.report.verdict import Verdict

Path = str | os.PathLike[str]


class OpenDataset(TimeSteps, Surfaces):
    """An open dataset of any kind: its memory, fields, planes and pictures."""

    _native: Any
    """The extension's session."""

    @property
    @abstractmethod
    def _name(self) -> str:
        """The source as the caller gave it."""

    @abstractmethod
    def _reads(self) -> list[str]:
        """Files that the dataset reads."""

    @abstractmethod
    def _counted(self, found: dict[str, Any]) -> dict[str, Any]:
        """Adds to a result of the extension the bytes that Python read before the extension opened the files."""

    @abstractmethod
    def _keys(self) -> list[str]:
        """Names that `[...]` accepts."""

    @abstractmethod
    def _box(self, progress: bool | Report | None = False) -> Sequence[Sequence[float]]:
        """Lowest and highest coordinates of the selected step. Unknown boxes of grids need a pass over their points."""

    @property
    @abstractmethod
    def _slicing(self) -> Slicing:
        """Options for sampling and colouring planes."""

    def _preview_field(self) -> str | None:
        """The field of a small picture; None: the default field of a slice."""
        return None

    def _logged(self) -> str | None:
        """The log of events up to now; None if there is none."""
        return None

    def __setattr__(self, name: str, value: Any) -> None:
        # A misspelt attribute would have no effect.
        if not name.startswith("_") and not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"a dataset has no attribute '{name}' that can be set; memory_limit can")
        super().__setattr__(name, value)

    @property
    @abstractmethod
    def fields(self) -> list[str]:
        """Names of the fields: stored and derived fields of zones, or channels of volumes."""

    @property
    @abstractmethod
    def n_points(self) -> int:
        """Number of points of all zones, or of voxels of the level, in one time step.

        >>> import farfield as ff
        >>> ff.open("demo:box").n_points, ff.open("demo:phantom").n_points
        (66297, 286720)
        """

    @property
    def bounds(self) -> tuple[float, float, float, float, float, float]:
        """Lowest and highest x, y and z of the selected step, in PyVista's order and the unit of positions.

        Bounds of a volume are the centres of its outermost voxels. Boxes of zones have few digits: they may exceed
        the outermost points by a hundredth of their coordinates.

        Raises:
            UsageError: if no point has finite coordinates.

        >>> import farfield as ff
        >>> ff.open("demo:box").bounds, ff.open("demo:phantom").bounds
        ((0.0, 1.0, 0.0, 1.0, 0.0, 1.0), (0.0, 157.5, 0.0, 197.5, 0.0, 165.0))
        """
        (x0, y0, z0), (x1, y1, z1) = self._box()
        return x0, x1, y0, y1, z0, z1

    @abstractmethod
    def to_xarray(self) -> Any:
        """The data as an object of xarray, which reads numbers on demand."""

    @abstractmethod
    def to_pyvista(self) -> Any:
        """The data as an object of PyVista, within the memory limit."""

    def slice_image(
        self,
        *,
        normal: str | Sequence[float],
        origin: str | Sequence[float] | None = None,
        up: str | Sequence[float] | None = None,
        extent: str | Sequence[float] | None = None,
        size: str | Sequence[int] | None = None,
        resolution: float | None = None,
        field: str | Sequence[str] | None = None,
        level: int | None = None,
        nearest: bool = False,
        convention: str | None = None,
        progress: bool | Report | None = None,
    ) -> SliceImage:
        """Samples a plane at the centres of pixels; returns an array with its position.

        Args:
            normal: Normal of the plane: `"x"`, `"y"`, `"z"` or three numbers; its sign does not matter. x grows to the
                right if possible. In anatomy the patient's left is on the right; in planes without left, the back is.
            origin: A point of the plane; None for the middle of the data.
            up: Upward direction, projected onto the plane. None for z, or y if the plane faces z. Anatomy has the head
                or the front up; images (TIFF, PNG, OME-Zarr and the like) have the first row up.
            extent: Left, right, bottom and top edge as distances from the origin; None for the whole cross-section.
            size: Width and height in pixels; None for 1024 pixels along the longer side.
            resolution: Edge of a pixel, instead of the size.
            field: One or more fields or channels. None: of volumes all channels, or those of the view.
            level: Level of a volume, 0 the finest. None: the view's level, or for a whole volume one that suits the
                pixels.
            nearest: Take a volume's nearest voxel. Otherwise values are interpolated, except labels.
            convention: For anatomy, `"radiological"` (the default) or `"neurological"`, its mirror image.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field.
            UsageError: if an argument is invalid, or if the plane misses the data.

        >>> import farfield as ff
        >>> cut = ff.open("demo:box").slice_image(normal="z", size=(64, 48), field="density")
        >>> cut.values.shape, cut.failed
        ((48, 64), 0)
        >>> ff.open("demo:phantom").slice_image(normal="z", size=(64, 80)).length_unit
        'mm'
        """
        plane = Plane(normal, origin, up, extent, size, resolution, field, level, nearest, convention)
        return slice_image(self, plane, progress)

    def write_slice(
        self,
        output: Path,
        *,
        normal: str | Sequence[float],
        origin: str | Sequence[float] | None = None,
        up: str | Sequence[float] | None = None,
        extent: str | Sequence[float] | None = None,
        size: str | Sequence[int] | None = None,
        resolution: float | None = None,
        field: str | Sequence[str] | None = None,
        cmap: str | None = None,
        range: str | Sequence[float] | None = None,
        grey16: bool = False,
        level: int | None = None,
        nearest: bool = False,
        convention: str | None = None,
        bar: bool = True,
        letters: bool = True,
        title: str | None = None,
        progress: bool | Report | None = None,
    ) -> dict[str, Any]:
        """Samples a plane and writes a picture (`.png`, `.jpg`, `.tif`) or numbers (`.npy`, `.npz`); returns the JSON
        of `farfield extract slice --json`. A `.tif` of a volume is grey of 16 bits, unless `cmap` is given.

        RGB, RGBA, labels and several channels have colours of their own, unless `cmap`, `range` or `grey16` is given.

        Args:
            output: Name of the file.
            normal: As in `slice_image`.
            origin: As in `slice_image`.
            up: As in `slice_image`.
            extent: As in `slice_image`.
            size: As in `slice_image`.
            resolution: As in `slice_image`.
            field: One field for a picture, any number for an archive. Of a volume channels; None: all, in a picture
                those that the file switches on.
            cmap: Colour map of a picture: a name of the `cmap` package. None: viridis; grey for volumes; red and blue
                about the middle of a signed field.
            range: Values of the first and the last colour. None: the range in a volume's format, else the range of the
                slice, symmetric about the middle of a signed field.
            grey16: Grey of 16 bits instead of colours.
            level: As in `slice_image`.
            nearest: As in `slice_image`.
            convention: As in `slice_image`.
            bar: Draw a colour bar, or the names of channels, in pictures of at least 120 pixels a side.
            letters: Draw letters of anatomy at the edges, and a scale bar if the length of a pixel is known.
            title: Text in the upper left corner. None: with a bar, the place of a slice of grids; for volumes no text.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field or colour map.
            UsageError: if an argument is invalid, or if the plane misses the data.

        >>> import tempfile, farfield as ff
        >>> with tempfile.TemporaryDirectory() as folder, ff.open("demo:box") as ds:
        ...     ds.write_slice(folder + "/cut.png", normal="z", size="64x48", field="density")["size"]
        [64, 48]
        """
        plane = Plane(normal, origin, up, extent, size, resolution, field, level, nearest, convention)
        return write_slice(self, output, plane, SliceStyle(cmap, range, grey16, bar, letters, title), progress)

    def render(
        self,
        output: Path,
        *,
        size: tuple[int, int] | None = None,
        frames: str | slice | Sequence[int] | None = None,
        fps: float | None = None,
        resume: bool = False,
        progress: bool | Report | None = None,
    ) -> dict[str, Any]:
        """Draws the default picture, or one per time step, as `farfield.render` does.

        >>> import tempfile, farfield as ff
        >>> with tempfile.TemporaryDirectory() as folder, ff.open("demo:box") as ds:
        ...     ds.render(folder + "/box.png", size=(160, 90))["size"]
        [160, 90]
        """
        from farfield.pictures.drawing import render_open

        of_all = cast("Dataset", self)  # the class of the result depends on the dataset
        run = Resources(progress=progress)
        return render_open(of_all, output, size=size, frames=frames, fps=fps, resume=resume, resources=run)

    def stats(self) -> dict[str, Any]:
        """Counters of reads and memory since the dataset was opened: STATS of `farfield/_native.pyi`.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box", memory_limit="64MiB")
        >>> float(ds["density"][0, 0, 0]) > 1, ds.stats()["pages"]["touched"], ds.stats()["limit_bytes"]
        (True, 1, 67108864)
        """
        return self._counted(json.loads(self._native.stats()))

    def explain(self, *, progress: bool | Report | None = None) -> Verdict:
        """Explains what the dataset's runs waited for, and what would help. Prints as text, and as a small table in
        notebooks.

        For a dataset of zones opened with `events`, the result is the verdict of `farfield report` so far. For others
        it comes from the counters, which are always on.

        Raises:
            DataError: if the log cannot be written or read.

        >>> import farfield as ff
        >>> with ff.open("demo:box") as ds:
        ...     lines = ds.streamlines(seeds="random:5:1")
        ...     print(ds.explain().lines[-1])
        What waited for what, and which change would save how much, is known where a log is kept: open it with events=FILE.
        """
        from farfield.report import explain
        from farfield.report.counted import counted

        log = self._logged()
        return counted(self._name, self.stats()) if log is None else explain(log, progress)

    @property
    def memory_limit(self) -> int:
        """The memory limit in bytes. Assignment accepts the values of `set_memory_limit`."""
        return int(self.stats()["limit_bytes"])

    @memory_limit.setter
    def memory_limit(self, limit: str | int) -> None:
        self.set_memory_limit(limit)

    def set_memory_limit(self, limit: str | int) -> None:
        """Raises or lowers the memory limit of the open dataset.

        Raises:
            MemoryLimitError: if the limit is below the minimum of any run.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box", memory_limit="64MiB")
        >>> ds.set_memory_limit("16MiB")
        >>> ds.stats()["limit_bytes"] >> 20
        16
        """
        self._native.set_memory_limit(resolve_limit(limit))

    def close(self) -> None:
        """Frees the memory and ends the log of events. Further calls do nothing.

        Raises:
            DataError: if the log of events could not be written completely.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box")
        >>> ds.close()
        >>> try:
        ...     ds.probe((0.5, 0.5, 0.5))
        ... except ff.UsageError as error:
        ...     print(error)
        this dataset is closed; open it again
        """
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FarfieldError:
            # The first of two errors names the cause.
            if error is None:
                raise

    def __bool__(self) -> bool:
        """True for every open dataset, even one without keys."""
        return True

    def _ipython_key_completions_(self) -> list[str]:
        return self._keys()

    def _repr_html_(self) -> str:
        """The `repr` with a small picture, for notebooks. The picture reads only the data of its pixels, within the
        memory limit."""
        return as_html(self)
