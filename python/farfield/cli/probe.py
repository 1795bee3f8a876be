"""`farfield probe`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farfield.cli.common import Common, command, fill_lines, flat, names
from farfield.errors import UsageError
from farfield.times.dates import moment_of, moment_text

if TYPE_CHECKING:
    from farfield.volume.dataset import VolumeDataset


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "probe", volume=True, context_settings={"ignore_unknown_options": True})
    def probe(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset")],
        place: Annotated[
            list[str], typer.Argument(metavar="X Y [Z] | ZONE I J [K]", help="the place; for a volume I J K")
        ],
        ijk: Annotated[
            bool, typer.Option("--ijk", help="the place is ZONE I J K, counted from 1; fractions are valid")
        ] = False,
        fields: Annotated[str | None, typer.Option("--fields", metavar="A,B,...", help="only these fields")] = None,
        step: Annotated[int, typer.Option("--step", min=0, help="time step, counted from 0")] = 0,
    ) -> int:
        """Print the values, zone and ijk at a point.

        Exit code 1 if the point is outside of all zones.
        """
        settings = common.settings()
        opened = common.open_volume(source, settings)
        if opened is not None:
            with opened:
                return _of_volume(common, source, opened, place, ijk=ijk, channels=names(fields), step=step)
        zone, where = _place(place, ijk)
        with common.open(source, settings) as dataset:
            common.tell_assumed(dataset.info()["order_assumed"])
            now = dataset.isel(time=step) if step else dataset
            wanted = names(fields) or None
            found = now.probe_ijk(zone, where, fields=wanted) if zone is not None else now.probe(where, fields=wanted)
            stats = dataset.stats()
        if found is None:
            if common.json:
                common.show(flat({"outside": True, "stats": stats}), [])
            else:
                print(f"farfield: {' '.join(place)} is in no zone of {source}", file=sys.stderr)
            return 1
        result = {
            "zone": found.zone,
            "ijk": list(found.ijk),
            "position": list(found.position),
            "note": found.note,
            "values": found.values,
            "units": found.units,
            "stats": stats,
        }
        lines = [
            f"zone      {found.zone}",
            f"ijk       {' '.join(f'{v:.6g}' for v in found.ijk)}",
            f"position  {' '.join(_number(v) for v in found.position)} [{found.units.get('position', '')}]",
        ]
        if found.note is not None:
            lines.append(f"note      {found.note}")
        width = max((len(name) for name in found.values), default=0)
        lines += [f"{n:<{width}}  {_number(v)} [{found.units.get(n, '')}]" for n, v in found.values.items()]
        common.show(flat(result), lines)
        return 0


def _of_volume(
    common: Common, source: str, volume: VolumeDataset, place: list[str], *, ijk: bool, channels: list[str], step: int
) -> int:
    """Probes a volume by position, or by voxels counted from 1."""
    try:
        where = [float(word) for word in place]
    except ValueError:
        form = "--ijk I J K" if ijk else "X Y Z"
        raise UsageError(f"'{' '.join(place)}' is not a place in a volume; write it as {form}") from None
    now = volume.isel(time=step) if step else volume
    views = [now.channel(name) for name in channels] or [now]
    found = [view.probe_ijk(where) if ijk else view.probe(where) for view in views]
    stats = volume.stats()
    first = found[0]
    if first is None:
        if common.json:
            common.show(flat({"outside": True, "stats": stats}), [])
        else:
            print(f"farfield: {' '.join(place)} is outside of {source}", file=sys.stderr)
        return 1
    values = {name: value for f in found if f is not None for name, value in f.values.items()}
    units = {name: unit for f in found if f is not None for name, unit in f.units.items()}
    notes = "; ".join(f.note for f in found if f is not None and f.note) or None
    moment = moment_of(volume.info(), step)
    result = {
        "ijk": list(first.ijk),
        "position": list(first.position),
        "orientation": volume.space.orientation(),
        **moment,
        "note": notes,
        "values": values,
        "units": units,
        "stats": stats,
    }
    axes = ", ".join(volume.space.axis_names()) if volume.anatomy is not None else ""
    lines = [
        f"ijk       {' '.join(f'{v:.6g}' for v in first.ijk)}",
        f"position  {' '.join(_number(v) for v in first.position)} [{volume.space.unit_text()}]"
        + (f"  {axes}" if axes else ""),
    ]
    if moment:
        lines.append(f"when      {moment_text(moment)}")
    if notes is not None:
        lines.append(f"note      {notes}")
    lines += [line.replace("fill ", "fill  ", 1) for line in fill_lines(stats)]
    width = max((len(name) for name in values), default=0)
    lines += [f"{n:<{width}}  {_number(v)} [{units.get(n, '')}]" for n, v in values.items()]
    common.show(flat(result), lines)
    return 0


def _place(words: list[str], ijk: bool) -> tuple[str | None, list[float]]:
    zone = words[0] if ijk else None
    rest = words[1:] if ijk else words
    form = "--ijk ZONE I J K" if ijk else "X Y Z"
    try:
        numbers = [float(word) for word in rest]
    except ValueError:
        unknown = next((w for w in words if w.startswith("-") and not _is_number(w)), None)
        if unknown is not None:
            raise UsageError(f"no such option: {unknown}; see 'farfield probe --help'") from None
        raise UsageError(f"'{' '.join(words)}' is not a place; write it as {form}") from None
    if len(numbers) not in (2, 3):
        raise UsageError(f"'{' '.join(words)}' is not a place; write it as {form} (without the last one in 2-D)")
    return zone, numbers


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:  # the test is whether it is a number
        return False
    return True


def _number(value: Any) -> str:
    if isinstance(value, list):
        return "(" + ", ".join(_number(v) for v in value) + ")"
    # A label is a name, so all its digits count.
    return str(value) if isinstance(value, int) else f"{value:.9g}"
