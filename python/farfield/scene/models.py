"""The scene model. `json_schema` derives the JSON Schema from it, and a test compares the copy in docs/."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from farfield.dataset.field_names import field_names
from farfield.errors import FarfieldError
from farfield.flow.definitions import checked
from farfield.flow.grid_surfaces import parse_surface
from farfield.pictures.directions import length, line_width, pointing, within_reach
from farfield.scene.films import read_frames

Vector = tuple[float, float, float]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Place = tuple[Finite, Finite, Finite]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Length = Annotated[Positive, AfterValidator(length)]
ANGLES = (0.1, 170.0)
"""Smallest and largest vertical field of view of a perspective camera, in degrees, after zoom."""
MOST_ZOOM = 1e9
"""Largest zoom of an orthographic camera; the smallest is its inverse."""


class _Part(BaseModel):
    """Unknown keys are errors, since a misspelt key would silently draw something else."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColorMap(_Part):
    """Mapping of a field's values to colours. Objects with the same map share its range."""

    field: str
    """The field; vectors are coloured by their magnitude."""
    cmap: str | None = None
    """Any name of the `cmap` package; null: perceptual and sequential, or diverging for fields with a centre."""
    range: tuple[Finite, Finite] | None = None
    """Lowest and highest value; null: those of the drawn data."""
    center: Finite | None = None
    """Reference value in the middle of a diverging map; null: the field's own, if it has one."""
    label: str | None = None
    """Text of the colour bar; null: the field's own."""
    units: str | None = None
    """Unit on the colour bar; null: the field's own."""

    @field_validator("range")
    @classmethod
    def _rising(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"a range goes from the lower to the higher value, not {value[0]:g} to {value[1]:g}")
        if value is not None and not math.isfinite(value[1] - value[0]):
            raise ValueError(f"{value[0]:g} to {value[1]:g} is too wide for a range: its width is no number any more")
        return value


OF_STREAMLINES = ("max_time", "initial_step", "max_step", "terminal_speed")
OF_PARTICLES = ("t0", "time_step", "hold_steps")
OF_STREAKLINES = ("release_every", "release_steps", "release_times")


class Trace(_Part):
    """Lines traced for the picture, with the options of `farfield trace`: streamlines of its time step, or pathlines or
    streaklines up to its time."""

    seeds: str | list[Place]
    """A specification or file of seeds, as in `farfield trace`, or positions."""
    kind: Literal["streamline", "pathline", "streakline"] = "streamline"
    """Kind of line."""
    field: str = "velocity"
    """The vector field of the lines."""
    t0: Finite | None = None
    """Time of the (first) release; null: the first time. Not for streamlines; likewise the keys down to
    `release_times`."""
    time_step: Positive | None = None
    """Particles: longest step in time, and the step of rk4 and euler."""
    hold_steps: bool = False
    """Particles: values of a time step hold until the next, without interpolation."""
    release_every: Positive | None = None
    """Streaklines: time between releases."""
    release_steps: Annotated[int, Field(gt=0)] | None = None
    """Streaklines: time steps of the data between releases; null: 1."""
    release_times: list[Finite] | None = None
    """Streaklines: times of releases."""
    direction: Literal["forward", "backward", "both"] = "both"
    """Along the field, against it, or both."""
    integrator: Literal["rk45", "rk45-physical", "rk4", "euler"] = "rk45"
    """The method of integration."""
    tolerance: Positive = 1e-5
    """Local error of a step."""
    initial_step: Positive | None = None
    """Length of the first step."""
    max_step: Positive | None = None
    """The longest step; the step of rk4 and euler."""
    max_length: Positive | None = None
    """Length of a line in one direction, in the units of the data."""
    max_time: Positive | None = None
    """Time along a line in one direction."""
    max_steps: Annotated[int, Field(gt=0)] | None = 2000
    """Steps of a line in one direction; null, here and above: no bound."""
    terminal_speed: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Speed below which a line ends. Null: 1e-12 of the line's largest speed so far."""
    scalars: list[str] = []
    """Fields sampled along the lines."""
    stop: str | None = None
    """A condition of fields, such as "mach > 1", that ends a line."""

    @model_validator(mode="after")
    def _of_one_kind(self) -> Trace:
        plain = {
            name: type(self).model_fields[name].default for name in (*OF_STREAMLINES, *OF_PARTICLES, *OF_STREAKLINES)
        }
        wrong = {
            "streamline": (*OF_PARTICLES, *OF_STREAKLINES),
            "pathline": (*OF_STREAMLINES, *OF_STREAKLINES),
            "streakline": OF_STREAMLINES,
        }[self.kind]
        given = [name for name in wrong if getattr(self, name) != plain[name]]
        if given:
            raise ValueError(f"'{given[0]}' is not for lines of kind {self.kind}")
        if self.kind != "streamline" and self.direction == "backward":
            raise ValueError(f"{self.kind}s in pictures go forward in time")
        return self

    @field_validator("scalars")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        try:
            return field_names(value)
        except FarfieldError as error:
            raise ValueError(str(error)) from error


class Lines(_Part):
    """Lines as lit tubes, from a file (.vtp, .npz) or traced."""

    kind: Literal["lines"] = "lines"
    file: str | None = None
    """A file of lines of `farfield trace`."""
    trace: Trace | None = None
    """Lines traced for the picture."""
    color: str | None = None
    """A map's name, a field's name, or a colour (`"#ffcc00"`, `"tomato"`); null: white."""
    radius: Length | None = None
    """Radius of the tubes in the units of the grid; null: derived from the size of the drawn data."""
    tail: Positive | None = None
    """Pathlines: duration of the drawn part before the picture's time; null: all since the release."""

    @model_validator(mode="after")
    def _one_origin(self) -> Lines:
        if (self.file is None) == (self.trace is None):
            raise ValueError("lines come from a file or from a trace: give one of the two")
        if self.tail is not None and (self.trace is None or self.trace.kind != "pathline"):
            raise ValueError("'tail' is for pathlines")
        return self


class Surface(_Part):
    """One grid surface."""

    kind: Literal["surface"] = "surface"
    surface: str
    """`zone1:k=1`: points with that index (1-based; `end` is the last). `zone1:k=1,i=2:40`: of these, i from 2 to 40."""
    color: str | None = None
    """A map's name, a field's name, or a colour."""
    mesh: bool = False
    """Draw the grid's lines on it."""

    @field_validator("surface")
    @classmethod
    def _written_right(cls, value: str) -> str:
        try:
            return str(parse_surface(value))
        except FarfieldError as error:
            raise ValueError(str(error)) from error


class Walls(_Part):
    """The body: every zone face whose points are all iblank 2 or all at rest."""

    kind: Literal["walls"] = "walls"
    color: str | None = None
    """A map's name, a field's name, or a colour."""
    mesh: bool = False
    """Draw the grid's lines on it."""
    cut: bool = False
    """Omit walls between the eye and the flow, such as the near half of a pipe."""


class Outline(_Part):
    """The edges of zones, in space."""

    kind: Literal["outline"] = "outline"
    zone: str | None = None
    """Name of a zone; null: all zones."""
    color: str | None = None
    """Colour of the edges."""
    width: Annotated[Positive, AfterValidator(line_width)] = 1.0
    """Width in pixels."""


class Contour(_Part):
    """An isosurface of a field."""

    kind: Literal["contour"] = "contour"
    field: str | None = None
    """A field, derived field or expression; of a volume a channel. Null: the first."""
    values: Annotated[list[Finite], Field(min_length=1)]
    """Values, with a surface for each."""
    near: Place | None = None
    """A point: only the surface nearest to it, and all that is connected to that surface."""
    color: str | None = None
    """A map's name, a field's name, or a colour."""
    opacity: Annotated[float, Field(ge=0, le=1)] = 1.0
    """From 0, clear, to 1, opaque."""


class Slice(_Part):
    """A plane through a dataset, coloured by a field."""

    kind: Literal["slice"] = "slice"
    normal: Literal["x", "y", "z"] | Vector = "z"
    """Normal of the plane: x, y, z, or three numbers."""
    origin: Place | None = None
    """A point of the plane; null: the middle of the dataset."""
    color: str | None = None
    """A map's name, a field's name, or a colour; null: the field of a default picture."""
    opacity: Annotated[float, Field(ge=0, le=1)] = 1.0
    """From 0, clear, to 1, opaque."""

    @field_validator("normal")
    @classmethod
    def _points_somewhere(cls, value: str | Vector) -> str | Vector:
        return value if isinstance(value, str) else pointing(value, "a normal")


class Cores(_Part):
    """Vortex cores as tubes, with the options of `farfield extract vortex-cores`."""

    kind: Literal["cores"] = "cores"
    method: Literal["sujudi-haimes", "levy", "lambda2"] = "sujudi-haimes"
    """The method of extraction."""
    min_strength: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Strength that points exceed; its meaning depends on the method."""
    min_length: Positive | None = None
    """Length below which lines are omitted, in the units of the data."""
    max_angle: Annotated[float, Field(gt=0, le=90)] | None = None
    """Largest angle between line and velocity, in degrees."""
    color: str | None = None
    """A map's name, a field's name, `strength`, or a colour; null: a pale yellow."""
    radius: Length | None = None
    """Radius of the tubes in the units of the data; null: as for lines."""


class Plane(_Part):
    """A plane that cuts away the part behind it."""

    normal: Vector
    """Normal of the plane, towards the part that stays."""
    origin: Place
    """A point of the plane."""

    @field_validator("normal")
    @classmethod
    def _points_somewhere(cls, value: Vector) -> Vector:
        return pointing(value, "a normal")


class Shading(_Part):
    """Shading by the gradients of a volume, with the lights of the picture."""

    specular: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of specular reflection."""
    power: Annotated[float, Field(ge=1, le=1000)] = 24.0
    """Exponent of the highlights."""


class Labels(_Part):
    """Appearance of labels: numbers that name the part to which a voxel belongs; 0 is the background."""

    colors: dict[Annotated[str, Field(pattern=r"^[0-9]+$")], str] = {}
    """Colours by number; all others have a colour derived from their number."""
    only: list[Annotated[int, Field(ge=1, lt=1 << 64)]] = []
    """Visible labels; empty: all."""
    opacity: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Opacity per length of `unit`."""

    @field_validator("colors", mode="before")
    @classmethod
    def _of_labels(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        named = {str(name) if type(name) is int else name: color for name, color in value.items()}
        for name in named:
            if not isinstance(name, str) or not re.fullmatch("[0-9]{1,20}", name) or int(name) >= 1 << 64:
                raise ValueError(f"'{name}' is no label: labels are whole numbers from 1 to 2^64 - 1, and 0 is nothing")
        return named


class Volume(_Part):
    """A volume, drawn by rays: a channel by a map and an opacity, stored colours, or labels.

    Or a field of a flow, by a map and an opacity, drawn by rays through the cells of its zones. In overlaps, the cell
    of least volume is visible. A vector is drawn by its length. Levels, slices, interpolation, stored colours and
    labels are for volumes only.
    """

    kind: Literal["volume"] = "volume"
    field: str | None = None
    """A channel, or a stored or derived field of a flow; null: the first scalar."""
    color: str | None = None
    """A map's name, a field's name, or a colour; null: the field's own map."""
    opacity: list[tuple[Finite, Annotated[float, Field(ge=0, le=1)]]] | None = None
    """Nodes of the opacity, linear between them: a value, and the opacity per length of `unit`. Null: derived from a
    volume's values. For a flow: from 0 at the lower end of the colours' range to 0.6 at the upper, and 1 for
    projections."""
    unit: Length | None = None
    """Unit length of the opacity; null: a hundredth of the diagonal of the volume, or of the box of the zones."""
    samples_per_voxel: Annotated[float, Field(gt=0.1, le=16)] = 1.0
    """Samples of a ray per length of a voxel, or of a flow's cell; 2 or more find the maxima of narrow peaks."""
    level: Annotated[int, Field(ge=0)] | None = None
    """Level of a volume, 0 the finest; null: the level that matches the pixels. A flow has none."""
    within: tuple[Place, Place] | None = None
    """The visible box in space, its lowest and highest corner; null: all."""
    planes: list[Plane] = []
    """Planes that cut the volume; the part towards their normals stays."""
    slices: dict[Literal["i", "j", "k"], tuple[int, int]] = {}
    """First and last visible voxel along an axis, counted from 1."""
    projection: Literal["composite", "maximum", "mean", "surface"] = "composite"
    """Composite of all samples; largest or mean value, in the map's colour behind composited objects; or first point at
    `value`."""
    value: Finite | None = None
    """Value of the projection "surface"."""
    interpolation: Literal["linear", "nearest"] | None = None
    """Interpolation between voxels; null: linear, and the nearest voxel for labels."""
    shading: Shading | None = None
    """Shading by gradients, of a flow by those of a scalar (`grad_NAME`); null: none."""
    opacity_from: Literal["alpha", "luminance", "distance"] | None = None
    """For stored colours, the quantity from 0 to 1 that the nodes of `opacity` refer to; null: alpha if there is one,
    else the distance from `background`."""
    background: str | None = None
    """A colour that is clear; null: the most frequent colour at the volume's faces."""
    labels: Labels | None = None
    """For labels; null: as in the format."""

    @model_validator(mode="after")
    def _with_value(self) -> Volume:
        if (self.value is None) == (self.projection == "surface"):
            raise ValueError(
                "the projection 'surface' needs a 'value'"
                if self.value is None
                else f"'value' goes with the projection 'surface', not with '{self.projection}'"
            )
        return self

    @field_validator("within")
    @classmethod
    def _has_corners(cls, value: tuple[Place, Place] | None) -> tuple[Place, Place] | None:
        if value is not None and not all(low <= high for low, high in zip(*value, strict=True)):
            raise ValueError("a box goes from its lowest to its highest corner, along each axis")
        return value

    @field_validator("slices")
    @classmethod
    def _count_from_one(
        cls, value: dict[Literal["i", "j", "k"], tuple[int, int]]
    ) -> dict[Literal["i", "j", "k"], tuple[int, int]]:
        for axis, (first, last) in value.items():
            if not 1 <= first <= last:
                raise ValueError(
                    f"{axis}: voxels are counted from 1, the first one not behind the last, not {first} to {last}"
                )
        return value

    @field_validator("opacity")
    @classmethod
    def _in_order(cls, value: list[tuple[float, float]] | None) -> list[tuple[float, float]] | None:
        if value is not None and (not value or any(b[0] < a[0] for a, b in itertools.pairwise(value))):
            raise ValueError("nodes of the opacity are in the order of their values, one or more")
        return value


class Camera(_Part):
    """The camera. Null values are fitted to the drawn objects."""

    direction: Vector | None = None
    """Direction from the target to the eye."""
    up: Vector | None = None
    """Upward direction in the picture."""
    target: Place | None = None
    """The point at the centre of the picture; null: the middle of the drawn objects."""
    distance: Length | None = None
    """Distance of the eye from the target, in the units of the data; null: a distance that shows all."""
    zoom: Positive = 1.0
    """Above 1: nearer."""
    fov_deg: Annotated[float, Field(gt=0, lt=170)] = 30.0
    """Vertical field of view of a perspective camera, in degrees."""
    projection: Literal["perspective", "orthographic"] = "perspective"
    """Lines that converge in the distance, or stay parallel."""

    @model_validator(mode="after")
    def _sees_something(self) -> Camera:
        if self.projection == "orthographic":
            if not 1 / MOST_ZOOM <= self.zoom <= MOST_ZOOM:
                raise ValueError(
                    f"zoom {self.zoom:g} is not a picture: zoom is from {1 / MOST_ZOOM:g} to {MOST_ZOOM:g}"
                )
            return self
        half = math.tan(math.radians(self.fov_deg) / 2)
        least, most = (half / math.tan(math.radians(angle) / 2) for angle in reversed(ANGLES))
        if not least <= self.zoom <= most:
            raise ValueError(
                f"zoom {self.zoom:g} with fov_deg {self.fov_deg:g} is not a picture: the angle that is seen is from {ANGLES[0]:g} "
                f"to {ANGLES[1]:g} degrees, so with this fov_deg zoom is from {least:.3g} to {most:.3g}"
            )
        return self

    @field_validator("target")
    @classmethod
    def _within_reach(cls, value: Vector | None) -> Vector | None:
        return value if value is None else within_reach(value)

    @field_validator("direction", "up")
    @classmethod
    def _points_somewhere(cls, value: Vector | None) -> Vector | None:
        return value if value is None else pointing(value, "a direction")


class Light(_Part):
    """A light at infinite distance."""

    direction: Vector
    """Direction towards the light. With `fixed_to` "camera": to the right, up and towards the eye."""
    color: str = "white"
    """Colour of the light."""
    intensity: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    """Intensity; 1 fully lights a surface that faces the light."""
    fixed_to: Literal["camera", "scene"] = "camera"
    """Whether the light moves with the camera or stays with the data."""

    @field_validator("direction")
    @classmethod
    def _points_somewhere(cls, value: Vector) -> Vector:
        return pointing(value, "a direction")


class Key(_Part):
    """A key frame of the camera. Between two keys, the camera moves evenly."""

    frame: Annotated[int, Field(ge=0)]
    """Number of the picture, counted from 0."""
    step: Annotated[int, Field(ge=0)] | None = None
    """Time step of the picture; null: the scene's. Between two keys, steps advance evenly."""
    camera: Camera = Camera()
    """Camera; null values are as for the whole scene."""


Size = tuple[Annotated[int, Field(gt=0, le=100_000)], Annotated[int, Field(gt=0, le=100_000)]]
Drawn = Annotated[Lines | Surface | Walls | Contour | Slice | Cores | Volume | Outline, Field(discriminator="kind")]


class View(_Part):
    """One of several pictures of the same objects, all made in one run. Null values are the scene's."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=60)]
    """Part of the file's name."""
    camera: Camera | None = None
    """Its own camera, which does not follow the scene's `path`."""
    size: Size | None = None
    """Width and height in pixels."""
    title: str | None = None
    """Text above the picture."""
    objects: list[Annotated[int, Field(ge=0)]] | None = None
    """Numbers of the visible objects of the scene, counted from 0; null: all."""


class Scene(_Part):
    """A picture, or pictures of several time steps.

    >>> import tempfile, farfield as ff
    >>> from farfield.scene import Lines, Outline, Trace
    >>> lines = Lines(trace=Trace(seeds="line:0.6,0.5,0.3:0.9,0.5,0.3:9"), color="density")
    >>> scene = ff.Scene(source="demo:box", objects=[Outline(), lines], size=(160, 90))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [drawn["name"] for drawn in ff.render(scene, folder + "/box.png")["drawn"]]
    ['outline', 'streamlines']
    """

    # Description for the schema: the docstring's example is in Python.
    model_config = ConfigDict(
        json_schema_extra={
            "description": "A picture. Paths in a scene file (the source, files of lines and of seeds) are relative to its folder."
        }
    )

    version: Literal[1] = 1
    """Version of the form of scene files."""
    source: str | None = None
    """A source, as on the command line; null if only files of lines are drawn. Paths here, of lines and of seeds are
    relative to the working folder; in a file, to the folder of that file."""
    step: Annotated[int, Field(ge=0)] = 0
    """Time step, counted from 0."""
    frames: str | list[int] | None = None
    """Time steps of several pictures, counted from 0: "0:100:2" (first, end, stride; the end is excluded) or a list;
    null: all."""
    define: dict[str, str] = {}
    """Derived fields: names and expressions, as in `--define`."""
    objects: list[Drawn] = []
    """The drawn objects."""
    maps: dict[str, ColorMap] = {}
    """Colour maps, by the names in the objects."""
    camera: Camera = Camera()
    """The camera."""
    size: Size = (1600, 900)
    """Width and height in pixels."""
    background: str | tuple[str, str] = ("#20242c", "#0b0d11")
    """One colour, or the top and bottom of a gradient."""
    lights: Annotated[list[Light], Field(max_length=8)] | None = None
    """Lights; null: a key light from the upper left, a weak fill light and the sky, which preserve surfaces' colours."""
    ambient: Annotated[float, Field(ge=0, le=10)] = 0.2
    """Ambient light, beside `lights`."""
    path: list[Key] = []
    """Key frames of the camera, in rising order. The last key gives the number of pictures, and `frames` selects some
    of them. Empty: the camera stands still, and each picture shows a time step."""
    scalar_bar: bool = True
    """Draw colour bars."""
    axes: bool = True
    """Draw the directions of x, y and z."""
    scale_bar: bool | None = None
    """Draw a scale bar; null: in parallel views of data with a known unit of length. In perspective it holds at the
    camera's target."""
    title: str | None = None
    """Text above the picture."""
    time: bool | None = None
    """Write the time into the picture; null: if the dataset has several time steps."""
    views: list[View] = []
    """Pictures of the same objects, each with its own file; empty: one picture with the camera and size of the scene."""
    samples: Annotated[int, Field(ge=1, le=4)] = 2
    """Samples of a pixel along each side."""
    budget_s: Positive | None = None
    """Time limit in seconds for the rays of a picture through volumes and fields of flows. Pixels that are left are
    filled from their neighbours and counted. Null: no limit."""

    @field_validator("define", mode="before")
    @classmethod
    def _as_mapping(cls, value: Any) -> Any:
        if not isinstance(value, str | list | tuple) or not value or not all(isinstance(text, str) for text in value):
            return value
        try:
            return checked(value)
        except FarfieldError as error:
            raise ValueError(str(error)) from error

    @field_validator("frames")
    @classmethod
    def _understood(cls, value: str | list[int] | None) -> str | list[int] | None:
        try:
            read_frames(value)
        except FarfieldError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("views")
    @classmethod
    def _told_apart(cls, value: list[View]) -> list[View]:
        names = [view.name for view in value]
        twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
        if twice is not None:
            raise ValueError(f"two views are named '{twice}'")
        return value

    @field_validator("path")
    @classmethod
    def _rising_keys(cls, value: list[Key]) -> list[Key]:
        for before, after in itertools.pairwise(value):
            if after.frame <= before.frame:
                raise ValueError(
                    f"picture {after.frame} comes after picture {before.frame}; name key frames in rising order"
                )
        return value

    @model_validator(mode="after")
    def _has_source(self) -> Scene:
        needy = [o.kind for o in self.objects if not (isinstance(o, Lines) and o.file is not None)]
        if self.source is None and needy:
            raise ValueError(f"the scene has no source, which its {needy[0]} needs")
        for view in self.views:
            beyond = [n for n in view.objects or () if n >= len(self.objects)]
            if beyond:
                raise ValueError(
                    f"view '{view.name}': there is no object {beyond[0]}; the scene has {len(self.objects)}"
                )
        return self
