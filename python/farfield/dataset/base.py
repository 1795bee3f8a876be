"""What open datasets of every kind can do."""

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
    """An open dataset, of whatever kind: its memory, its fields, its planes, its picture."""

    _native: Any
    """The extension's session."""

    @property
    @abstractmethod
    def _name(self) -> str:
        """What was opened, as it was named."""

    @abstractmethod
    def _reads(self) -> list[str]:
        """Files that it reads."""

    @abstractmethod
    def _counted(self, found: dict[str, Any]) -> dict[str, Any]:
        """A result of the extension with what was read before it opened the files."""

    @abstractmethod
    def _keys(self) -> list[str]:
        """Names that `[...]` takes."""

    @abstractmethod
    def _box(self, progress: bool | Report | None = False) -> Sequence[Sequence[float]]:
        """Lowest and highest coordinates of the selected step. Of grids that nobody looked at yet it takes a pass over them."""

    @property
    @abstractmethod
    def _slicing(self) -> Slicing:
        """How planes through it are sampled and coloured."""

    def _preview_field(self) -> str | None:
        """The field of a small picture; None: what a slice has where none is named."""
        return None

    def _logged(self) -> str | None:
        """The log of events, written up to now; None where none is kept."""
        return None

    def __setattr__(self, name: str, value: Any) -> None:
        # What is misspelt would be without effect, and nobody told.
        if not name.startswith("_") and not isinstance(getattr(type(self), name, None), property):
            raise AttributeError(f"a dataset has no attribute '{name}' that can be set; memory_limit can")
        super().__setattr__(name, value)

    @property
    @abstractmethod
    def fields(self) -> list[str]:
        """Names of its fields: stored and derived ones of zones, channels of volumes."""

    @property
    @abstractmethod
    def n_points(self) -> int:
        """Points of all zones, or voxels of the level, of one time step.

        >>> import farfield as ff
        >>> ff.open("demo:box").n_points, ff.open("demo:phantom").n_points
        (66297, 286720)
        """

    @property
    def bounds(self) -> tuple[float, float, float, float, float, float]:
        """Lowest and highest x, y and z of the selected step, in the order of PyVista, in the unit of positions.

        Of a volume they are the centres of its outermost voxels. Boxes of zones are kept in few digits: they may reach beyond the
        outermost points by a hundredth of their coordinates.

        Raises:
            UsageError: if no point has coordinates that are numbers.

        >>> import farfield as ff
        >>> ff.open("demo:box").bounds, ff.open("demo:phantom").bounds
        ((0.0, 1.0, 0.0, 1.0, 0.0, 1.0), (0.0, 157.5, 0.0, 197.5, 0.0, 165.0))
        """
        (x0, y0, z0), (x1, y1, z1) = self._box()
        return x0, x1, y0, y1, z0, z1

    @abstractmethod
    def to_xarray(self) -> Any:
        """The data as xarray has them, read when numbers are asked for."""

    @abstractmethod
    def to_pyvista(self) -> Any:
        """The data as PyVista has them, within the memory limit."""

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
        """A plane sampled at the middles of pixels, as an array with its place.

        Args:
            normal: Across the plane: `"x"`, `"y"`, `"z"` or three numbers; its sign does not matter. In the picture x grows to the
                right wherever it can. In pictures of anatomy the patient's left is on the right, or the back in planes without it.
            origin: A point of the plane; None for the middle of the data.
            up: What is up, as far as it lies in the plane; None for z, or y where the plane faces z. Of volumes None is the head or
                the front of anatomy, and the first row of images (TIFF, PNG, OME-Zarr and the like).
            extent: Left, right, bottom and top edge, as distances from the origin; None for the whole cross-section.
            size: Width and height in pixels; None for 1024 along the longer side.
            resolution: Edge of a pixel, in place of the size.
            field: What is sampled: a field or channel, or several. None: of volumes all channels, or those of the view.
            level: Of a volume's resolution, 0 the finest; None for that of the view, and of the whole volume for one that suits the
                pixels.
            nearest: Whether a pixel takes a volume's nearest voxel. Otherwise values are interpolated, but those of labels.
            convention: Of anatomy `"radiological"` (None: the same) or `"neurological"`, its mirror image.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field.
            UsageError: if an argument makes no sense, or the plane does not meet the data.

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
        """Samples a plane at pixels and writes it: a picture (`.png`, `.jpg`, `.tif`), or its numbers (`.npy`, `.npz`); returns
        what `farfield extract slice --json` prints. A `.tif` of a volume's numbers is grey of 16 bits, unless a colour map is
        named.

        Colours (RGB, RGBA), labels and several channels at once have colours of their own where no colour map, range or grey is
        asked for.

        Args:
            output: The file.
            normal: As in `slice_image`, likewise origin, up, extent, size, resolution, level, nearest and convention.
            origin: There.
            up: There.
            extent: There.
            size: There.
            resolution: There.
            field: One field for a picture, any number for an archive; of a volume channels, None for all (in a picture but those
                that the file switches off).
            cmap: Colour map of a picture, any of the `cmap` package; None: viridis, of volumes grey, and red and blue about the
                middle of a field with a sign.
            range: Values of the first and the last colour; None: of a volume what its format says, else the range of the slice, as
                far on both sides of the middle of a field with a sign.
            grey16: Grey of 16 bits in place of colours.
            level: There.
            nearest: There.
            convention: There.
            bar: Whether a picture of at least 120 pixels a side has a bar that says what colours mean, or the names of its
                channels.
            letters: Whether it has letters of anatomy at its edges, and a rule where the length of a pixel is known.
            title: Text in its upper left corner; None: with a bar where a slice of grids lies, of a volume nothing.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if there is no such field or colour map.
            UsageError: if an argument makes no sense, or the plane does not meet the data.

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
        """Draws its default picture, or one of each time step, as `farfield.render` does.

        >>> import tempfile, farfield as ff
        >>> with tempfile.TemporaryDirectory() as folder, ff.open("demo:box") as ds:
        ...     ds.render(folder + "/box.png", size=(160, 90))["size"]
        [160, 90]
        """
        from farfield.pictures.drawing import render_open

        of_all = cast("Dataset", self)  # the class of all that is opened
        run = Resources(progress=progress)
        return render_open(of_all, output, size=size, frames=frames, fps=fps, resume=resume, resources=run)

    def stats(self) -> dict[str, Any]:
        """What was read and held since the dataset was opened: STATS of `farfield/_native.pyi`.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box", memory_limit="64MiB")
        >>> float(ds["density"][0, 0, 0]) > 1, ds.stats()["pages"]["touched"], ds.stats()["limit_bytes"]
        (True, 1, 67108864)
        """
        return self._counted(json.loads(self._native.stats()))

    def explain(self, *, progress: bool | Report | None = None) -> Verdict:
        """What was waited for since the dataset was opened, and what would help: printed, it is text; in a notebook a small table.

        Of a dataset of zones that was opened with `events` it is the verdict of `farfield report` on what was done so far; of
        others, what the counters say, which are always on.

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
        """The memory limit in bytes; set, it takes what `set_memory_limit` does."""
        return int(self.stats()["limit_bytes"])

    @memory_limit.setter
    def memory_limit(self, limit: str | int) -> None:
        self.set_memory_limit(limit)

    def set_memory_limit(self, limit: str | int) -> None:
        """Raises or lowers the memory limit of the open dataset.

        Raises:
            MemoryLimitError: if it is below what any run needs.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box", memory_limit="64MiB")
        >>> ds.set_memory_limit("16MiB")
        >>> ds.stats()["limit_bytes"] >> 20
        16
        """
        self._native.set_memory_limit(resolve_limit(limit))

    def close(self) -> None:
        """Gives memory back and ends the log of events; twice is fine.

        Raises:
            DataError: if the log of events could not be written whole.

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
            # Of two errors the first one says what went wrong.
            if error is None:
                raise

    def __bool__(self) -> bool:
        """An open dataset is true, however few keys it has."""
        return True

    def _ipython_key_completions_(self) -> list[str]:
        return self._keys()

    def _repr_html_(self) -> str:
        """Its `repr` with a small picture, for notebooks. The picture reads what its pixels need, within the memory limit."""
        return as_html(self)
