"""The files of a dataset, with the options to open them.

>>> Source("flow.xyz", ("flow.q",), text="flow.xyz+q=flow.q")
Source(path='flow.xyz', q=('flow.q',), function=(), options={}, text='flow.xyz+q=flow.q')
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from farfield.errors import UsageError
from farfield.flow.definitions import beneath
from farfield.flow.formats.description import Zones
from farfield.sources import places
from farfield.sources.paths import elsewhere

_NAMED = re.compile(r'"(?:xyz|q|function)"\s*:\s*("(?:[^"\\]|\\.)*")')
PLOT3D = ("format", "byte_order", "precision", "zones", "iblank", "dimension", "order", "kind", "dt", "define")
"""Options of PLOT3D files, and of their steps and fields."""
_LONGEST_P3D = 1 << 24
"""Largest size in bytes of a `.p3d` file that the extension reads."""


@dataclass(frozen=True)
class Source:
    """The files of a dataset, with all patterns expanded."""

    path: str
    """The first grid; grids of later steps are in the option `grids`."""
    q: tuple[str, ...] = ()
    function: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options in the form of the extension's `Dataset.open`."""
    text: str = ""
    """The user's text as one string: `parse` of it finds the same files."""
    made_of: tuple[str, ...] = field(default=(), repr=False)
    """Original files, if those above were made of them in the cache."""
    remarks: tuple[str, ...] = field(default=(), repr=False)
    """Assumptions of that conversion."""
    made_steps: int = field(default=1, repr=False)
    """Number of converted time steps."""
    made_zones: int = field(default=1, repr=False)
    """Number of zones in each step."""
    notes: tuple[str, ...] = field(default=(), repr=False)
    """The remarks that users of the data should see."""
    made_format: str = field(default="", repr=False)
    is_converted: bool = field(default=True, repr=False)
    """Whether the cache holds decoded numbers of those files."""
    places: tuple[str, ...] = field(default=(), repr=False)
    """Notes of every command that gives positions."""
    main_field: str | None = field(default=None, repr=False)
    """The default field."""
    units: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Units of fields in the original files, by name; the extension does not know them."""
    length_unit: str | None = field(default=None, repr=False)
    """Unit of positions in the original files, if they have one."""
    time_unit: str | None = field(default=None, repr=False)
    again: Callable[[str], Source] | None = field(default=None, repr=False, compare=False)
    """Makes the source from its text. Another process with another cache calls it again."""

    @classmethod
    def of_zones(cls, found: Zones, path: str, text: str) -> Source:
        """What a reader of a format says of files, the first of which is `path`."""
        more: dict[str, Any] = {"zones": found.document()}
        if found.define:
            more["define"] = [f"{name} = {of}" for name, of in found.define.items()]
        return cls(
            path,
            options=more,
            text=text,
            made_of=found.all_files,
            remarks=found.remarks,
            # One file may hold all steps.
            made_steps=max(1, sum(map(bool, found.files_of_steps))),
            made_zones=len(found.zones),
            notes=found.notes,
            made_format=found.format,
            is_converted=found.is_converted,
            places=found.places,
            main_field=found.main_field,
            units=found.units,
            length_unit=found.length_unit,
            time_unit=found.time_unit,
        )

    @property
    def moves(self) -> bool:
        """Whether the grid of files is another one at each step."""
        zones = self.options.get("zones", {}).get("zones", ())
        return bool(self.options.get("grids")) or any(len(zone["arrays"][0]["steps"]) > 1 for zone in zones)

    def native(self) -> str:
        """The source in the form for the extension."""
        files = {"path": self.path, "q": list(self.q), "function": list(self.function)}
        return json.dumps({**files, "options": dict(self.options)})

    def reads(self) -> list[str]:
        """What opening and paging it reads, files or a store's folder; also names of what is read beside them if it is there."""
        if "zones" in self.options:
            return [self.path, *self.made_of]
        listed = _named_by(self.path)
        beside = [
            made
            for name in (self.path, *self.function, *listed)
            for suffix in (".p3d.json", ".nam")
            for made in (name + suffix, os.path.splitext(name)[0] + suffix)
        ]
        return [self.path, *self.options.get("grids", ()), *self.q, *self.function, *listed, *beside, *self.made_of]

    def without_time(self) -> Source:
        """The same source without the duration of its reads."""
        return replace(self, options={key: value for key, value in self.options.items() if key != "read_s"})

    def there(self) -> Source:
        """Resolves a source of `elsewhere` in another process: converted files are found or made in its own cache."""
        if self.again is None or not (self.made_of or self.text.startswith("demo:")):
            return self
        made = self.again(self.text)
        said = {key: value for key, value in self.options.items() if key not in ("grids", "zones")}
        return replace(made, options={**made.options, **said})

    def elsewhere(self) -> Source:
        """The same source for another process, whose working folder and cache may be others."""
        options = {
            key: value for key, value in self.without_time().options.items() if key not in ("cache_dir", "zones")
        }
        if "grids" in options:
            options["grids"] = [*map(places.abspath, options["grids"])]
        return replace(
            self,
            path=places.abspath(self.path),
            q=tuple(map(places.abspath, self.q)),
            function=tuple(map(places.abspath, self.function)),
            text=elsewhere(self.text) if self.text else "",
            options=options,
        )

    def described(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The part of `info` about the original files of a converted source, which replaces that of the converted ones
        in `found`; empty for others."""
        if not self.made_of:
            return {}
        steps = f"{self.made_steps:,} files, a time step each" if self.made_steps > 1 else ""
        if self.made_zones > 1:
            each = f"{self.made_steps:,} time steps of " if self.made_steps > 1 else ""
            steps = f"{each}{self.made_zones:,} blocks"
        way = "converted into the cache" if self.is_converted else "paged in place"
        made = f"{self.made_format}{f' ({steps})' if steps else ''}, {way}"
        guessed = [*self.remarks, *found.get("guessed", ())]
        return {
            "source": self.text,
            "format": made,
            "guessed": guessed,
            "notes": [*self.notes, *self.places, *found.get("notes", ())],
            **self._units_in(found),
        }

    def _units_in(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The part of `info` with units, completed by the units of the original files."""
        more: dict[str, Any] = {}
        if self.units and "fields" in found:
            more["fields"] = [{**f, "units": self.units.get(f["name"], f["units"])} for f in found["fields"]]
        if self.length_unit is not None:
            more["length_unit"] = self.length_unit
        if self.time_unit is not None:
            more["time_units"] = self.time_unit
        return more

    def units_of_probe(self, found: Mapping[str, str]) -> dict[str, str]:
        """Units of a probe, completed likewise."""
        here = self.units if self.length_unit is None else {**self.units, "position": self.length_unit}
        return {name: here.get(name, unit) for name, unit in found.items()}

    def with_options(
        self, *, plot3d: Mapping[str, Any] | None = None, zone_order: Iterable[str] | None = None, **options: Any
    ) -> Source:
        """The same files with further options, which take precedence over present ones; those of `plot3d` one by one.
        `dt` in it is the time between steps, `define` the derived fields."""
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
    """Definitions of a user, preceded by those of the files."""
    found = beneath({"define": given} if given else None, own)
    return None if found is None else found["define"]


def _plain(key: str) -> str:
    """An option's name without the prefix of its flag."""
    return str(key).lstrip("-").replace("-", "_").removeprefix("plot3d_")


def _named_by(grid: str) -> list[str]:
    """The files that a `.p3d` file names. Names in comments count, too; the extension reports its errors."""
    if places.is_remote(grid):  # no output is at a server
        return []
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
        except ValueError:  # not a string; the extension reports it
            continue
    return found
