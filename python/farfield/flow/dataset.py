"""Open datasets of zones.

Indices of arrays in Python count from 0 and run [k, j, i], as in storage and in xarray. The `ijk` of `probe` and of
the command line count from 1, as in PLOT3D.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from farfield import _core
from farfield.dataset.base import OpenDataset
from farfield.dataset.contours import joined
from farfield.dataset.indexing import Index
from farfield.dataset.kinds import OF_VOLUMES
from farfield.errors import UsageError
from farfield.flow import definitions
from farfield.flow.arrays import multiblock, structured_grid, zone_dataset, zones_tree
from farfield.flow.flow_maps import FlowMaps
from farfield.flow.particle_options import options_text, step_numbers
from farfield.flow.pathlines import OverTime
from farfield.flow.probes import Probe, probe_of
from farfield.flow.seeds import file_of, resolve
from farfield.flow.vortex_cores import VortexCores
from farfield.flow.zones import Field, Zone
from farfield.pictures.flow_slices import FlowSlicing
from farfield.pictures.slices import Slicing
from farfield.results import outputs
from farfield.results.lines import MOST_STEPS, Lines
from farfield.runtime.progress import Report, reporting
from farfield.sources.source import Source
from farfield.times.steps import gaps_text

if TYPE_CHECKING:
    from farfield.volume.abilities import VolumeAbilities as _OfVolumes
else:
    _OfVolumes = object

Path = str | os.PathLike[str]


@dataclass
class _Known:
    """State that a dataset shares with its views: a field defined on one exists on all."""

    info: dict[str, Any] | None = None
    defined: dict[str, str] = field(default_factory=dict)
    """Fields that users defined after opening."""
    implied: dict[str, str] = field(default_factory=dict)
    """Fields that Farfield defines."""
    events: str | None = None
    """The log of events, or None."""
    given: dict[str, Any] = field(default_factory=dict)
    """Settings given at opening. They take precedence over the settings of the machine that loads a pickle."""


class Dataset(OpenDataset, OverTime, FlowMaps, VortexCores, _OfVolumes):
    """A dataset of zones, or a view of some of its time steps. It reads on demand; a `repr` reads nothing.

    A pickle holds the names of the files and the options of opening. Loading it opens the dataset again, with its own
    pages, memory limit and threads, and without a log of events. A forked process opens it again, too.

    >>> import farfield as ff
    >>> print(ff.open("demo:box"))
    <farfield.Dataset demo:box: PLOT3D, Fortran unformatted, little-endian, float32>
      zones (1, 66,297 points):
        zone1        49 x 41 x 33, iblank
      fields: density, momentum, energy
      derived: velocity, velocity_x, ...
      times: 1
    """

    _native: _core.Dataset

    def __init__(self, native: _core.Dataset, source: Source, reopened: Callable[..., Dataset]) -> None:
        self._native = native
        self._source = source
        self._reopened = reopened
        """Opens the dataset of a loaded pickle."""
        self._known = _Known()

    if not TYPE_CHECKING:  # type checkers see the members of both kinds

        def __getattr__(self, name: str) -> Any:
            way = "; volumes have it, and this is a dataset of zones" if name in OF_VOLUMES else ""
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{way}", name=name, obj=self)

    @property
    def _name(self) -> str:
        return self._source.text or self._source.path

    def _reads(self) -> list[str]:
        return self._source.reads()

    def _counted(self, found: dict[str, Any]) -> dict[str, Any]:
        return found

    @property
    def _slicing(self) -> Slicing:
        return FlowSlicing(self)

    def _sampled(self) -> list[str]:
        zones = [set(zone) for zone in self.zones.values()]
        return [f["name"] for f in self.info()["fields"] if not f["derived"] and all(f["name"] in of for of in zones)]

    def _preview_field(self) -> str | None:
        components = {f["name"]: int(f["components"]) for f in self.info()["fields"]}
        return min(self._sampled(), key=components.__getitem__, default=None)

    def _logged(self) -> str | None:
        return self._known.events if self._known.events is not None and self._native.flush_events() else None

    def __reduce__(self) -> tuple[Any, ...]:
        known = self._known
        return self._reopened, (self._source.elsewhere(), known.given, dict(known.defined), self._steps, self._one)

    def info(self, *, ranges: bool = False, progress: bool | Report | None = None) -> dict[str, Any]:
        """The JSON of `farfield info --json`. With `ranges`, one pass of bounded memory finds the unknown ranges and
        boxes.

        >>> import farfield as ff
        >>> info = ff.open("demo:box").info()
        >>> info["dimension"], [zone["dims"] for zone in info["zones"]], info["fields"][0]["name"]
        (3, [[49, 41, 33]], 'density')
        """
        if self._known.info is None or ranges:
            with reporting(progress if ranges else False) as report:
                found = json.loads(self._native.info(ranges=ranges, progress=report))
            for known in found["fields"]:
                if known["name"] in self._known.implied:
                    known |= {"long_name": "speed", "defined": False}
            self._known.info = found | self._source.described(found)
        return self._known.info

    @property
    def zones(self) -> Mapping[str, Zone]:
        """Zones by name, in file order.

        >>> import farfield as ff
        >>> list(ff.open("demo:taper").zones)
        ['zone1', 'zone2', 'zone3', 'zone4', 'zone5', 'zone6']
        """
        return {z["name"]: Zone(self, z) for z in self.info()["zones"]}

    def define(self, name: str, expression: str | None = None) -> None:
        """Adds a derived field, whose pages are made on demand.

        `define("twice = 2 * mach")`, the form of the command line, equals `define("twice", "2 * mach")`.

        Raises:
            UsageError: if the expression is invalid, or if the name exists.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box")
        >>> ds.define("twice", "2 * density")
        >>> bool(ds["twice"][0, 0, 0] == 2 * ds["density"][0, 0, 0])
        True
        """
        wanted = definitions.texts(name if expression is None else {name: expression})
        self._native.define(wanted)
        self._known.defined |= definitions.mapping(wanted)
        self._known.info = None

    def _defined(self) -> dict[str, str]:
        """Fields that users defined, at opening and after."""
        return {**definitions.mapping(self._source.options.get("define")), **self._known.defined}

    @property
    def fields(self) -> list[str]:
        """Names of stored and derived fields, first those that every zone has; of a volume, its channels."""
        return [f["name"] for f in self.info()["fields"]]

    @property
    def n_points(self) -> int:
        """Number of points of all zones, or of voxels of a volume's level, in one time step."""
        return sum(int(np.prod(z["dims"])) for z in self.info()["zones"])

    def _box(self, progress: bool | Report | None = False) -> Sequence[Sequence[float]]:
        with reporting(progress) as report:
            zones = json.loads(self._native.look(step=self._step or 0, progress=report))["zones"]
        found = joined([z["box"] for z in zones])
        if found is None:
            raise UsageError(f"{self._name}: no point has finite coordinates, so there are no bounds")
        return found

    def _view(self) -> Dataset:
        view = Dataset(self._native, self._source, self._reopened)
        view._known = self._known
        return view

    def __repr__(self) -> str:
        info = self.info()
        points = sum(int(np.prod(z["dims"])) for z in info["zones"])
        rows = [f"<farfield.Dataset {self._source.text or self._source.path}: {info['format']}>"]
        rows.append(f"  zones ({len(info['zones'])}, {points:,} points):")
        for z in info["zones"][:8]:
            blank = ", iblank" if z["iblank"] else ""
            rows.append(f"    {z['name']:<12} {' x '.join(map(str, z['dims']))}{blank}")
        if len(info["zones"]) > 8:
            rows.append(f"    ... {len(info['zones']) - 8} more")
        stored = [f["name"] for f in info["fields"] if not f.get("derived")]
        derived = [f["name"] for f in info["fields"] if f.get("derived")]
        rows.append(f"  fields: {', '.join(stored) or 'none'}")
        if derived:
            rows.append(f"  derived: {', '.join(derived)}")
        rows.append(f"  times: {self._all_of_them()}{self._selected()}")
        return "\n".join(rows)

    def _all_of_them(self) -> str:
        """Number and times of all steps, for a `repr`."""
        info = self.info()
        times, unit = info["times"], info.get("time_units")
        if len(times) < 2:
            return str(len(times))
        if info.get("times_counted"):
            return f"{len(times)}, only numbered: nothing says when they are (plot3d={{'dt': ...}} does)"
        gaps = gaps_text(info)
        missing = f", gaps: {gaps}" if gaps else ""
        return f"{len(times)}, {times[0]:g} to {times[-1]:g}{f' [{unit}]' if unit else ''}{missing}"

    def _selected(self) -> str:
        """The selected steps, for a `repr`."""
        steps = self._steps
        if steps is None or self._one:
            return "" if steps is None else f", at step {steps[0]}"
        stride = "" if steps.step == 1 else f", every {steps.step}th"
        return f", steps {steps[0]} to {steps[-1]}{stride}"

    def probe(self, position: Sequence[float], *, fields: Sequence[str] | None = None) -> Probe | None:
        """Values, units, zone and ijk at a position; None outside of all zones. `fields` None: all fields.

        Blanked cells count as outside.

        >>> import farfield as ff
        >>> round(ff.open("demo:box").probe((0.5, 0.5, 0.5)).values["density"], 6)
        1.2
        """
        where = np.asarray(position, dtype=np.float64)
        if where.shape not in ((2,), (3,)) or not np.isfinite(where).all():
            raise UsageError(f"a position is two or three finite numbers, not {position!r}")
        self._need_all_three(where, "X Y Z")
        x, y, z = (*where.tolist(), 0.0)[:3]
        return self._probed(self._native.probe((x, y, z), fields=fields, step=self._step or 0))

    def _probed(self, text: str) -> Probe | None:
        found = probe_of(text)
        return None if found is None else replace(found, units=self._source.units_of_probe(found.units))

    def probe_ijk(
        self,
        zone: str | Sequence[float],
        ijk: Sequence[float] | None = None,
        *,
        fields: Sequence[str] | None = None,
    ) -> Probe | None:
        """As `probe`, at a 1-based place in the computational space of a zone; fractions are valid. For one zone or a
        volume, the place suffices: `probe_ijk((3, 4, 5))`.

        The cell may be blanked, or have a corner with values of another zone; then the result has a `note`.

        >>> import farfield as ff
        >>> hole = ff.open("demo:taper").probe_ijk("zone6", (7, 9, 1), fields=["density"])
        >>> hole.note
        'the cell is blanked out'
        """
        name: Any = zone
        place: Any = ijk
        if ijk is None and not isinstance(zone, str):
            zones = list(self.zones)
            if len(zones) != 1:
                raise UsageError(
                    f"the dataset has {len(zones)} zones; name one, as in probe_ijk('{zones[0]}', {zone!r})"
                )
            name, place = zones[0], zone
        try:
            where = np.asarray(place, dtype=np.float64)
        except (TypeError, ValueError):
            where = np.empty(0)
        if where.shape not in ((2,), (3,)) or not np.isfinite(where).all():
            raise UsageError(f"ijk are two or three finite numbers, not {place!r}")
        self._need_all_three(where, "I J K")
        i, j, k = (*where.tolist(), 1.0)[:3]
        return self._probed(self._native.probe_ijk(name, (i, j, k), fields=fields, step=self._step or 0))

    def _need_all_three(self, where: NDArray[np.float64], form: str) -> None:
        if len(where) == 2 and self.info()["dimension"] == 3:
            raise UsageError(f"the data are 3-D: a place in them is {form}, not {where.tolist()}")

    def streamlines(
        self,
        vectors: str = "velocity",
        *,
        seeds: ArrayLike | str | os.PathLike[str],
        integration_direction: str = "both",
        integrator: str = "rk45",
        initial_step: float | None = None,
        max_step: float | None = None,
        max_steps: int | None = 2000,
        max_length: float | None = None,
        max_time: float | None = None,
        tolerance: float = 1e-6,
        terminal_speed: float | None = None,
        scalars: Sequence[str] = (),
        stop: str | None = None,
        steps: str | slice | Sequence[int] | None = None,
        progress: bool | Report | None = None,
    ) -> Lines:
        """Traces streamlines.

        Args:
            vectors: The vector field.
            seeds: An array (N, 3) or (N, 2), a `.npy`, `.csv` or `.vtp` file, or a specification of the command line:
                `"random:100:1"`, `"line:0,0,0:0,1,0:50"`, `"ijk:zone1:1-9,2,1-33/5"`, ... The memory limit covers all
                seeds but those of an array. `"random:100:1:q_criterion > 0.5"` draws seeds where a condition holds, and
                fewer if few cells meet it.
            integration_direction: `"forward"`, `"backward"` or `"both"`.
            integrator: `"rk45"` with step control in computational space, `"rk45-physical"` in physical space, or
                `"rk4"` or `"euler"` with steps of `max_step`.
            initial_step: Length of the first step; None derives it from the cell.
            max_step: Longest step; None derives it from the cell.
            max_steps: Steps of a line in one direction; None for no bound. Without a bound, a closed line runs until
                `max_length`, `max_time` or the memory limit ends it.
            max_length: Length of a line in one direction; None for no bound.
            max_time: Integration time in one direction; None for no bound.
            tolerance: Local error of a step.
            terminal_speed: Speed below which a line ends. None: 1e-12 of the line's largest speed so far.
            scalars: Fields sampled along the lines (vectors too).
            stop: A condition of fields, such as `"mach > 1 and x < 2"`. A line ends at its first point that meets it,
                with the reason `stopped`; the seed and the ends of steps are tested. Both sides of a comparison are
                sampled like `scalars` and compared at the point.
            steps: Time steps, each with a line per seed: `"all"`, a slice, or numbers. `line_step` and `line_time` of
                the result hold the step of each line. None: the selected step, else the first.
            progress: As in `farfield.open`.

        Raises:
            UnknownName: if a field does not exist.
            UsageError: if an argument is invalid.
            MemoryLimitError: if the memory limit does not hold one step.

        >>> import farfield as ff
        >>> ds = ff.open("demo:box")
        >>> lines = ds.streamlines(seeds=ff.rake((0.6, 0.5, 0.3), (0.8, 0.5, 0.3), n_points=3), max_length=0.2)
        >>> sorted(set(lines.reason.tolist()))
        ['length']
        """
        spec, array = resolve(seeds)
        options = {
            "seeds": spec,
            "field": vectors,
            "step": self._step or 0,
            "direction": integration_direction,
            "integrator": integrator,
            "tolerance": tolerance,
            "initial_step": initial_step,
            "max_step": max_step,
            "max_length": max_length,
            "max_time": max_time,
            "max_steps": MOST_STEPS if max_steps is None else max_steps,
            "terminal_speed": terminal_speed,
            "scalars": scalars,
            "stop": stop,
            "steps": None if steps is None else self._of_selected(step_numbers(steps, max(1, len(self.times)))),
        }
        with reporting(progress) as report:
            return Lines(self._native.streamlines(options_text(options), seeds=array, progress=report))

    def trace(
        self,
        output: Path,
        *,
        options: Mapping[str, Any],
        seeds: NDArray[np.float64] | None = None,
        progress: bool | Report | None = None,
    ) -> dict[str, Any]:
        """Writes lines directly to a `.vtp`, `.npz`, `.parquet` or `.pvd` file, without a bound on their number;
        returns the JSON of `trace --json`.

        `options` are those of the extension: `Dataset.streamlines` in `farfield/_native.pyi`.

        >>> import tempfile, farfield as ff
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ff.open("demo:box").trace(folder + "/lines.vtp", options={"seeds": "random:9:1"})["lines"]
        9
        """
        outputs.check([output, options.get("save_state")], [*self._source.reads(), *file_of(options.get("seeds"))])
        # The saved state may replace the one that the run resumes from; `output` may not.
        outputs.check([output], [options["resume"]] if options.get("resume") else [])
        with reporting(progress) as report:
            text = self._native.trace(options_text(options), os.fspath(output), seeds=seeds, progress=report)
        found: dict[str, Any] = json.loads(text)
        return found

    def _keys(self) -> list[str]:
        zones = self.zones
        if len(zones) == 1:
            return next(iter(zones.values()))._keys()
        return [f"{name}/{key}" for name, zone in zones.items() for key in zone._keys()]

    @overload
    def __getitem__(self, name: str) -> Field: ...

    @overload
    def __getitem__(self, name: Index | tuple[Index, ...]) -> NDArray[Any]: ...

    def __getitem__(self, name: Any) -> Any:
        """A field of a dataset with one zone. With several zones: `"zone2/pressure"`, or
        `ds.zones["zone2"]["pressure"]`.

        Of a volume, an index gives an array of stored numbers, and a string gives a channel.

        Raises:
            UsageError: if there are several zones, or if the key is not a string.
            UnknownName: if there is no such field.

        >>> import farfield as ff
        >>> ff.open("demo:box")["pressure"].shape
        (33, 41, 49)
        """
        zones = self.zones
        if not isinstance(name, str):
            raise UsageError(
                f"{self._name}: a dataset of zones is asked by names of fields, as in ds['density'][0, :, 5], not by {name!r}"
            )
        zone, _, rest = name.partition("/")
        if rest and zone in zones:
            return zones[zone][rest]
        if len(zones) != 1:
            raise UsageError(
                f"the dataset has {len(zones)} zones; name one, as in ds.zones['{next(iter(zones), 'zone1')}']['{name}']"
            )
        return next(iter(zones.values()))[name]

    def __len__(self) -> int:
        """The number of names that `[...]` accepts; of a volume, the length of the first dimension."""
        return len(self._keys())

    def __iter__(self) -> Iterator[Any]:
        """The names that `[...]` accepts; of a volume, its parts along the first dimension."""
        return iter(self._keys())

    def __contains__(self, key: object) -> bool:
        return key in self._keys()

    def to_xarray(self, *, fields: Sequence[str] | None = None) -> Any:
        """An `xarray.Dataset` of one zone, or an `xarray.DataTree` of several. Numbers are read on demand.

        Dimensions are `k`, `j` and `i`, after `time` for several steps and `component` for vectors. Coordinates `x`,
        `y` and `z` are arrays over the zone. A volume gives an `xarray.DataArray`, scaled, with NaN for missing
        values.

        Args:
            fields: Names or expressions; None: the stored and the defined ones. Volumes give all channels.

        Raises:
            ImportError: if xarray is not installed.
            UnknownName: if there is no such field.
            MemoryLimitError: if a later read takes more than the memory limit.

        >>> import farfield as ff
        >>> flow = ff.open("demo:box").to_xarray(fields=["pressure"])
        >>> flow.pressure.dims, sorted(flow.coords), round(float(flow.x[0, 0, -1]), 6)
        (('k', 'j', 'i'), ['time', 'x', 'y', 'z'], 1.0)
        """
        zones = list(self.zones.values())
        return zone_dataset(zones[0], fields) if len(zones) == 1 else zones_tree(zones, fields)

    def to_pyvista(self, *, fields: Sequence[str] | None = None) -> Any:
        """A `pyvista.StructuredGrid` of one zone, a `pyvista.MultiBlock` of several, or a `pyvista.ImageData` of a
        volume. It holds one time step. Points that iblank blanks are hidden.

        Args:
            fields: Names or expressions; None: the stored ones. Volumes give all channels.

        Raises:
            ImportError: if PyVista is not installed.
            UnknownName: if there is no such field.
            MemoryLimitError: if the result takes more than the memory limit, before any read.

        >>> import farfield as ff
        >>> grid = ff.open("demo:box").to_pyvista(fields=["density"])
        >>> grid.dimensions, grid.n_points, grid.point_data.keys()[:2]
        ((49, 41, 33), 66297, ['density', 'iblank'])
        """
        zones = list(self.zones.values())
        return structured_grid(zones[0], fields) if len(zones) == 1 else multiblock(zones, fields)

    def metrics(self) -> str:
        """The counters of the open dataset in the text format of Prometheus, for programs that serve it.

        >>> import farfield as ff
        >>> text = ff.open("demo:box", memory_limit="64MiB").metrics()
        >>> [line for line in text.splitlines() if line.startswith("farfield_memory_limit_bytes")]
        ['farfield_memory_limit_bytes 67108864']
        """
        return self._native.metrics()
