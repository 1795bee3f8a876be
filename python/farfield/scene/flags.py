"""Flags of `farfield render` as a scene.

>>> scene, info = Shorthand(lines=("l.vtp",), color="mach", range="0:1.5").scene(None)
>>> scene.maps["mach"].range, info
((0.0, 1.5), None)
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from farfield.errors import UsageError
from farfield.flow.definitions import SPEED, mapping
from farfield.flow.seeds import resolve
from farfield.pictures.colors import is_color
from farfield.pictures.opened_volumes import to_look_at
from farfield.pictures.sampled_values import sample
from farfield.pictures.signed_fields import is_hounsfield
from farfield.runtime.resources import Resources
from farfield.scene.composition import THREE_QUARTER_VIEW, is_flat
from farfield.scene.cut_flags import cuts
from farfield.scene.defaults import scene_and_info
from farfield.scene.files import is_scene_file, load_scene
from farfield.scene.films import Film, ends_and_middle, looked_at
from farfield.scene.models import (
    Camera,
    ColorMap,
    Contour,
    Cores,
    Drawn,
    Labels,
    Lines,
    Outline,
    Scene,
    Shading,
    Slice,
    Surface,
    Trace,
    Vector,
    Volume,
    Walls,
)
from farfield.scene.volumes import first_scene
from farfield.volume.dataset import VolumeDataset
from farfield.volume.formats.detection import is_volume
from farfield.volume.formats.options import Options

_VIEWS: dict[str, tuple[Vector, Vector]] = {
    "x": ((1, 0, 0), (0, 0, 1)),
    "-x": ((-1, 0, 0), (0, 0, 1)),
    "y": ((0, 1, 0), (0, 0, 1)),
    "-y": ((0, -1, 0), (0, 0, 1)),
    "z": ((0, 0, 1), (0, 1, 0)),
    "-z": ((0, 0, -1), (0, 1, 0)),
    "iso": (THREE_QUARTER_VIEW, (0, 0, 1)),
}


@dataclass(frozen=True)
class Shorthand:
    """Values of the flags; None and empty mean not given."""

    lines: tuple[str, ...] = ()
    seeds: str | None = None
    surfaces: tuple[str, ...] = ()
    contours: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    cores: bool = False
    walls: bool | None = None
    color: str | None = None
    surface_color: str | None = None
    range: str | None = None
    cmap: str | None = None
    center: float | None = None
    radius: float | None = None
    mesh: bool = False
    outline: bool | None = None
    view: str | None = None
    up: str | None = None
    zoom: float | None = None
    background: str | None = None
    bar: bool | None = None
    axes: bool | None = None
    title: str | None = None
    samples: int | None = None
    step: int | None = None
    kind: str | None = None
    tail: float | None = None
    time: bool | None = None
    size: tuple[int, int] | None = None
    projection: str | None = None
    window: float | None = None
    level: float | None = None
    resolution: int | None = None
    shade: bool | None = None
    nearest: bool = False
    labels: bool = False
    opacity_from: str | None = None
    budget: str | None = None

    def scene(
        self,
        what: str | None,
        resources: Resources | None = None,
        *,
        plot3d: Mapping[str, Any] | None = None,
        zone_order: Sequence[str] | None = None,
        volume: Options | None = None,
        film: Film | None = None,
        of_all_steps: bool = False,
    ) -> tuple[Scene, dict[str, Any] | None]:
        """As `with_volume`, but closes the volume."""
        how: dict[str, Any] = {"plot3d": plot3d, "zone_order": zone_order, "volume": volume}
        with ExitStack() as stack:
            return self.with_volume(stack, what, resources, film=film, of_all_steps=of_all_steps, **how)[:2]

    def with_volume(
        self,
        stack: ExitStack,
        what: str | None,
        resources: Resources | None = None,
        *,
        plot3d: Mapping[str, Any] | None = None,
        zone_order: Sequence[str] | None = None,
        volume: Options | None = None,
        film: Film | None = None,
        of_all_steps: bool = False,
    ) -> tuple[Scene, dict[str, Any] | None, VolumeDataset | None]:
        """Builds the scene: from a file, a dataset's default, or files of lines alone, changed by the flags. Returns
        with it the dataset's `info`, if it was opened, and the open volume, which `stack` closes. `film` gives the
        time steps of the pictures. `of_all_steps`: the picture shows one step, but colours and opacities suit all.

        Raises:
            UsageError: if the flags are invalid.
            pydantic.ValidationError: if a value does not fit the scene model.
        """
        info: dict[str, Any] | None = None
        opened: VolumeDataset | None = None
        if what is not None and is_scene_file(what):
            base = load_scene(what)
        elif what is not None and is_volume(what, volume):
            opened = stack.enter_context(to_look_at(what, resources or Resources(), volume))
            base, info = _of_volume(
                opened,
                what,
                self.step or 0,
                film,
                of_all_steps=of_all_steps,
                windowed=self.window is not None,
            )
            if self._cuts() and self.projection is None and self.window is None:
                # Colour maps of rays do not suit planes.
                kept: list[Drawn] = [o for o in base.objects if isinstance(o, Outline)]
                base = base.model_copy(update={"objects": kept, "maps": {}})
        elif what is not None:
            given = bool(self.lines or self.seeds or self.surfaces or self._cuts())
            base, info = scene_and_info(
                what, resources or Resources(), plot3d=plot3d, zone_order=zone_order, lines=not given
            )
            if self.surfaces:
                kept = [o for o in base.objects if isinstance(o, Outline)]
                if "walls" in self.surfaces:
                    # As in the default picture, near walls around the flow are cut away.
                    kept += [o for o in base.objects if isinstance(o, Walls)] or [Walls()]
                base = base.model_copy(update={"objects": kept})
            elif self._cuts() and not is_flat(info or {"dimension": 3, "zones": []}):
                kept = [o for o in base.objects if isinstance(o, Outline | Walls)]
                base = base.model_copy(update={"objects": kept})
        elif self.lines and not self._cuts():
            base = Scene(camera=Camera(direction=THREE_QUARTER_VIEW, up=(0.0, 0.0, 1.0)))
        else:
            raise UsageError("there is nothing to draw; give a scene, a dataset or --lines FILE")
        objects = self._objects(list(base.objects), info)
        own_look = what is not None and not is_scene_file(what)
        if own_look and (self.projection or "").partition(":")[0] in ("maximum", "mean", "surface"):
            # Ranges for compositing do not suit maxima and means, and a surface has one colour.
            base = base.model_copy(update={"maps": {}})
        # A map named by the user stays as it is, unless inversion is requested, too.
        turned = bool(volume is not None and volume.invert)
        maps = self._maps(base, objects, turned=turned)
        inverted = {c["name"] for c in (info or {}).get("channels", ()) if c.get("inverted")}
        air = own_look and bool((info or {}).get("hounsfield"))
        objects, maps = self._volumes(objects, maps, own_look=own_look, inverted=inverted, air=air)
        define = {**base.define, **mapping((plot3d or {}).get("define"))}
        changes: dict[str, Any] = {
            "objects": objects,
            "maps": maps,
            "camera": self._camera(base.camera),
            "define": define,
        }
        plain = {
            "scalar_bar": self.bar,
            "axes": self.axes,
            "title": self.title,
            "samples": self.samples,
            "step": self.step,
            "time": self.time,
            "size": self.size,
            "background": _background(self.background),
            "budget_s": None if self.budget is None else seconds(self.budget, "--budget"),
        }
        changes |= {key: value for key, value in plain.items() if value is not None}
        return Scene.model_validate({**dict(base), **changes}), info, opened

    def _cuts(self) -> bool:
        """Whether the flags request contours, planes or vortex cores."""
        return bool(self.contours or self.slices or self.cores)

    def _objects(self, objects: list[Drawn], info: Mapping[str, Any] | None) -> list[Drawn]:
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise UsageError(f"--radius: {self.radius:g} is not a length above 0")
        if self.walls is False:
            objects = [o for o in objects if not isinstance(o, Walls)]
        if (self.walls or "walls" in self.surfaces) and not any(isinstance(o, Walls) for o in objects):
            objects.append(Walls())
        objects += [Surface(surface=text) for text in self.surfaces if text != "walls"]
        objects += cuts(self.contours, self.slices)
        if self.cores:
            objects.append(Cores())
        objects += [Lines(file=os.path.expanduser(name)) for name in self.lines]
        if self.seeds is not None:
            trace = Trace.model_validate({"seeds": _seeds(self.seeds), "kind": self.kind or "streamline"})
            # Coloured as in the default picture; in flat data plain, so that the field beneath stays distinct.
            fields = () if info is None or info.get("what") == "volume" or is_flat(info) else info["fields"]
            color = SPEED if any(f["name"] == SPEED for f in fields) else None
            objects.append(Lines(trace=trace, tail=self.tail, color=color))
        elif self.kind is not None or self.tail is not None:
            raise UsageError("--kind and --tail are for lines that are traced: add --seeds SPEC")
        if self.outline is False:
            objects = [o for o in objects if not isinstance(o, Outline)]
        elif self.outline and not any(isinstance(o, Outline) for o in objects):
            objects.append(Outline())
        volumes = [o for o in objects if isinstance(o, Volume)]
        solid = all(o.color is not None and is_color(o.color) for o in volumes)
        if len(volumes) > 1 and solid and self.color is not None and not is_color(self.color):
            # A single channel is drawn alone, without the colours of the channels.
            unseen = volumes[0].model_copy(update={"field": self.color, "opacity": None})
            objects = [o for o in objects if not isinstance(o, Volume)]
            objects.append(next((o for o in volumes if o.field == self.color), unseen))
        has_lines = any(isinstance(o, Lines | Contour | Slice | Cores) for o in objects)
        changed: list[Drawn] = []
        for o in objects:
            change: dict[str, Any] = {}
            if isinstance(o, Lines):
                change = {"color": self.color, "radius": self.radius}
            elif isinstance(o, Volume | Contour | Slice | Cores):
                change = {"color": self.color}
            elif isinstance(o, Surface | Walls):
                change = {"color": self.surface_color or (None if has_lines else self.color), "mesh": self.mesh or None}
            changed.append(o.model_copy(update={k: v for k, v in change.items() if v is not None}))
        return changed

    def _volumes(
        self,
        objects: list[Drawn],
        maps: dict[str, ColorMap],
        *,
        own_look: bool,
        air: bool,
        inverted: Set[str] = frozenset(),
    ) -> tuple[list[Drawn], dict[str, ColorMap]]:
        """Applies the flags of volumes: projection, shading, window and level. `air`: the volume is a CT, whose air is
        clear in any window."""
        flags = {
            "--projection": self.projection,
            "--window": self.window,
            "--level": self.level,
            "--resolution": self.resolution,
            "--shade": self.shade,
            "--nearest": self.nearest or None,
            "--labels": self.labels or None,
            "--opacity-from": self.opacity_from,
            "--budget": self.budget,
        }
        given = [name for name, value in flags.items() if value is not None]
        if not given:
            return objects, maps
        if not any(isinstance(o, Volume) for o in objects):
            raise UsageError(f"{given[0]} is for volumes, and none is drawn here")
        change: dict[str, Any] = {}
        if self.projection is not None:
            kind, _, value = self.projection.partition(":")
            change |= {"projection": kind, "value": None if not value else number(value, "--projection")}
            change["opacity"] = None
            if kind == "surface" and self.shade is None:
                change["shading"] = Shading()
        if self.shade is not None:
            change["shading"] = Shading() if self.shade else None
        if self.nearest:
            change["interpolation"] = "nearest"
        if self.labels:
            change |= {"labels": Labels(), "opacity": None}
        if self.opacity_from is not None:
            change |= {"opacity_from": self.opacity_from, "opacity": None}
        resolution = self.resolution
        if self.window is None and self.level is not None:
            if resolution is not None:
                raise UsageError("--level and --resolution both give the level of resolution; give one of them")
            if self.level != int(self.level) or self.level < 0:
                raise UsageError(
                    f"--level {self.level:g} is not a level of resolution; these are 0, 1, ...; with --window it is its middle"
                )
            resolution = int(self.level)
        if resolution is not None:
            change["level"] = resolution
        changed: list[Drawn] = []
        for o in objects:
            if not isinstance(o, Volume):
                changed.append(o)
                continue
            own = dict(change)
            if change.get("projection") == "surface" and own_look and self.color is None and self.window is None:
                own["color"] = SURFACE_COLOR
            if self.window is not None:
                low, high = window_of(self.window, self.level)
                if o.field is None and o.color is None:
                    raise UsageError(
                        f"--window {self.window:g} is for numbers, and this volume is shown in its own colours"
                    )
                name = o.color or o.field or next(iter(maps), "")
                field = maps[name].field if name in maps else o.field or name
                turned = field in inverted
                maps[name] = ColorMap(field=field, range=(low, high), cmap="gray_r" if turned else "gray")
                # A maximum or mean shows the window's grey directly. Compositing accumulates light, so the window's
                # black must be clear.
                alone = change.get("projection") in ("maximum", "mean")
                ends = (1.0, 1.0) if alone else (0.0, WINDOW_OPACITY)
                clear = NEARLY_AIR if air and not alone and low < NEARLY_AIR < high else low
                if turned:
                    clear, ends = low, (ends[1], ends[0])
                own |= {"opacity": [(clear, ends[0]), (high, ends[1])], "color": name}
            changed.append(Volume.model_validate({**dict(o), **own}))
        return changed, maps

    def _maps(self, base: Scene, objects: Sequence[Drawn], *, turned: bool = False) -> dict[str, ColorMap]:
        """Applies range, colour map and centre to the map of the lines, or else of the surfaces. `turned` reverses the
        colour map."""
        cmap = self.cmap
        if turned and cmap is not None:
            cmap = cmap.removesuffix("_r") if cmap.endswith("_r") else f"{cmap}_r"
        change: dict[str, Any] = {"range": _range(self.range), "cmap": cmap, "center": self.center}
        change = {key: value for key, value in change.items() if value is not None}
        maps = dict(base.maps)
        if not change:
            return maps
        lines = [o.color for o in objects if isinstance(o, Lines | Cores) and o.color]
        others = [o.color or o.field for o in objects if isinstance(o, Volume)]
        others += [o.color for o in objects if isinstance(o, Surface | Walls | Contour | Slice)]
        target = next(iter([*lines, *(name for name in others if name)]), None)
        if target is None:
            raise UsageError("--range, --cmap and --center need something coloured by a field: add --color FIELD")
        old = maps.get(target, ColorMap(field=target))
        maps[target] = ColorMap.model_validate({**dict(old), **change})
        return maps

    def _camera(self, camera: Camera) -> Camera:
        change: dict[str, Any] = {}
        if self.view is not None:
            named = _VIEWS.get(self.view)
            change["direction"], change["up"] = named or (vector(self.view, "--view"), camera.up)
        if self.up is not None:
            change["up"] = vector(self.up, "--up")
        if self.zoom is not None:
            change["zoom"] = self.zoom
        return Camera.model_validate({**dict(camera), **change})


def _of_volume(
    opened: VolumeDataset,
    what: str,
    step: int,
    film: Film | None,
    *,
    of_all_steps: bool,
    windowed: bool,
) -> tuple[Scene, dict[str, Any]]:
    steps = None if film is None else looked_at(opened, film)
    if steps is None and of_all_steps:
        steps = ends_and_middle(opened._selected_steps())
    scene, info = first_scene(opened, what, step, steps=steps), opened.info()
    if windowed and opened.kind == "scalar":
        # Only the values tell whether a volume contains air, which a window must then hide.
        values = sample(opened, opened.channels[opened._channel or 0].name, steps or [step])
        info = {**info, "hounsfield": is_hounsfield(values)}
    return scene, info


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise UsageError(f"'{text}' is not a range; write it like 0:1.5") from None


SURFACE_COLOR = "#e2d6c2"
"""Colour of a surface projection, whose value may be outside of a map's range."""
NEARLY_AIR = -950.0
"""Hounsfield units slightly above air."""
WINDOW_OPACITY = 0.3
"""Opacity at the upper end of a window."""


def window_of(width: float, level: float | None) -> tuple[float, float]:
    """The lowest and highest value of a window.

    >>> window_of(400, 40)
    (-160.0, 240.0)

    Raises:
        UsageError: if the window has no width or no level.
    """
    if not width > 0 or not math.isfinite(width):
        raise UsageError(f"--window {width:g}: a window has a width above 0, as in --window 400 --level 40")
    if level is None or not math.isfinite(level):
        raise UsageError(f"--window {width:g} needs its middle: add --level VALUE, as in --window 400 --level 40")
    return level - width / 2, level + width / 2


def number(text: str, flag: str) -> float:
    """The finite number in a flag's text.

    Raises:
        UsageError: if it is not one.
    """
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise UsageError(f"{flag}: '{text}' is not a number")
    return found


def seconds(text: str, flag: str) -> float:
    """A duration in seconds from a number with s, ms or us; seconds without a unit.

    >>> seconds("50ms", "--budget"), seconds("1.5", "--budget")
    (0.05, 1.5)

    Raises:
        UsageError: if it is not one.
    """
    for unit, scale in (("ms", 1e-3), ("us", 1e-6), ("s", 1.0), ("", 1.0)):
        if text.endswith(unit):
            found = number(text.removesuffix(unit).strip(), flag) * scale
            if found <= 0:
                raise UsageError(f"{flag}: '{text}' is not a time above 0")
            return found
    raise AssertionError("every text ends with nothing")


def vector(text: str, flag: str) -> Vector:
    """The three numbers in a flag's text.

    Raises:
        UsageError: if there are not three.
    """
    try:
        x, y, z = (float(part) for part in text.split(","))
    except ValueError:
        names = f"{', '.join(_VIEWS)} or " if flag == "--view" else ""
        raise UsageError(f"{flag}: '{text}' is none of {names}three numbers X,Y,Z") from None
    return x, y, z


def _background(text: str | None) -> str | tuple[str, str] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 2 or not all(parts):
        raise UsageError(f"--background: '{text}' is not one colour, or two with a comma between")
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _seeds(text: str) -> str:

    # Checked here, so that an error comes before any file is opened; text never becomes an array.
    return resolve(text)[0] or text
