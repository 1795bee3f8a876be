"""What a source string means: `grid.xyz+q=sol_*.q`, `grid_*.xyz+q=sol_*.q` where the grid moves, a store's folder, a `.p3d`
file, `demo:NAME`.

>>> parse("flow.xyz+q=flow.q", check=False)
Source(path='flow.xyz', q=('flow.q',), function=(), options={}, text='flow.xyz+q=flow.q')
>>> sorted(["sol_10.q", "sol_9.q"], key=natural)
['sol_9.q', 'sol_10.q']
"""

from __future__ import annotations

import glob
import itertools
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from farfield import once
from farfield.errors import DataError, UsageError
from farfield.outputs import is_begun, not_there
from farfield.volumes import flow_map, opened_with

_PART = re.compile(r"\+(?=(?:q|f|function)=)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")
_NAMED = re.compile(r'"(?:xyz|q|function)"\s*:\s*("(?:[^"\\]|\\.)*")')
PLOT3D = ("format", "byte_order", "precision", "zones", "iblank", "dimension", "order", "kind", "dt", "define")
"""What can be said of PLOT3D files, and of their steps and fields."""
_LONGEST_P3D = 1 << 24
"""The extension reads no `.p3d` file that is longer."""


@dataclass(frozen=True)
class Source:
    """A dataset's files, with nothing left to expand."""

    path: str
    """The first grid; those of later steps are the option `grids`."""
    q: tuple[str, ...] = ()
    function: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """As `Dataset.open` of the extension takes them."""
    text: str = ""
    """What the user wrote, in one string: `parse` of it finds the same files."""
    made_of: tuple[str, ...] = field(default=(), repr=False)
    """Files of which those above were made in the cache."""
    remarks: tuple[str, ...] = field(default=(), repr=False)
    """What was taken for granted then."""
    made_steps: int = field(default=1, repr=False)
    """Time steps that they are."""
    made_zones: int = field(default=1, repr=False)
    """Zones of each step."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """Those of the remarks that whoever uses the data should hear."""
    made_format: str = field(default="VTK XML", repr=False)
    places: tuple[str, ...] = field(default=(), repr=False)
    """What every command that gives positions says of them."""
    main_field: str | None = field(default=None, repr=False)
    """The field that is meant where none is named."""
    units: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Units of fields that the files say, by name: the extension knows none of these."""
    length_unit: str | None = field(default=None, repr=False)
    """That of positions likewise, where they have one."""
    time_unit: str | None = field(default=None, repr=False)

    def native(self) -> dict[str, Any]:
        """Keyword arguments that the extension's calls share."""
        return {
            "q": list(self.q) or None,
            "function": list(self.function) or None,
            "options": json.dumps(dict(self.options)),
        }

    def reads(self) -> list[str]:
        """What opening and paging it reads, files or a store's folder; also names of what is read beside them if it is there."""
        listed = _named_by(self.path)
        beside = [
            made
            for name in (self.path, *self.function, *listed)
            for suffix in (".p3d.json", ".nam")
            for made in (name + suffix, os.path.splitext(name)[0] + suffix)
        ]
        return [self.path, *self.options.get("grids", ()), *self.q, *self.function, *listed, *beside, *self.made_of]

    def without_time(self) -> Source:
        """The same, but for how long it took to read."""
        return replace(self, options={key: value for key, value in self.options.items() if key != "read_s"})

    def elsewhere(self) -> Source:
        """The same source for another process, whose working folder and cache may be others."""
        options = {key: value for key, value in self.without_time().options.items() if key != "cache_dir"}
        if "grids" in options:
            options["grids"] = [*map(os.path.abspath, options["grids"])]
        return replace(
            self,
            path=os.path.abspath(self.path),
            q=tuple(map(os.path.abspath, self.q)),
            function=tuple(map(os.path.abspath, self.function)),
            text=elsewhere(self.text) if self.text else "",
            options=options,
        )

    def there(self) -> Source:
        """What `elsewhere` gave, in that process: what was made in a cache is found, or made, in this one's."""
        if not self.made_of and not self.text.startswith("demo:"):
            return self
        made = parse(self.text)
        said = {key: value for key, value in self.options.items() if key != "grids"}
        return replace(made, options={**made.options, **said})

    def described(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """What `info` says of files that others in the cache were made of, over what was `found` in those; nothing of others."""
        if not self.made_of:
            return {}
        steps = f"{self.made_steps:,} files, a time step each" if self.made_steps > 1 else ""
        if self.made_zones > 1:
            each = f"{self.made_steps:,} time steps of " if self.made_steps > 1 else ""
            steps = f"{each}{self.made_zones:,} blocks"
        made = f"{self.made_format}{f' ({steps})' if steps else ''}, converted into the cache"
        # How the files in the cache are read is no guess, and of no interest.
        cached = [os.path.basename(name) for name in (self.path, *self.options.get("grids", ()), *self.function)]
        rest = [said for said in found.get("guessed", ()) if not any(name in said for name in cached)]
        guessed = [*self.remarks, *rest]
        return {
            "source": self.text,
            "format": made,
            "guessed": guessed,
            "notes": [*self.notes, *self.places, *found.get("notes", ())],
            **self._units_in(found),
        }

    def _units_in(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """What `info` says of units, with those that are known here."""
        more: dict[str, Any] = {}
        if self.units and "fields" in found:
            more["fields"] = [{**f, "units": self.units.get(f["name"], f["units"])} for f in found["fields"]]
        if self.length_unit is not None:
            more["length_unit"] = self.length_unit
        if self.time_unit is not None:
            more["time_units"] = self.time_unit
        return more

    def units_of_probe(self, found: Mapping[str, str]) -> dict[str, str]:
        """Units of a probe likewise."""
        here = self.units if self.length_unit is None else {**self.units, "position": self.length_unit}
        return {name: here.get(name, unit) for name, unit in found.items()}

    def with_options(
        self, *, plot3d: Mapping[str, Any] | None = None, zone_order: Iterable[str] | None = None, **options: Any
    ) -> Source:
        """The same files; options that are given win over those that are there, those of `plot3d` one by one. Its `dt` is how far
        apart the steps are, its `define` what is made of the fields.
        """
        if plot3d is not None and not isinstance(plot3d, Mapping):
            raise UsageError(
                f"plot3d is a dictionary of options such as {{'byte_order': 'big', 'dt': 0.25}}, not {plot3d!r}"
            )
        words = {**self.options.get("plot3d", {}), **(plot3d or {})}
        wrong = [key for key in words if _plain(key) not in PLOT3D]
        if wrong:
            raise UsageError(f"no PLOT3D option '{wrong[0]}'; there are: {', '.join(PLOT3D)}")
        given = {
            "dt": words.pop("dt", None),
            "define": _defined(self.options.get("define"), words.pop("define", None)),
            "plot3d": words,
            "zone_order": list(zone_order or ()),
            **options,
        }
        said = {key: value for key, value in given.items() if value not in (None, {}, [])}
        return replace(self, options={**self.options, **said})


def _defined(own: Any, given: Any) -> Any:
    """Definitions of a user with those that the files come with before them."""
    from farfield.definitions import beneath

    found = beneath({"define": given} if given else None, own)
    return None if found is None else found["define"]


def _plain(key: str) -> str:
    """An option's name without what its flag has before it."""
    return str(key).lstrip("-").replace("-", "_").removeprefix("plot3d_")


def _named_by(grid: str) -> list[str]:
    """The files that a `.p3d` file names. What lies in its comments counts too: the extension says what is wrong with it."""
    try:
        with open(grid, "rb") as file:
            if not file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
                return []
            file.seek(0)
            text = file.read(_LONGEST_P3D).decode("utf-8", errors="replace")
    except OSError:  # a store is a folder
        return []
    folder, found = os.path.dirname(grid), []
    for quoted in _NAMED.findall(text):
        try:
            found.append(os.path.join(folder, json.loads(quoted, strict=False)))
        except ValueError:  # no string after all, which the extension says
            continue
    return found


def moved(text: str, move: Callable[[str], str]) -> str:
    """A source string with `move` applied to each path in it, patterns too. What is no path stays.

    >>> moved("flow.xyz+q=sol_*.q", lambda path: "data/" + path), moved("demo:box", lambda path: "data/" + path)
    ('data/flow.xyz+q=data/sol_*.q', 'demo:box')
    """
    if text.startswith("demo:") or _SCHEME.match(text):
        return text
    # As `parse` has it: a file that is named like parts wins. It may be seen from either side of the move.
    if any(os.path.exists(os.path.expanduser(whole)) for whole in (text, move(text))):
        return move(text)
    head, *parts = _PART.split(text)
    pairs = [part.partition("=") for part in parts]
    return move(head) + "".join(f"+{key}={move(pattern)}" for key, _, pattern in pairs)


def elsewhere(text: str) -> str:
    """A source string that means the same in any working folder.

    >>> elsewhere("/data/flow.xyz+q=/data/sol_*.q"), elsewhere("demo:box")
    ('/data/flow.xyz+q=/data/sol_*.q', 'demo:box')
    """
    return moved(text, lambda path: os.path.abspath(os.path.expanduser(path)))


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key under which `sol_9` comes before `sol_10`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def expand(pattern: str, *, check: bool = True) -> list[str]:
    """Files that a pattern names, in natural order; a name without wildcards, or an existing one, is itself.

    Raises:
        DataError: if a pattern matches nothing or a file is not there.
    """
    name = os.path.expanduser(pattern)
    if os.path.exists(name):
        return [name]
    if glob.has_magic(name):
        found = sorted(glob.glob(name), key=natural)
        if not found and check:
            raise DataError(f"{pattern}: no file matches this pattern; check it with ls")
        return found
    if check:
        from farfield.volume.sniffing import split_variable

        file, variable = split_variable(name)
        if variable is not None and os.path.exists(file):
            is_empty = os.path.isfile(file) and not os.path.getsize(file)
            what = "the file is empty" if is_empty else "it is of no format whose files hold several variables"
            raise DataError(
                f"{file}: {what}, so that there is no '{variable}' in it; copy it again, or name another file"
            )
        raise not_there(pattern)
    return [name]


def parse(
    text: str | os.PathLike[str],
    *,
    q: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    function: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None = None,
    check: bool = True,
    quiet: bool = False,
) -> Source:
    """Takes a source string apart and finds its files. `check` False: without a look at the disk. What has to be converted into the
    cache first is, which is said on stderr unless `quiet`.

    Raises:
        UsageError: if the string makes no sense.
        DataError: if a file is not there.
    """
    begun = time.perf_counter(), time.process_time()
    whole = os.fspath(text)
    if not whole:
        raise UsageError("the source is empty; give a file, a store or demo:NAME")
    if whole.startswith("demo:"):
        from farfield.demo import source_of

        return source_of(whole.removeprefix("demo:"))
    if _SCHEME.match(whole):
        raise UsageError(_elsewhere(whole))
    exists = os.path.exists(os.path.expanduser(whole))
    head, *parts = [whole] if exists else _PART.split(whole)
    patterns: dict[str, list[str]] = {"q": _listed(q), "function": _listed(function)}
    for part in parts:
        key, _, value = part.partition("=")
        if not value:
            raise UsageError(f"{whole}: nothing stands after '+{key}='; write it like grid.xyz+q=sol_*.q")
        patterns["q" if key == "q" else "function"].append(value)
    paths = {key: tuple(f for p in listed for f in expand(p, check=check)) for key, listed in patterns.items()}
    if not head:
        raise UsageError(f"{whole}: the grid file is missing before '+'")
    if check and (made := uneven_zone(head, quiet=quiet)) is not None:
        if parts or q or function:
            raise UsageError(f"{whole}: {head} holds its fields itself: leave +q= and +function= away")
        return _read_since(begun, made)
    if check and not (parts or q or function) and _is_volume(head):
        from farfield.volumeflows import flow_in

        return _read_since(begun, flow_in(os.path.expanduser(head), quiet=quiet))
    grid, *grids = expand(head, check=check) or [head]
    if check and (made := converted_zones([grid, *grids], head, quiet=quiet)) is not None:
        if parts or q or function:
            raise UsageError(f"{whole}: {grid} holds its fields itself: leave +q= and +function= away")
        return _read_since(begun, made)
    if check:
        from farfield.volume import foreign

        for name in (grid, *grids, *paths["q"], *paths["function"]):
            _readable(name)
        for name in filter(os.path.isfile, (grid, *grids)):
            foreign.refuse_cells(name)
        _pair(whole, head, [grid, *grids], patterns, {key: list(files) for key, files in paths.items()})
    if grid.endswith(".p3d") and (paths["q"] or paths["function"]):
        raise UsageError(f"{grid}: a .p3d file names its q and function files itself; leave +q= away")
    said = head + "".join(f"+{key}={pattern}" for key, listed in patterns.items() for pattern in listed)
    return Source(grid, paths["q"], paths["function"], {"grids": grids} if grids else {}, said)


def _read_since(begun: tuple[float, float], made: Source) -> Source:
    """What was made of files since then, which tells the seconds that it took, and those of the processor."""
    now = time.perf_counter(), time.process_time()
    return made.with_options(read_s=[after - before for before, after in zip(begun, now, strict=True)])


def _elsewhere(address: str) -> str:
    """What is said of an address.

    >>> _elsewhere("file:///data/a.nii")
    "file:///data/a.nii: name the file by its path: '/data/a.nii'"
    """
    scheme, _, rest = address.partition("://")
    if scheme == "file":
        from urllib.parse import unquote

        return f"{address}: name the file by its path: '{unquote(rest.removeprefix('localhost'))}'"
    name = rest.partition("::")[0].rstrip("/")
    # A store is a folder of many files.
    is_folder = os.path.splitext(name)[1] in (".zarr", "")
    ways = {
        "s3": f"aws s3 cp{' --recursive' if is_folder else ''} s3://{name} {os.path.basename(name)}",
        "http": f"{'wget -r -np -nH' if is_folder else 'curl -LO'} {scheme}://{name}",
    }
    way = ways.get(scheme.removesuffix("s") if scheme == "https" else scheme)
    hint = "" if way is None else f" ({way})"
    return f"{address}: this version reads local files, not {scheme}:// addresses; copy the data here first{hint}"


def converted_zones(files: Sequence[str], text: str, *, quiet: bool) -> Source | None:
    """VTK files whose grids are zones, or a collection of them, as what is made of them in the cache; a file is a time step.
    None of other files.

    Raises:
        DataError: if one is damaged, some are of another kind, or have other fields.
        Interrupted: if the report function says so.
    """
    from farfield.volume.files import head
    from farfield.volume.sniffing import is_vtk
    from farfield.volume.vtk_collection import is_collection
    from farfield.volume.vtk_multiblock import is_multiblock, refuse_unread

    def is_of_vtk(name: str) -> bool:
        start = head(name, 4096) if os.path.isfile(name) else b""
        return bool(start) and (is_collection(start) or is_multiblock(start) or is_vtk(name))

    if not any(is_of_vtk(name) for name in files):
        return None
    from farfield.volume.vtk_collection import steps_named
    from farfield.volume.vtk_zones import is_zone

    remarks: list[str] = []
    left_out: list[str] = []
    steps = steps_named(files, remarks, left_out)
    parts = [part.file for step in steps for part in step.parts]
    if not any(os.path.isfile(name) and is_vtk(name) for name in parts):
        if len(files) == 1 and os.path.isfile(parts[0]) and b'type="UnstructuredGrid"' in head(parts[0], 4096):
            refuse_unread(text, parts[0], "part")
        return None
    # What is volumes alone, one a step, is left to those who read them; none of them reads lists of blocks.
    if not left_out and all(len(s.parts) == 1 and not s.listed_in for s in steps) and not any(map(is_zone, parts)):
        return None
    others = [name for name in parts if not is_vtk(name)]
    if others:
        refuse_unread(text, others[0], "part")
        raise DataError(
            f"{text}: {others[0]} is no grid of VTK, as others of its files are; name those that go together"
        )
    from farfield.volume.vtk_series import series_of

    made = series_of(steps, quiet=quiet)
    more: dict[str, Any] = {"grids": list(made.grids[1:])} if made.grids[1:] else {}
    if made.times:
        more["times"] = list(made.times)
    if made.untimed:
        more["untimed"] = made.untimed
    if made.define:
        more["define"] = [f"{name} = {of}" for name, of in made.define.items()]
    return Source(
        made.grids[0],
        (),
        made.functions,
        more,
        text,
        made.made_of,
        (*left_out, *made.places, *remarks, *made.remarks),
        len(steps),
        made.zones,
        (*remarks, *made.notes),
        made.format,
        places=(*left_out, *made.places),
    )


def uneven_zone(source: str, *, quiet: bool) -> Source | None:
    """An array of NetCDF, HDF5 or Zarr on uneven coordinates, as what is made of it in the cache; None of others.

    Raises:
        DataError: if it is damaged, or the disk is full.
        Interrupted: if the report function says so.
    """
    from farfield.volume.options import Options
    from farfield.volume.sniffing import of_coordinates, split_variable

    path, variable = split_variable(os.path.expanduser(source))
    kind = of_coordinates(path) if os.path.isfile(path) or os.path.isdir(path) else None
    if kind is None:
        return None
    from farfield.volume.rectilinear import as_plot3d, is_zone

    if not is_zone(path, Options(variable=variable), kind):
        return None
    from farfield.progress import reporting
    from farfield.settings import Settings
    from farfield.volume.options import Means

    with reporting(False if quiet else None) as report:
        settings = Settings()
        means = Means(
            settings["cache_dir"],
            report,
            None if quiet else once.to_stderr,
            settings.memory_limit(),
            settings.cache_limit(),
        )
        made = as_plot3d(path, variable, kind, means)
    more: dict[str, Any] = {}
    remarks = list(made.remarks)
    if made.times:
        more["times"] = list(made.times)
    names = {"hdf5": "HDF5 or NetCDF-4", "netcdf3": "NetCDF classic", "zarr": "Zarr"}
    return Source(
        made.grid,
        (),
        made.functions,
        more,
        source,
        made.made_of,
        tuple(remarks),
        1,
        1,
        (),
        f"{names[kind]} on uneven coordinates",
        tuple(made.places),
        made.main_field,
        made.units,
        made.length_unit,
        made.time_unit,
    )


def _pair(
    whole: str, head: str, grids: list[str], patterns: Mapping[str, list[str]], found: Mapping[str, list[str]]
) -> None:
    """Refuses files of patterns whose numbers do not go together: which is whose step would be a guess.

    Files that are named one by one are taken in their order.
    """
    lists = {
        "grid": (grids, [head]),
        "q": (found["q"], patterns["q"]),
        "function": (found["function"], patterns["function"]),
    }
    numbered = {}
    for what, (files, given) in lists.items():
        numbers = numbers_of(files) if len(given) == 1 and len(files) > 1 else None
        if numbers is not None:
            numbered[what] = dict(zip(numbers, files, strict=True))
    kinds = list(numbered)
    for one, other in itertools.pairwise(kinds):
        alone = [f for n, f in numbered[one].items() if n not in numbered[other]]
        alone += [f for n, f in numbered[other].items() if n not in numbered[one]]
        if alone:
            few = ", ".join(os.path.basename(f) for f in alone[:4]) + (
                f" and {len(alone) - 4} more" if len(alone) > 4 else ""
            )
            raise UsageError(
                f"{whole}: the {one} and the {other} files are not numbered alike: {few} {'has' if len(alone) == 1 else 'have'} no "
                f"partner of the same number; name files that go together alike, or give them one by one in the order of their "
                f"steps (in Python, as lists)"
            )


def numbers_of(files: Iterable[str]) -> list[int] | None:
    """The number of each file of a series: where the names are alike but for one number, each with another one.

    >>> numbers_of(["run2/sol_8.q", "run2/sol_09.q", "run2/sol_10.q"]), numbers_of(["a.q", "b.q"]), numbers_of(["1_1.q", "2_2.q"])
    ([8, 9, 10], None, None)
    """
    parts = [re.split(r"(\d+)", os.path.basename(f)) for f in files]
    if len({(len(p), *p[::2]) for p in parts}) != 1:
        return None
    numbers = [[int(n) for n in p[1::2]] for p in parts]
    vary = [n for n, column in enumerate(zip(*numbers, strict=True)) if len(set(column)) > 1]
    found = [row[vary[0]] for row in numbers] if len(vary) == 1 else []
    return found if found and len(set(found)) == len(found) else None


def _is_volume(source: str) -> bool:
    from farfield.volume.sniffing import is_volume

    return is_volume(source)


def _readable(name: str) -> None:
    """A pipe would be waited for for ever; a folder that is no store is not damaged: it is none."""
    from farfield.volume.sniffing import format_of

    if (os.path.isdir(name) or os.path.isfile(name)) and format_of(name) is not None:
        raise UsageError(
            f"{name}: this is a volume, and this command takes datasets of zones; 'farfield info' and 'farfield probe' take volumes"
        )
    if os.path.isdir(name):
        if is_begun(name):
            raise DataError(
                f"{name}: this is no store yet but of a conversion that still runs or was interrupted; "
                "its command with --resume completes it"
            )
        if not os.path.exists(os.path.join(name, "zarr.json")):
            inside = sorted(os.listdir(name))
            if any(entry.lower().endswith(".dcm") for entry in inside):
                raise DataError(
                    f"{name}: none of its .dcm files begins as DICOM does: they were cut off, or have no preamble; copy them "
                    "again, or write them with one (dcmconv)"
                )
            held = f"it holds {inside[0]}{' and others' if len(inside) > 1 else ''}" if inside else "it is empty"
            raise DataError(
                f"{name}: nothing in this folder is read ({held}): a store has a zarr.json, .zgroup or .zarray, a volume "
                "DICOM files or numbered images; give one of these, or a file"
            )
        if flow_map(name) is not None:
            raise DataError(
                f"{name}: this is a flow map, which 'farfield flowmap' has written, and no dataset: it is not drawn or traced "
                f"through; 'farfield info' says what it holds, and {opened_with(name)} opens it in Python"
            )
    elif os.path.exists(name) and not os.path.isfile(name):
        raise DataError(f"{name}: this is neither a file nor a folder; copy what it gives into a file first")


def _listed(value: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | None) -> list[str]:
    if value is None:
        return []
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    return [os.fspath(v) for v in value]
