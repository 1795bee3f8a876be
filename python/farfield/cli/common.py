"""Options that every command shares, and output of results."""

from __future__ import annotations

import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farfield.errors import UsageError, without_secrets
from farfield.runtime import network, run_context
from farfield.runtime.resources import NAMES, Resources
from farfield.runtime.settings import REPLACEMENT, Settings

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset
    from farfield.volume.dataset import VolumeDataset

RUN = "Run"
PLOT3D = "PLOT3D files that sniffing does not settle"
VOLUME = "Volumes whose files do not say it, or say it wrong"


@dataclass
class Common:
    """Values of the shared options."""

    flags: dict[str, Any] = field(default_factory=dict)
    """Settings given as flags."""
    plot3d: dict[str, Any] = field(default_factory=dict)
    """Options of PLOT3D files, `dt`, and definitions of fields."""
    zone_order: list[str] | None = None
    volume: dict[str, Any] = field(default_factory=dict)
    """Options of a volume's file."""
    events: str | None = None
    json: bool = False
    no_progress: bool = False
    verbose: int = 0
    quiet: bool = False
    command: str = ""
    """Name of the command, if it matters."""

    def settings(self, **more: Any) -> Settings:
        """Settings with these flags; `more` are the command's own."""
        return Settings({**self.flags, **more})

    def progress(self, settings: Settings) -> bool | None:
        """The argument of `reporting`: False, or None for a bar on a terminal."""
        return False if self.no_progress or self.quiet or not settings["progress"] else None

    def resources(self, settings: Settings) -> Resources:
        """Resources, log and progress of the command's run."""
        self._note_settings(settings)
        return Resources(settings, self.events, self.progress(settings))

    def _note_settings(self, settings: Settings) -> None:
        if self.verbose:
            for name in NAMES:
                self.note(f"{name} = {settings[name]} ({settings.origin(name)})")

    def run(self, settings: Settings) -> dict[str, Any]:
        """Arguments that functions of a run share."""
        self._note_settings(settings)
        return {
            **settings.resources(replacement=False),
            "events": self.events,
            "progress": self.progress(settings),
        }

    def open(self, source: str, settings: Settings, *, writes: str | None = None, reads: Sequence[str] = ()) -> Dataset:
        """Opens the dataset with the options. `writes` is the command's output, `reads` are its further inputs."""
        from farfield.flow.opening import open_source
        from farfield.results import outputs
        from farfield.sources.parsing import parse

        if self.volume:
            raise UsageError(
                f"{source}: not a dataset of zones, as this command needs here; remove {self._said_of_volumes()}. "
                "For a volume, write triangles (.vtp), or draw it with 'farfield render'"
            )
        resources = self.resources(settings)
        found = parse(source, quiet=self.quiet)
        self.tell_places(found.places)
        # Opening creates the log of events, so its name is checked first.
        outputs.check([writes, self.events], [*found.reads(), *reads])
        return open_source(found, resources, plot3d=self.plot3d, zone_order=self.zone_order)

    def open_volume(self, source: str, settings: Settings, *, tells: bool = True) -> VolumeDataset | None:
        """Opens the volume of a source with the options; None for a dataset of zones. `tells`: print assumptions about
        it on stderr."""
        from farfield.volume.formats.detection import is_volume
        from farfield.volume.formats.options import Options

        options = Options.of(self.volume)
        if not is_volume(source, options):
            if self.volume:
                raise UsageError(f"{source}: not a volume; remove {self._said_of_volumes()}")
            return None
        if self.plot3d or self.zone_order:
            raise UsageError(f"{source}: a volume has no zones; remove the options of PLOT3D files")
        from farfield.volume.opening import open_volume

        opened = open_volume(source, self.resources(settings), options=options, quiet=self.quiet, tell=tells)
        if tells:
            self.tell_guessed(opened.path, opened._spec["guessed"])
        return opened

    def tell_places(self, sentences: Sequence[str]) -> None:
        """Prints notes about positions on stderr, for every command that gives positions; `info` lists them as
        guesses."""
        for sentence in sentences if self.command != "info" else ():
            self.say(sentence)

    def _said_of_volumes(self) -> str:
        return f"--{next(iter(self.volume)).replace('_', '-')} (or --raw)"

    def tell_assumed(self, files: Sequence[str]) -> None:
        """Prints a note on stderr if the order of numbers in `files` is a guess without evidence (`order_assumed` of
        `info`)."""
        if files and not self.quiet:
            more = f" and {len(files) - 2:,} more files" if len(files) > 2 else ""
            print(
                f"farfield: note: that the numbers of {' and '.join(files[:2])}{more} are in WHOLE order is only assumed: the "
                "values do not tell it from PLANES; if results make no sense, try --plot3d-order planes; "
                '--plot3d-order whole, or an "order" in NAME.p3d.json, ends this note',
                file=sys.stderr,
            )

    def say(self, text: str) -> None:
        """Prints a note on stderr."""
        if not self.quiet:
            run_context.to_stderr(without_secrets(text))

    def tell_guessed(self, source: str, sentences: Sequence[str]) -> None:
        """Prints assumptions about a volume on stderr. Values that many files omit, such as the size of a voxel, are in
        `info` only."""
        for sentence in sentences:
            if not sentence.startswith(("it does not say ", "nothing names ")):
                self.say(f"{source}: {sentence}")

    def tell(self, info: Mapping[str, Any]) -> None:
        """Prints assumptions on stderr: orders of numbers and of files; for a volume, those of its reader."""
        if info.get("what") == "volume":
            self.tell_guessed(info["source"], info["guessed"])
            return
        self.tell_assumed(info["order_assumed"])
        for sentence in info["notes"]:
            self.say(sentence)

    def note(self, text: str) -> None:
        """Prints a line on stderr with -v."""
        if self.verbose:
            print(f"farfield: {text}", file=sys.stderr)

    def show(self, result: Mapping[str, Any], lines: Sequence[str]) -> None:
        """Prints the result on stdout, as one JSON object or as lines of text, and warnings on stderr."""
        for warning in () if self.quiet else result.get("warnings", ()):
            print(f"farfield: warning: {warning}", file=sys.stderr)
        if self.json:
            print(without_secrets(json.dumps(_strict(result), allow_nan=False)))
        elif lines and not self.quiet:
            print(without_secrets("\n".join(lines)))


def _option(*names: str, help: str, panel: str = RUN, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


_RUN: dict[str, Any] = {
    "memory_limit": Annotated[
        str | None, _option("--memory-limit", metavar="SIZE", help="2GiB, 64KiB, or a share: 50% (default)")
    ],
    "workers": Annotated[int | None, _option("--workers", min=0, help="computing threads, at most; 0: one per core")],
    "readers": Annotated[
        int | None, _option("--readers", min=0, help="reads in flight; 0: a number that suits the source")
    ],
    "replacement": Annotated[
        str | None,
        _option("--replacement", metavar="POLICY", help=f"{', '.join(REPLACEMENT)} (default: {REPLACEMENT[0]})"),
    ],
    "cache_size": Annotated[
        str | None,
        _option("--cache-size", metavar="SIZE", help="largest size of the cache: 50GiB, or a share of its disk (20%)"),
    ],
    "network_cache": Annotated[
        str | None,
        _option("--network-cache", metavar="SIZE", help="pages of servers on this disk: 10GiB (default), 0: none"),
    ],
    "offline": Annotated[
        bool | None, _option("--offline", help="use only what is kept of servers", show_default=False)
    ],
    "events": Annotated[
        str | None,
        _option(
            "--events",
            metavar="FILE",
            help="write a log of events: FILE for report and replay; .json for Perfetto, .parquet",
        ),
    ],
}
_OUTPUT: dict[str, Any] = {
    "json": Annotated[bool, _option("--json", help="print one JSON object")],
    "no_progress": Annotated[bool, _option("--no-progress", help="no progress bar")],
    "verbose": Annotated[
        int, _option("--verbose", "-v", count=True, show_default=False, help="print more; twice: tracebacks")
    ],
    "quiet": Annotated[bool, _option("--quiet", "-q", help="print only errors")],
}
_PLOT3D: dict[str, tuple[tuple[str, ...], str]] = {
    "format": (("fortran", "binary", "ascii"), "how numbers are written"),
    "byte_order": (("little", "big"), "byte order"),
    "precision": (("32", "64"), "bits of a number"),
    "zones": (("single", "multi"), "whether files start with the number of zones"),
    "iblank": (("yes", "no"), "whether the grid has iblank"),
    "dimension": (("2", "3"), "coordinates of a point"),
    "order": (("whole", "planes"), "all x, then all y; or plane by plane"),
    "kind": (("grid", "q", "function"), "kind of file, if in doubt"),
}
"""Options of the PLOT3D reader with their values, under the names in its messages."""


def _plot3d_option(key: str) -> Any:
    words, about = _PLOT3D[key]
    flag = "--plot3d-" + key.replace("_", "-")
    return Annotated[str | None, _option(flag, metavar="|".join(words), panel=PLOT3D, help=about)]


_DEFINE = Annotated[
    list[str] | None,
    _option(
        "--define",
        metavar="'NAME = EXPRESSION'",
        help="a derived field, such as \"speed_kn = to(magnitude(velocity), 'kn')\"; repeatable",
    ),
]


_ZONE_ORDER = Annotated[str | None, _option("--zone-order", metavar="A,B,...", help="zones in the order of search")]


_DT = Annotated[
    float | None,
    _option("--dt", panel=PLOT3D, help="time between steps, for files without times; the first is at 0"),
]


def _volume_option(flag: str, metavar: str, about: str, kind: Any = str) -> Any:
    return Annotated[kind | None, _option(flag, metavar=metavar, panel=VOLUME, help=about)]


_VOLUME: dict[str, Any] = {
    "volume_shape": _volume_option(
        "--shape", "XxYxZ", "voxels along x, y and z of raw numbers, x fastest: 512x512x300"
    ),
    "volume_dtype": _volume_option("--dtype", "TYPE", "type of raw numbers: uint8, int16, float32, ..."),
    "volume_byte_order": _volume_option("--byte-order", "little|big", "byte order of raw numbers"),
    "volume_header_bytes": _volume_option(
        "--header-bytes", "N", "bytes before raw numbers; -1: all bytes before the last numbers", int
    ),
    "volume_components": _volume_option("--components", "N", "raw numbers per voxel: 3 are red, green, blue", int),
    "volume_spacing": _volume_option("--spacing", "X,Y,Z", "distances between voxels"),
    "volume_origin": _volume_option("--origin", "X,Y,Z", "position of the first voxel's centre"),
    "volume_length_unit": _volume_option("--length-unit", "UNIT", "unit of spacing and origin: mm, um, ..."),
    "volume_kind": _volume_option("--kind", "KIND", "scalar, rgb, rgba, channels or labels"),
    "volume_component": _volume_option(
        "--component", "PART", "part of complex numbers: magnitude (default), real, imag or phase"
    ),
    "volume_missing": _volume_option(
        "--missing",
        "N,...",
        "stored numbers that mean no value, such as -9999 or 0,250..255; never shown",
    ),
}
_RAW = Annotated[
    str | None,
    _option(
        "--raw",
        metavar="'NAME=VALUE ...'",
        panel=VOLUME,
        help="shape, dtype, byte-order, header-bytes, components, spacing, origin, length-unit, kind, missing, component, invert: "
        "'shape=512x512x300 dtype=uint16'",
    ),
]
"""The same options as one, for commands with other options of these names."""
_VOLUME_KEYS = [key.removeprefix("volume_") for key in _VOLUME]


def command(
    app: typer.Typer,
    name: str,
    *,
    source: bool = True,
    run: bool = True,
    replacement: bool = True,
    fields: bool = True,
    volume: bool = False,
    raw: bool = False,
    **more: Any,
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Registers a command whose first parameter is a `Common`.

    Options by kind of command: `run` for a memory limit and so on; `source` for opening a dataset; `replacement` for
    paging; `fields` for definitions of fields; `volume` for volumes. `raw` is for volumes, too, if the command has other
    options of these names: it adds only --raw.
    """
    groups: dict[str, Any] = {}
    if run:
        groups |= {k: v for k, v in _RUN.items() if replacement or k != "replacement"}
    groups |= _OUTPUT
    if source:
        groups |= {f"plot3d_{key}": _plot3d_option(key) for key in _PLOT3D}
        groups |= {"dt": _DT, "zone_order": _ZONE_ORDER} | ({"define": _DEFINE} if fields else {})

    if volume:
        groups |= _VOLUME
    if volume or raw:
        groups |= {"raw": _RAW}

    def register(function: Callable[..., int | None]) -> Callable[..., int | None]:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        def call(**values: Any) -> int | None:
            shared = {key: values.pop(key) for key in groups}
            common = _common(shared)
            network.use_flags(shared)
            with run_context.run(quiet=bool(shared["quiet"])):
                done = function(common, **values)
            if (notice := network.notice()) is not None:
                common.say(notice)
            return done

        defaults = {"json": False, "no_progress": False, "verbose": 0, "quiet": False}
        shared_parameters = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(key), annotation=hint)
            for key, hint in groups.items()
        ]
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        call.__signature__ = inspect.Signature([*own, *shared_parameters])  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in [*own, *shared_parameters]}
        call.__name__, call.__doc__ = function.__name__, function.__doc__
        app.command(name, **more)(call)
        return function

    return register


def _common(shared: Mapping[str, Any]) -> Common:
    if shared["quiet"] and shared["verbose"]:
        raise UsageError("-q and -v exclude each other; give one of them")
    plot3d = {}
    for key, (words, _) in _PLOT3D.items():
        value = shared.get(f"plot3d_{key}")
        if value is None:
            continue
        if value not in words:
            raise UsageError(f"--plot3d-{key.replace('_', '-')}: '{value}' is none of {', '.join(words)}")
        plot3d[key] = value
    if (dt := shared.get("dt")) is not None:
        if not math.isfinite(dt):
            raise UsageError(f"--dt: the steps cannot be {dt} apart; it must be a positive number")
        plot3d["dt"] = dt
    if define := shared.get("define"):
        plot3d["define"] = list(define)
    order = shared.get("zone_order")
    volume = {key: shared[f"volume_{key}"] for key in _VOLUME_KEYS if shared.get(f"volume_{key}") is not None}
    if raw := shared.get("raw"):
        from farfield.volume.formats.options import Options

        for key, value in Options.named(raw).items():
            if key in volume:
                raise UsageError(f"--raw and --{key.replace('_', '-')} both give {key}; give one of them")
            volume[key] = value
    return Common(
        flags={k: shared.get(k) for k in ("memory_limit", "workers", "readers", "replacement", "cache_size")},
        plot3d=plot3d,
        zone_order=names(order) if order else None,
        volume=volume,
        events=shared.get("events"),
        json=shared["json"],
        no_progress=shared["no_progress"],
        verbose=shared["verbose"],
        quiet=shared["quiet"],
    )


def names(text: str | None) -> list[str]:
    """`a,b` as a list.

    >>> names("mach, pressure"), names(None)
    (['mach', 'pressure'], [])
    >>> names("gradient(pressure),dot(velocity, vorticity)")
    ['gradient(pressure)', 'dot(velocity, vorticity)']
    """
    parts, depth = [""], 0
    for c in text or "":
        depth += (c in "([") - (c in ")]")
        if c == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _strict(value: Any) -> Any:
    """A result in strict JSON: null for NaN, words for infinities.

    >>> _strict({"a": [1.5, float("nan")], "b": float("-inf")})
    {'a': [1.5, None], 'b': '-inf'}
    """
    if isinstance(value, Mapping):
        return {key: _strict(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result with the keys of its `stats`, as `--json` prints it.

    >>> flat({"lines": 2, "stats": {"reads": 1, "pages": {"total": 9}}})
    {'lines': 2, 'reads': 1, 'pages': {'total': 9}}
    """
    own = {key: value for key, value in result.items() if key != "stats"}
    stats = dict(result.get("stats") or {})
    if isinstance(own.get("pages"), dict) and isinstance(stats.get("pages"), dict):
        stats["pages"] = {**stats["pages"], **own["pages"]}
    return {**own, **stats}


def names_them(source: str | None) -> str:
    """Advice that lists unreadable files and pages.

    >>> print(names_them("my scan.tif"))
    'farfield validate "my scan.tif"' names them
    """
    text = source or "SRC"
    if any(c.isspace() or c in "*?" for c in text):
        text = f'"{text}"'
    return f"'farfield validate {text}' names them"


def failure_lines(result: Mapping[str, Any]) -> list[str]:
    """The reason of a run's first failed page as a line, or none if unknown.

    >>> failure_lines({"failure": "a.zarr/c/0: cut off"}), failure_lines({"failure": None, "stats": {}})
    (['failure  a.zarr/c/0: cut off'], [])
    """
    why = result.get("failure") or result["stats"].get("failure")
    return [f"failure  {why}"] if why else []


def stats_lines(stats: Mapping[str, Any]) -> list[str]:
    """The reads and memory of a run, in lines of text."""
    from farfield.runtime.sizes import format_bytes

    pages = stats["pages"]
    share = 100.0 * pages["touched"] / pages["total"] if pages["total"] else 0.0
    lines = [
        f"pages    {pages['touched']:,} of {pages['total']:,} touched ({share:.1f} %), {pages['faults']:,} faults; "
        f"{format_bytes(stats['bytes_read'])} in {stats['reads']:,} reads",
        f"memory   peak {format_bytes(stats['peak_bytes'])} of a limit of {format_bytes(stats['limit_bytes'])} "
        f"(base, the program itself before the data, beside it: {format_bytes(stats['base_bytes'])})",
        f"time     {stats['wall_s']:.2f} s, {stats['cpu_s']:.2f} s of it computing on all cores, "
        f"{stats['wait_s']:.2f} s waiting",
    ]
    lines[1:1] = fill_lines(stats)
    return lines


def fill_lines(stats: Mapping[str, Any]) -> list[str]:
    """The number of never-written chunks in a run as a line, or none.

    >>> fill_lines({"pages": {"fills": 1, "never_written": 0}})
    ["fill     1 chunk was never written, or lost: the format's fill value stands there"]
    """
    # The format defines values of unwritten chunks, so lost ones look the same.
    fills = max(stats["pages"].get("fills", 0), stats["pages"].get("never_written", 0))
    if not fills:
        return []
    chunks = "1 chunk was" if fills == 1 else f"{fills:,} chunks were"
    return [f"fill     {chunks} never written, or lost: the format's fill value stands there"]
