"""`farfield info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from farfield.cli.common import Common, command, fill_lines, flat


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "info", volume=True)
    def info(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset")],
        ranges: Annotated[
            bool,
            typer.Option("--ranges", help="find unknown ranges, boxes and walls by one pass"),
        ] = False,
    ) -> int:
        """Describe a dataset or a volume.

        Lists zones or levels, stored and derived fields, bounds, free stream, times, pages, and guesses about files.
        -v adds definitions of fields, pages of zones, and costs. Exit code 3: some pages cannot be read for the
        ranges of a volume.
        """
        from farfield.cli import PARTIAL
        from farfield.flow.flow_map_store import flow_map

        settings = common.settings()
        volume = flow_map(source)
        if volume is not None:
            common.show(volume, describe_flow_map(volume))
            return 0
        common.command = "info"
        opened = common.open_volume(source, settings, tells=False)
        if opened is not None:
            from farfield.volume.formats.files import bytes_of_chunks
            from farfield.volume.space import describe_text

            with opened:
                about = dict(opened.info(ranges=ranges, progress=common.progress(settings)))
                if about["bytes_disk"] is None:
                    # Servers are asked here alone: a picture needs no lists.
                    about["bytes_disk"] = bytes_of_chunks(opened._spec, at_servers=True)
                lines = describe_text(about, opened.space)
                if ranges:
                    about["stats"] = opened.stats()
                    lines += fill_lines(about["stats"])
                common.show(flat(about), lines)
            return PARTIAL if ranges and about["ranges_failed"] else 0
        with common.open(source, settings) as dataset:
            found = dict(dataset.info(ranges=ranges, progress=common.progress(settings)))
            if ranges:
                found["stats"] = dataset.stats()
                # These are already among the guesses.
                found["stats"]["warnings"] = [w for w in found["stats"]["warnings"] if w not in found["guessed"]]
        common.show(flat(found), describe(found, verbose=common.verbose > 0))
        return 0


def describe_flow_map(found: Mapping[str, Any]) -> list[str]:
    """A flow map as lines of text."""
    lines = [
        f"{found['source']}",
        f"format   {found['format']}, by {found['written_by']}",
        f"title    {found['title']}",
    ]
    lines.append(f"arrays   {len(found['arrays'])}")
    width = max((len(a["name"]) for a in found["arrays"]), default=0)
    for a in found["arrays"]:
        shape = " x ".join(str(n) for n in a["shape"] or [])
        unit = a["time_units"] if a["time_units"] not in (None, "", "1") else ""
        what = a["long_name"] or ""
        if a["release_time"] is not None and a["end_time"] is not None:
            what += f", {a['direction']} from {a['release_time']:g} to {a['end_time']:g} {unit}".rstrip()
        lines.append(f"  {a['name']:<{width}}  {a['dtype']}  {shape}  [{a['units'] or '1'}]  {what}".rstrip())
    lines.append(f"open     {found['open_with']} in Python; it is no dataset, and not drawn")
    return lines


MOST_ZONES = 16
"""Largest number of zones in the list without -v."""


def describe(info: Mapping[str, Any], *, verbose: bool = False) -> list[str]:
    """The catalog as lines of text."""
    from farfield.runtime.sizes import format_bytes

    zones = info["zones"]
    points = sum(z["dims"][0] * z["dims"][1] * z["dims"][2] for z in zones)
    lines = [f"{info['source']}", f"format   {info['format']}"]
    for sentence in info["guessed"]:
        lines.append(f"guessed  {sentence}")
    unit = info.get("length_unit", "grid unit")
    length = "" if unit == "grid unit" else f", positions in {unit}"
    lines.append(f"zones    {len(zones)}, {points:,} points, {info['dimension']}-D{length}")
    shown = zones if verbose or len(zones) <= MOST_ZONES else zones[: MOST_ZONES - 1]
    width = max((len(z["name"]) for z in shown), default=0)
    for z in shown:
        dims = " x ".join(str(n) for n in z["dims"])
        page = f"  pages {' x '.join(map(str, z['page']))}: {z['pages']:,}" if verbose and z.get("page") else ""
        # A zone with a known kind but no box contains no finite numbers.
        empty = "  no point has coordinates that are numbers" if z.get("kind") else ""
        box = f"  {box_text(z['box'])}" if z.get("box") else empty
        kind = f"  {z['kind']}" if z.get("kind") else ""
        lines.append(f"  {z['name']:<{width}}  {dims}{kind}{'  iblank' if z['iblank'] else ''}{page}{box}")
        lines += [f"  {'':<{width}}  {text}" for text in _uniform(z) + _blanks(z)]
    if len(shown) < len(zones):
        lines.append(f"  ... and {len(zones) - len(shown):,} more zones; -v lists them")
    lines += _bounds(zones, unit) + _flow(zones)
    # Of derived fields without definitions or ranges, the name suffices.
    brief = [
        f for f in info["fields"] if not verbose and f.get("derived") and not f.get("defined") and not f.get("range")
    ]
    listed = [f for f in info["fields"] if f not in brief]
    lines.append(f"fields   {len(info['fields'])}")
    width = max((len(f["name"]) for f in listed), default=0)
    for f in listed:
        kind = f"{f['components']} x {f['dtype']}" if f["components"] > 1 else f["dtype"]
        span = f"  {f['range'][0]:.6g} to {f['range'][1]:.6g}" if f.get("range") else ""
        how = f": {f['definition']}" if f.get("definition") and (verbose or f.get("defined")) else ""
        made = f"  derived{how}" if f.get("derived") else ""
        held = f"  in {_few(f['zones'])}" if f.get("zones") is not None else ""
        bad = _not_numbers(f, info)
        lines.append(f"  {f['name']:<{width}}  {kind:<12} [{f['units']}]{span}{bad}{held}{made}")
    if brief:
        lines.append(f"  derived: {', '.join(f['name'] for f in brief)}")
    lines += _what_ranges_are(info)
    lines.append(f"times    {_times(info)}")
    walls = info.get("walls")
    if walls:
        lines.append("walls    " + ", ".join(f"{w['zone']}:{w['axis']}={w['index']}" for w in walls))
    lines.append(
        f"pages    {info['pages']['total']:,} of about {format_bytes(info['pages']['bytes'])}, "
        f"{'with checksums' if info.get('checked') else 'unchecked (the format has no checksums)'}"
    )
    if verbose:
        lines.append(
            f"cost     {format_bytes(info['bytes_disk'])} on disk, {format_bytes(info['bytes_memory'])} if all were loaded; "
            f"traces run within {format_bytes(info['limit_least_bytes'])} or more"
        )
    if any(z.get("box") is None and not z.get("kind") for z in zones):
        # Files lack these values. The index of a grid has only rounded boxes, without blanked points.
        lines.append("ranges   not known yet, nor where the zones lie; --ranges finds both, in one pass over the data")
    return lines


def _bounds(zones: Sequence[Mapping[str, Any]], unit: str) -> list[str]:
    """The box around all zones, if there are several with known boxes."""
    boxes = [z["box"] for z in zones if z.get("box")]
    if len(zones) < 2 or not boxes or any(not z.get("box") and not z.get("kind") for z in zones):
        return []
    return [f"bounds   {box_text(box_around(boxes))} [{unit}]"]


def _flow(zones: Sequence[Mapping[str, Any]]) -> list[str]:
    """The free stream in the headers of q files, at the first time step."""
    headers = [z["header"] for z in zones if z.get("header")]
    if not headers:
        return []
    said = []
    for key, what, behind in (
        ("mach", "Mach number", ""),
        ("alpha", "angle of attack", " deg"),
        ("reynolds", "Reynolds number", ""),
        ("gamma", "gamma", ""),
    ):
        values = [h[key] for h in headers if h.get(key) is not None]
        if values:
            low, high = min(values), max(values)
            said.append(f"{what} {low:.7g}" + (f" to {high:.7g}" if low != high else "") + behind)
    return [f"flow     {', '.join(said)}"] if said else []


def _uniform(zone: Mapping[str, Any]) -> list[str]:
    """The uniform grid of a zone's points, if they form one."""
    grid = zone.get("uniform")
    if not grid:
        return []
    origin, spacing = (", ".join(f"{x:.7g}" for x in grid[key]) for key in ("origin", "spacing"))
    return [f"uniform: from ({origin}) by ({spacing})"]


def _blanks(zone: Mapping[str, Any]) -> list[str]:
    """Numbers of points by unusual iblank values of a zone."""
    unknown = set(zone.get("iblank_unknown") or [])
    others = zone.get("iblank_others") or {}
    values = [(v, n) for v, n in (zone.get("iblank_values") or {}).items() if v not in ("0", "1", "2")]
    hidden = zone.get("hidden_cells")
    lines = [f"hidden cells: {hidden:,}"] if hidden else []
    for kind, what in (("known", "iblank also"), ("unknown", "iblank unknown, counted as field:")):
        parts = [f"{v}: {n:,}" for v, n in values if (v in unknown) == (kind == "unknown")]
        if others.get(kind):
            parts.append(f"and {others[kind]:,} points of others")
        if parts:
            lines.append(f"{what} {', '.join(parts)}")
    return lines


def _what_ranges_are(info: Mapping[str, Any]) -> list[str]:
    """A note on ranges that do not cover the usable points of all time steps."""
    limits = []
    steps = len(info["times"])
    if info.get("ranges_with_blanked"):
        limits.append("of all points, blanked ones included")
    if (info.get("ranges_steps") or steps) < steps:
        limits.append(f"of the first of {steps} time steps")
    return [f"ranges   {', '.join(limits)}; --ranges looks at all usable points of all steps"] if limits else []


def _few(names: Sequence[str]) -> str:
    shown = 4
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more zones" if more > 0 else "")


def box_around(boxes: Sequence[Any]) -> list[list[float]]:
    """The lowest and highest corner of several boxes.

    >>> box_around([[[0, 0, 0], [1, 1, 1]], [[-1, 0, 0.5], [0, 2, 1]]])
    [[-1, 0, 0], [1, 2, 1]]
    """
    lows, highs = zip(*boxes, strict=True)
    return [[min(axis) for axis in zip(*lows, strict=True)], [max(axis) for axis in zip(*highs, strict=True)]]


def box_text(box: Any) -> str:
    """A box as text.

    >>> box_text([[0, -1.5, 2], [1, 1.5, 2]])
    'x 0..1 y -1.5..1.5 z 2..2'
    """
    return " ".join(f"{axis} {low:.4g}..{high:.4g}" for axis, low, high in zip("xyz", *box, strict=True))


def _not_numbers(f: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """The number of points where a field is not a number, and their steps."""
    if not f.get("not_numbers"):
        return ""
    said = f"  {f['not_numbers']:,} points are no numbers"
    steps = f.get("not_numbers_steps")
    if not steps or len(info["times"]) < 2:
        return said
    files = f.get("not_numbers_files") or ["", ""]
    first, last = (f"step {n}" + f" ({file})" * bool(file) for n, file in zip(steps, files, strict=True))
    return said + (f", at {first}" if steps[0] == steps[1] else f", first at {first}, last at {last}")


def _times(info: Mapping[str, Any]) -> str:
    from farfield.times.steps import gaps_text

    times = info["times"]
    if not times:
        return "steady"
    unit = f" [{info['time_units']}]" if info.get("time_units") else ""
    if len(times) == 1:
        return f"1: {times[0]:g}{unit}"
    if info.get("times_counted"):
        return f"{len(times)}, numbered from 0: files do not say when they are (see above; --dt does)"
    gaps = gaps_text(info)
    apart = f", {info['times_step']:.6g} apart" if info.get("times_step") else ""
    said = f"{len(times)}: {times[0]:g} to {times[-1]:g}{unit}{apart}" + (f"; gaps: {gaps}" if gaps else "")
    equal = info.get("times_equal") or []
    if equal:
        pairs = ", ".join(f"{n} and {n + 1} ({times[n]:g})" for n in equal[:3])
        said += f"; steps with the same time: {pairs}{f' and {len(equal) - 3} more' if len(equal) > 3 else ''}"
    return said
