"""`farfield extract slice` where it is a picture or an array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from farfield.cli.common import Common, flat, names, stats_lines
from farfield.names import field_names


def is_image(output: str) -> bool:
    """Whether a name ends as pictures and arrays do.

    >>> is_image("cut.PNG"), is_image("cut.vtp")
    (True, False)
    """
    from farfield.sliceimages import ENDINGS

    return output.lower().endswith(ENDINGS)


def slice_image(common: Common, source: str, output: str, step: int, options: Mapping[str, Any]) -> int | None:
    """Makes it; 3 where pixels cannot be read."""
    from farfield.sliceimages import write_slice

    more = {**options, "field": field_names(names(options["field"]))}
    settings = common.settings()
    with common.open(source, settings, writes=output) as dataset:
        common.tell_assumed(dataset.info()["order_assumed"])
        now = dataset.isel(time=step) if step else dataset
        result = write_slice(now, output, progress=common.progress(settings), **more)
    common.show(flat(result), _lines(result))
    return 3 if result["partial"] else None


def _lines(result: Mapping[str, Any]) -> list[str]:
    pixels, unit = result["pixels"], result["length_unit"]
    width, height = result["size"]
    left, right, bottom, top = result["extent"]
    counted = [f"{pixels['values']:,} with values", f"{pixels['outside']:,} outside"]
    if pixels["failed"]:
        counted.append(f"{pixels['failed']:,} that cannot be read ({result['failure']})")

    def numbers(values: list[float]) -> str:
        return ", ".join(f"{v:.6g}" for v in values)

    lines = [
        f"slice    {width:,} x {height:,} pixels: {', '.join(counted)}",
        f"plane    through {numbers(result['origin'])}, normal {numbers(result['normal'])}",
        f"extent   {left:.6g} to {right:.6g} along {numbers(result['right'])}, {bottom:.6g} to {top:.6g} along "
        f"{numbers(result['up'])}{f' ({unit})' if unit not in ('', '1') else ''}",
    ]
    if "level" in result:
        lines.append(f"level    {result['level']}")
    for field, (low, high) in zip(result["fields"], result.get("ranges", []), strict=False):
        lines.append(f"colours  {field['name']} from {low:.6g} to {high:.6g} {field['unit']}".rstrip())
    return [*lines, *stats_lines(result["stats"]), f"wrote    {result['output']}"]
