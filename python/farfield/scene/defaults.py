"""The picture of a dataset when nothing is said about it.

What is worth looking at depends on what there is: with a velocity, lines through the surroundings of the body (or through
the whole domain where there is none); two-dimensional data, its plane; fields without a velocity, three planes of each
zone; a bare grid, its faces with their mesh.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

from farfield.flow.dataset import Dataset
from farfield.flow.definitions import SPEED
from farfield.flow.opening import open_source
from farfield.runtime.progress import Report, reporting
from farfield.runtime.settings import Settings
from farfield.scene.models import Camera, Drawn, Lines, Outline, Scene, Surface, Trace, Vector, Walls
from farfield.sources.parsing import parse

SEEDS = 160
"""Lines of a default picture: enough to show a wake, few enough to tell them apart at 1600 x 900."""
MOST_ZONES = 64
"""A picture of faces of more zones than this is a tangle; the first ones are drawn."""
THREE_QUARTER_VIEW: Vector = (-0.42, -0.80, 0.43)
"""x runs to the right and away, z up: how flow pictures are usually shown."""
NEAR_DOMAIN = 1.7
"""A domain of at most so many times the surroundings of the body is shown as a whole, with its outlines; of a larger one the
lines show the surroundings, and outlines would only cross the picture."""
FOCUS = 0.35
"""A plane is shown as a whole unless most of its points lie in a part of it that is smaller than this."""
PLANE_COLOR = "#7d8694"
"""Of a plane without fields: it may fill the picture, and letters in light ink stand on it."""
ASPECT = 16 / 9
"""Of the default size, for which the part is chosen."""
FOCUS_MARGIN = 3.0
"""How much more than that part is then shown."""
NEEDLE = 20.0
"""A zone that is so many times longer one way than the others, such as an ocean in degrees and metres, is shown from its end: its
planes along that way are lines."""
_RANDOM_SEED = 1

Box = tuple[list[float], list[float]]


def default_scene(
    dataset: Dataset | str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    progress: bool | Report | None = None,
    lines: bool = True,
) -> Scene:
    """The default picture of an open dataset or a source. `lines` False: without traced lines.

    Raises:
        DataError: if the dataset cannot be read.

    >>> [o.kind for o in default_scene("demo:box").objects]
    ['outline', 'lines']
    """
    how: dict[str, Any] = {"plot3d": plot3d, "zone_order": zone_order, "progress": progress}
    return scene_and_info(dataset, settings, lines=lines, **how)[0]


def scene_and_info(
    dataset: Dataset | str | os.PathLike[str],
    settings: Settings | None = None,
    *,
    plot3d: Mapping[str, Any] | None = None,
    zone_order: Sequence[str] | None = None,
    progress: bool | Report | None = None,
    lines: bool = True,
) -> tuple[Scene, dict[str, Any]]:
    """As `default_scene`, with the dataset's `info`, for which whoever draws the scene would open it again."""
    if isinstance(dataset, Dataset):
        text, step = dataset._source.text or dataset._source.path, dataset._step or 0
        scene = compose(_first_look(dataset, step, progress), text, step=step, lines=lines)
        return scene.model_copy(update={"define": dataset._defined()}), dataset.info()
    text = os.fspath(dataset)
    with open_source(
        parse(text), settings or Settings(), plot3d=plot3d, zone_order=zone_order, progress=progress
    ) as opened:
        scene = compose(_first_look(opened, 0, progress), text, lines=lines)
        return scene.model_copy(update={"define": opened._defined()}), opened.info()


def _first_look(dataset: Dataset, step: int, progress: bool | Report | None) -> dict[str, Any]:
    """The dataset's `info` with the boxes of its zones and its body, which do not need a pass over the fields."""
    info = dict(dataset.info())
    has_flow = any(f["name"] in ("velocity", "momentum") for f in info["fields"])
    if not has_flow and info["dimension"] == 3 and not any(z["iblank"] for z in info["zones"]):
        return info | {"end": _end(dataset, info, step)}
    with reporting(progress) as report:
        found = json.loads(dataset._native.look(step=step, progress=report))
    boxes = {z["name"]: z["box"] for z in found["zones"]}
    return info | {
        "zones": [zone | {"box": boxes.get(zone["name"])} for zone in info["zones"]],
        "walls": found["walls"],
        "encloses": found.get("encloses", False),
        "focus": found.get("focus"),
    }


def _end(dataset: Dataset, info: Mapping[str, Any], step: int) -> tuple[str, Vector] | None:
    """Of a dataset of one zone that is a needle: the surface at its end, and the direction from there to the eye. Of two ends it is
    the one that lies farther along its axis: the upper one."""
    if len(info["zones"]) != 1 or min(info["zones"][0]["dims"]) < 2:
        return None
    zone = info["zones"][0]

    def node(*at: int) -> list[float]:
        found = json.loads(dataset._native.probe_ijk(zone["name"], *map(float, at), fields=[], step=step))
        return [float(x) for x in found.get("position") or (math.nan,) * 3]

    first, dims = node(1, 1, 1), zone["dims"]
    last = [node(*(dims[a] if a == n else 1 for a in range(3))) for n in range(3)]
    lengths = [math.dist(first, place) for place in last]
    along = max(range(3), key=lengths.__getitem__)
    if not lengths[along] > NEEDLE * max(length for n, length in enumerate(lengths) if n != along) > 0:
        return None
    way = [b - a for a, b in zip(first, last[along], strict=True)]
    axis = max(range(3), key=lambda a: abs(way[a]))
    at = "end" if way[axis] > 0 else "1"
    x, y, z = (float(n == axis) for n in range(3))
    return f"{zone['name']}:{'ijk'[along]}={at}", (x, y, z)


def compose(info: Mapping[str, Any], source: str, *, step: int = 0, lines: bool = True) -> Scene:
    """The default scene of a dataset of which this is the `info`."""
    names = [f["name"] for f in info["fields"]]
    objects: list[Drawn]
    if is_flat(info):
        return _flat(info, names, source, step, lines)
    objects = [Walls(cut=bool(info.get("encloses")))] if info.get("walls") else []
    if "velocity" in names:
        if _is_near(info):
            objects.append(Outline())
        if lines:
            color = SPEED if SPEED in names else None
            objects += [Lines(trace=trace, color=color) for trace in _traces(info)]
    elif names and info.get("end"):
        surface, direction = info["end"]
        up = (0.0, 1.0, 0.0) if direction[2] else (0.0, 0.0, 1.0)
        camera = Camera(direction=direction, up=up, projection="orthographic")
        shown = [*objects, Surface(surface=surface, color=first_scalar(info))]
        return Scene(source=source, step=step, objects=shown, camera=camera)
    elif names:
        objects += [Surface(surface=s, color=first_scalar(info)) for s in _planes(info["zones"], middle=True)]
    elif not objects:
        objects = [Surface(surface=s, mesh=True) for s in _planes(info["zones"], middle=False)]
    return Scene(
        source=source, step=step, objects=objects, camera=Camera(direction=THREE_QUARTER_VIEW, up=(0.0, 0.0, 1.0))
    )


def is_flat(info: Mapping[str, Any]) -> bool:
    """Whether the dataset is one surface a zone."""
    return info["dimension"] == 2 or all(min(z["dims"]) == 1 for z in info["zones"])


def _flat(info: Mapping[str, Any], names: Sequence[str], source: str, step: int, lines: bool) -> Scene:
    color = "mach" if "mach" in names else first_scalar(info)
    drawn: list[Drawn] = []
    for zone in info["zones"]:
        axis = "ijk"[2 - list(reversed(zone["dims"])).index(1)] if 1 in zone["dims"] else "k"
        plain = PLANE_COLOR if info["dimension"] == 2 else None
        drawn.append(Surface(surface=f"{zone['name']}:{axis}=1", color=color or plain, mesh=color is None))
    if info.get("walls"):
        # In 2-D the body is a line, which nothing else would show.
        drawn.append(Walls())
    if info["dimension"] != 2:
        camera = Camera(direction=THREE_QUARTER_VIEW, up=(0.0, 0.0, 1.0))
        return Scene(source=source, step=step, objects=drawn, camera=camera)
    camera, shown = _face_on(info)
    if lines and "velocity" in names:
        if shown is None:
            drawn.append(Lines(trace=Trace(seeds=f"interest:{SEEDS // 2}:{_RANDOM_SEED}")))
        else:
            # Thin, so that the field can be seen between them.
            seeds = _scatter(*shown, count=SEEDS // 3)
            drawn.append(Lines(trace=Trace(seeds=seeds), radius=_diagonal(shown) * 7e-4 or None))
    return Scene(source=source, step=step, objects=drawn, camera=camera)


def _face_on(info: Mapping[str, Any]) -> tuple[Camera, Box | None]:
    """The view of a plane, and the part of it that is seen: where most points are, if that is a small part of the whole."""
    view = {"direction": (0.0, 0.0, 1.0), "up": (0.0, 1.0, 0.0), "projection": "orthographic"}
    domain, focus = _boxes(info, "zones"), info.get("focus")
    if domain is None or not focus or not 0 < math.dist(*focus) < FOCUS * _diagonal(domain):
        return Camera.model_validate(view), domain
    middle = [0.5 * (a + b) for a, b in zip(*focus, strict=True)]
    width, height, _ = (FOCUS_MARGIN * (b - a) for a, b in zip(*focus, strict=True))
    camera = Camera.model_validate(view)
    distance = max(height, width / ASPECT) / (2.0 * math.tan(math.radians(0.5 * camera.fov_deg)))
    high = max(height, width / ASPECT)
    low_high = [
        [c + sign * 0.5 * reach for c, reach in zip(middle, (high * ASPECT, high, 0.0), strict=True)]
        for sign in (-1, 1)
    ]
    seen = (
        [max(a, d) for a, d in zip(low_high[0], domain[0], strict=True)],
        [min(b, d) for b, d in zip(low_high[1], domain[1], strict=True)],
    )
    return Camera.model_validate({**view, "target": middle, "distance": distance}), seen


def first_scalar(info: Mapping[str, Any]) -> str | None:
    """The field that a picture without lines shows: pressure if there is one, else the first scalar, else the first."""
    fields = info["fields"]
    names = [f["name"] for f in fields]
    if "pressure" in names:
        return "pressure"
    # What a vector has across the plane of a flat dataset is mostly nothing.
    across = {f"{name}_z" for name in names} if info["dimension"] == 2 else set()
    scalars: list[str] = [f["name"] for f in fields if f["components"] == 1]
    shown = [name for name in scalars if name not in across] or scalars or names
    return shown[0] if shown else None


def _planes(zones: Sequence[Mapping[str, Any]], *, middle: bool) -> list[str]:
    found = []
    for zone in zones[:MOST_ZONES]:
        for axis, points in zip("ijk", zone["dims"], strict=True):
            if points > 1 or min(zone["dims"]) > 1:
                found.append(f"{zone['name']}:{axis}={(points + 1) // 2 if middle else 1}")
    return found


def _traces(info: Mapping[str, Any]) -> list[Trace]:
    """Lines through the surroundings of the body, on into its wake and some way back; where there is no body, or it is a room
    around the flow, lines from where the flow changes."""
    anywhere = f"interest:{SEEDS}:{_RANDOM_SEED}"
    domain, body = _boxes(info, "zones"), _boxes(info, "walls")
    if domain is None:
        return [Trace(seeds=anywhere)]
    whole = _diagonal(domain) or None
    if body is None or info.get("encloses"):
        return [Trace(seeds=anywhere, max_length=whole)]
    seeds = _scatter(*_near(body, _margin(body), domain), count=SEEDS)
    if _is_near(info):
        return [Trace(seeds=seeds, max_length=whole)]
    return [
        Trace(seeds=seeds, direction="forward", max_length=_reach(body) or None),
        Trace(seeds=seeds, direction="backward", max_length=_margin(body) or None),
    ]


def _boxes(info: Mapping[str, Any], key: str) -> Box | None:
    boxes = [x["box"] for x in info.get(key) or [] if x.get("box")]
    return _union(boxes) if boxes else None


def _is_near(info: Mapping[str, Any]) -> bool:
    """Whether the whole domain is worth showing: there is no body, or the domain is not much larger than its surroundings."""
    domain, body = _boxes(info, "zones"), _boxes(info, "walls")
    return domain is None or body is None or _diagonal(domain) <= NEAR_DOMAIN * (_reach(body) + _diagonal(body))


def _reach(body: Box) -> float:
    """How far lines go on behind the body."""
    return 0.75 * _diagonal(body) + 2.0 * _margin(body)


def _diagonal(box: Box) -> float:
    return math.dist(*box)


def _union(boxes: Sequence[Sequence[Sequence[float]]]) -> Box:
    return (
        [min(b[0][n] for b in boxes) for n in range(3)],
        [max(b[1][n] for b in boxes) for n in range(3)],
    )


def _margin(body: Box) -> float:
    """The mean of the two smaller widths of the body's box: what flows by within it has felt the body."""
    widths = sorted(b - a for a, b in zip(*body, strict=True))
    return 0.5 * (widths[0] + widths[1]) or 0.5 * widths[2]


def _near(body: Box, margin: float, domain: Box) -> Box:
    """The body's box, wider by `margin` on each side, but not beyond the domain."""
    low = [max(a - margin, d) for a, d in zip(body[0], domain[0], strict=True)]
    high = [min(b + margin, d) for b, d in zip(body[1], domain[1], strict=True)]
    return low, high


def _scatter(low: Sequence[float], high: Sequence[float], *, count: int) -> str:
    """The rule of points that fill a box evenly."""
    corners = (",".join(map(repr, map(float, corner))) for corner in (low, high))
    return f"scatter:{':'.join(corners)}:{count}"
