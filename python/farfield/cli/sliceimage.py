"""`farfield extract slice` for pictures and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield.cli.common import Common, flat, names, stats_lines
from farfield.dataset.field_names import field_names
from farfield.results import outputs
from farfield.results.image_files import ENDINGS as PICTURES
from farfield.times.dates import moment_of, moment_text


def is_image(output: str) -> bool:
    """Whether a name has an ending of pictures or arrays.

    >>> is_image("cut.PNG"), is_image("cut.vtp")
    (True, False)
    """
    from farfield.pictures.slices import ENDINGS

    return output.lower().endswith(ENDINGS)


def slice_image(common: Common, source: str, output: str, step: int, options: Mapping[str, Any]) -> int | None:
    """Writes the slice; returns exit code 3 if pixels failed."""
    from farfield.cli import PARTIAL
    from farfield.errors import UsageError
    from farfield.scene.flags import window_of

    more = {**options, "field": field_names(names(options["field"]))}
    window, level = more.pop("window"), more["level"]
    if window is not None:
        if more["range"] is not None:
            raise UsageError("--window and --range both give the range; give one of them")
        more["range"], more["level"] = window_of(window, level), None
    elif level is not None:
        if level != int(level):
            raise UsageError(f"--level {level:g} is not a level of resolution; give a whole number, or add --window")
        more["level"] = int(level)
    if more.pop("invert") is not None:
        if not output.lower().endswith(PICTURES):
            raise UsageError(f"{output}: --invert is for pictures; an array has the numbers themselves")
        common.volume = {**common.volume, "invert": options["invert"]}
    settings = common.settings()
    volume = common.open_volume(source, settings)
    if volume is not None:
        outputs.check([output, common.events], volume._reads())
        with volume:
            now = volume.isel(time=step) if step else volume
            result = now.write_slice(output, progress=common.progress(settings), **more)
            result.update(moment_of(volume.info(), step))
    else:
        with common.open(source, settings, writes=output) as dataset:
            common.tell_assumed(dataset.info()["order_assumed"])
            flow = dataset.isel(time=step) if step else dataset
            result = flow.write_slice(output, progress=common.progress(settings), **more)
    common.show(flat(result), lines_of(result))
    return PARTIAL if result["partial"] else None


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """Lines about the slice."""
    pixels, unit = result["pixels"], result["length_unit"]
    width, height = result["size"]
    left, right, bottom, top = result["extent"]
    counted = [f"{pixels['values']:,} with values", f"{pixels['outside']:,} outside"]
    if pixels["missing"]:
        counted.append(f"{pixels['missing']:,} whose value is missing (clear in the picture)")
    if pixels["failed"]:
        counted.append(f"{pixels['failed']:,} that cannot be read ({result['failure']})")

    def numbers(values: list[float]) -> str:
        return ", ".join(f"{v:.6g}" for v in values)

    def along(side: str) -> str:
        letters = result.get("anatomy", {}).get(side)
        return numbers(result[side]) + (f" ({letters})" if letters else "")

    lines = [
        f"slice    {width:,} x {height:,} pixels: {', '.join(counted)}",
        f"plane    through {numbers(result['origin'])}, normal {numbers(result['normal'])}",
        f"extent   {left:.6g} to {right:.6g} along {along('right')}, {bottom:.6g} to {top:.6g} along "
        f"{along('up')}{f' [{unit}]' if unit not in ('', '1') else ''}",
    ]
    if (edges := result.get("edges")) is not None:
        told = ", ".join(f"{letters} {side}" for side, letters in edges.items())
        lines.append(f"edges    {told}")
    if "time_units" in result:
        lines.append(f"when     {moment_text(result)}")
    if "level" in result:
        lines.append(f"level    {result['level']}")
    for field, (low, high) in zip(result["fields"], result.get("ranges", []), strict=False):
        inverted = ", inverted: the lowest is white" if field["name"] in result.get("inverted", ()) else ""
        lines.append(f"colours  {field['name']} from {low:.6g} to {high:.6g} {field['unit']}".rstrip() + inverted)
    return [*lines, *stats_lines(result["stats"]), f"wrote    {result['output']}"]
