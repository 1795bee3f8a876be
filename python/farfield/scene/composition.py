"""The default picture of a dataset.

Its content depends on the fields. With a velocity: lines around the body, or through the whole domain without one.
Two-dimensional data: the plane. Fields without a velocity: three planes per zone. A bare grid: its faces with their
mesh.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from farfield.flow.definitions import SPEED
from farfield.runtime.progress import Report, reporting
from farfield.scene.models import Camera, Drawn, Lines, Outline, Scene, Surface, Trace, Vector, Walls

if TYPE_CHECKING:
    from farfield.flow.dataset import Dataset

SEEDS = 160
"""Lines of a default picture: enough to show a wake, few enough to distinguish at 1600 x 900."""
MOST_ZONES = 64
"""Largest number of zones whose faces are drawn; more would be a tangle."""
THREE_QUARTER_VIEW: Vector = (-0.42, -0.80, 0.43)
"""x runs to the right and away, z up: the usual view of flow pictures."""
NEAR_DOMAIN = 1.7
"""Largest ratio of domain to surroundings of the body at which the whole domain is shown, with its outlines. In a
larger domain, lines show the surroundings, and outlines would only cross the picture."""
FOCUS = 0.35
"""A plane is shown whole unless most of its points are in a part smaller than this share."""
PLANE_COLOR = "#7d8694"
"""Colour of a plane without fields: it may fill the picture and must contrast with light letters."""
ASPECT = 16 / 9
"""Aspect ratio of the default size, which the choice of the part assumes."""
FOCUS_MARGIN = 3.0
"""Factor by which the view exceeds that part."""
NEEDLE = 20.0
"""Ratio of lengths from which a zone is shown from its end. An ocean in degrees and metres is an example: planes along
its length would appear as lines."""
_RANDOM_SEED = 1

Box = tuple[list[float], list[float]]


def scene_of(
    dataset: Dataset, *, text: str | None = None, progress: bool | Report | None = None, lines: bool = True
) -> tuple[Scene, dict[str, Any]]:
    """The default scene of an open dataset of zones, and its `info`. `text` replaces the dataset's name. `lines` False
    omits traced lines.

    >>> import farfield as ff
    >>> [o.kind for o in scene_of(ff.open("demo:box"))[0].objects]
    ['outline', 'lines']
    """
    step = dataset._step or 0
    scene = compose(_first_look(dataset, step, progress), text or dataset._name, step=step, lines=lines)
    return scene.model_copy(update={"define": dataset._defined()}), dataset.info()


def _first_look(dataset: Dataset, step: int, progress: bool | Report | None) -> dict[str, Any]:
    """The dataset's `info` with the boxes of its zones and its body. It needs no pass over the fields."""
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
    """For one zone with the shape of a needle: the surface at its end, and the direction from there to the eye. Of the
    two ends, the one with the higher coordinate."""
    if len(info["zones"]) != 1 or min(info["zones"][0]["dims"]) < 2:
        return None
    zone = info["zones"][0]

    def node(*at: int) -> list[float]:
        found = json.loads(
            dataset._native.probe_ijk(zone["name"], (float(at[0]), float(at[1]), float(at[2])), fields=[], step=step)
        )
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
    """The default scene of a dataset with this `info`."""
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
    """Whether each zone of the dataset is a single surface."""
    return info["dimension"] == 2 or all(min(z["dims"]) == 1 for z in info["zones"])


def _flat(info: Mapping[str, Any], names: Sequence[str], source: str, step: int, lines: bool) -> Scene:
    color = "mach" if "mach" in names else first_scalar(info)
    drawn: list[Drawn] = []
    for zone in info["zones"]:
        axis = "ijk"[2 - list(reversed(zone["dims"])).index(1)] if 1 in zone["dims"] else "k"
        plain = PLANE_COLOR if info["dimension"] == 2 else None
        drawn.append(Surface(surface=f"{zone['name']}:{axis}=1", color=color or plain, mesh=color is None))
    if info.get("walls"):
        # In 2-D the body is a line, and no other object shows it.
        drawn.append(Walls())
    if info["dimension"] != 2:
        camera = Camera(direction=THREE_QUARTER_VIEW, up=(0.0, 0.0, 1.0))
        return Scene(source=source, step=step, objects=drawn, camera=camera)
    camera, shown = _face_on(info)
    if lines and "velocity" in names:
        if shown is None:
            drawn.append(Lines(trace=Trace(seeds=f"interest:{SEEDS // 2}:{_RANDOM_SEED}")))
        else:
            # Thin lines leave the field between them visible.
            seeds = _scatter(*shown, count=SEEDS // 3)
            drawn.append(Lines(trace=Trace(seeds=seeds), radius=_diagonal(shown) * 7e-4 or None))
    return Scene(source=source, step=step, objects=drawn, camera=camera)


def _face_on(info: Mapping[str, Any]) -> tuple[Camera, Box | None]:
    """The view of a plane and the visible part of it. The part is where most points are, if it is a small share of the
    whole."""
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
    """The field of a picture without lines: pressure if it exists, else the first scalar, else the first field."""
    fields = info["fields"]
    names = [f["name"] for f in fields]
    if "pressure" in names:
        return "pressure"
    # The component normal to a flat dataset is usually zero.
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
    """Lines around the body, into its wake and some way upstream. Without a body, or if walls enclose the flow, lines
    start where the flow changes."""
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
    """Whether to show the whole domain: there is no body, or the domain is not much larger than its surroundings."""
    domain, body = _boxes(info, "zones"), _boxes(info, "walls")
    return domain is None or body is None or _diagonal(domain) <= NEAR_DOMAIN * (_reach(body) + _diagonal(body))


def _reach(body: Box) -> float:
    """Length of lines downstream of the body."""
    return 0.75 * _diagonal(body) + 2.0 * _margin(body)


def _diagonal(box: Box) -> float:
    return math.dist(*box)


def _union(boxes: Sequence[Sequence[Sequence[float]]]) -> Box:
    return (
        [min(b[0][n] for b in boxes) for n in range(3)],
        [max(b[1][n] for b in boxes) for n in range(3)],
    )


def _margin(body: Box) -> float:
    """The mean of the two smaller widths of the body's box: the body disturbs flow within that distance."""
    widths = sorted(b - a for a, b in zip(*body, strict=True))
    return 0.5 * (widths[0] + widths[1]) or 0.5 * widths[2]


def _near(body: Box, margin: float, domain: Box) -> Box:
    """The body's box, extended by `margin` on each side, within the domain."""
    low = [max(a - margin, d) for a, d in zip(body[0], domain[0], strict=True)]
    high = [min(b + margin, d) for b, d in zip(body[1], domain[1], strict=True)]
    return low, high


def _scatter(low: Sequence[float], high: Sequence[float], *, count: int) -> str:
    """The seed specification of points that fill a box evenly."""
    corners = (",".join(map(repr, map(float, corner))) for corner in (low, high))
    return f"scatter:{':'.join(corners)}:{count}"
