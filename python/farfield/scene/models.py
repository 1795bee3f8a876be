"""The scene model. JSON Schema is made from it (`json_schema`), and a test holds the copy in docs/ to it."""

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
"""Degrees that a perspective camera sees from top to bottom, after its zoom: at least and at most."""
MOST_ZOOM = 1e9
"""Of a camera whose lines stay parallel, and one by it is the least."""


class _Part(BaseModel):
    """Unknown keys are errors: a misspelt one would otherwise draw something else in silence."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ColorMap(_Part):
    """How values of a field become colours. Objects that name the same map share its range."""

    field: str
    """The field; vectors are coloured by their magnitude."""
    cmap: str | None = None
    """Any name of the `cmap` package; null: perceptual and sequential, or diverging for fields with a centre."""
    range: tuple[Finite, Finite] | None = None
    """Lowest and highest value; null: of what is drawn."""
    center: Finite | None = None
    """Reference value in the middle of a diverging map; null: the field's own, if it has one."""
    label: str | None = None
    """Of its colour bar; null: the field's own."""
    units: str | None = None
    """Null: the field's own."""

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
    """Lines traced for the picture, with the words of `farfield trace`: streamlines of its time step, or pathlines or streaklines
    up to its time."""

    seeds: str | list[Place]
    """A shape or a file as `farfield trace` takes them, or positions."""
    kind: Literal["streamline", "pathline", "streakline"] = "streamline"
    """What lines are."""
    field: str = "velocity"
    """The vector field that they follow."""
    t0: Finite | None = None
    """When the (first) particles are let go; null: at the first time. Not for streamlines, like what follows it here."""
    time_step: Positive | None = None
    """Of particles: their longest step in time, and the step of rk4 and euler."""
    hold_steps: bool = False
    """Of particles: a time step holds until the next, without interpolation."""
    release_every: Positive | None = None
    """Of streaklines: time between releases."""
    release_steps: Annotated[int, Field(gt=0)] | None = None
    """Of streaklines: time steps of the data between releases; null: 1."""
    release_times: list[Finite] | None = None
    """Of streaklines: when particles are released."""
    direction: Literal["forward", "backward", "both"] = "both"
    """Along the field, against it, or both."""
    integrator: Literal["rk45", "rk45-physical", "rk4", "euler"] = "rk45"
    """The method of integration."""
    tolerance: Positive = 1e-5
    """Local error that a step may make."""
    initial_step: Positive | None = None
    """Length of the first step."""
    max_step: Positive | None = None
    """The longest step; the step of rk4 and euler."""
    max_length: Positive | None = None
    """Length of a line in one direction, in the units of the data."""
    max_time: Positive | None = None
    """Time along a line in one direction."""
    max_steps: Annotated[int, Field(gt=0)] | None = 2000
    """Null, here as above: no bound."""
    terminal_speed: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Slower than this a line ends. Null: than 1e-12 of the largest speed that it has had."""
    scalars: list[str] = []
    """Fields that are sampled along them."""
    stop: str | None = None
    """A condition of fields, such as "mach > 1", that ends a line where it holds."""

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
    """Lines as lit tubes: of a file (.vtp, .npz), or traced."""

    kind: Literal["lines"] = "lines"
    file: str | None = None
    """Lines from a file, as `farfield trace` writes them."""
    trace: Trace | None = None
    """Lines that are traced for the picture."""
    color: str | None = None
    """A map's name, a field's name, or a colour (`"#ffcc00"`, `"tomato"`); null: white."""
    radius: Length | None = None
    """In the units of the grid; null: from the size of what is drawn."""
    tail: Positive | None = None
    """Of pathlines so much time before the picture's is drawn; null: all since their release."""

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
    """`zone1:k=1`: points with that index (1-based; `end` is the last); `zone1:k=1,i=2:40`: of them those from i 2 to 40."""
    color: str | None = None
    """A map's name, a field's, or one colour."""
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
    """A map's name, a field's, or one colour."""
    mesh: bool = False
    """Whether lines of the grid are drawn."""
    cut: bool = False
    """Leaves away those between the eye and the flow: of a pipe its near half."""


class Outline(_Part):
    """The edges of zones, as they lie in space."""

    kind: Literal["outline"] = "outline"
    zone: str | None = None
    """Null: all zones."""
    color: str | None = None
    """Its colour."""
    width: Annotated[Positive, AfterValidator(line_width)] = 1.0
    """Pixels."""


class Contour(_Part):
    """An isosurface: where a field has a value."""

    kind: Literal["contour"] = "contour"
    field: str | None = None
    """Any field, a derived one or an expression too; of a volume a channel. Null: the first."""
    values: Annotated[list[Finite], Field(min_length=1)]
    """One surface for each."""
    near: Place | None = None
    """Only what hangs together with the surface next to this point."""
    color: str | None = None
    """A map's name, a field's, or one colour."""
    opacity: Annotated[float, Field(ge=0, le=1)] = 1.0
    """From 0, clear, to 1."""


class Slice(_Part):
    """A plane through a dataset, coloured by a field."""

    kind: Literal["slice"] = "slice"
    normal: Literal["x", "y", "z"] | Vector = "z"
    """Across it: x, y, z, or three numbers."""
    origin: Place | None = None
    """A point of the plane; null: the middle of the dataset."""
    color: str | None = None
    """Null: the field that a first picture would show."""
    opacity: Annotated[float, Field(ge=0, le=1)] = 1.0
    """From 0, clear, to 1."""

    @field_validator("normal")
    @classmethod
    def _points_somewhere(cls, value: str | Vector) -> str | Vector:
        return value if isinstance(value, str) else pointing(value, "a normal")


class Cores(_Part):
    """Vortex cores as tubes, with the words of `farfield extract vortex-cores`."""

    kind: Literal["cores"] = "cores"
    method: Literal["sujudi-haimes", "levy", "lambda2"] = "sujudi-haimes"
    """How they are found."""
    min_strength: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Points are stronger; its meaning is that of the method."""
    min_length: Positive | None = None
    """Shorter ones are left out, in the units of the data."""
    max_angle: Annotated[float, Field(gt=0, le=90)] | None = None
    """Largest angle between line and velocity, in degrees."""
    color: str | None = None
    """A map, a field, `strength`, or a colour; null: a pale yellow."""
    radius: Length | None = None
    """Of the tubes, in the units of the data; null: as lines have it."""


class Plane(_Part):
    """A plane that cuts away what lies behind it."""

    normal: Vector
    """Towards what is kept."""
    origin: Place
    """A point of it."""

    @field_validator("normal")
    @classmethod
    def _points_somewhere(cls, value: Vector) -> Vector:
        return pointing(value, "a normal")


class Shading(_Part):
    """Light on the gradients of a volume, by the lights of the picture."""

    specular: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Share of highlights."""
    power: Annotated[float, Field(ge=1, le=1000)] = 24.0
    """Their exponent."""


class Labels(_Part):
    """What is shown of numbers that name what a voxel belongs to; 0 is nothing."""

    colors: dict[Annotated[str, Field(pattern=r"^[0-9]+$")], str] = {}
    """By number; all others have a colour that follows from their number."""
    only: list[Annotated[int, Field(ge=1, lt=1 << 64)]] = []
    """Those that are shown; none: all."""
    opacity: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Of `unit` of length."""

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
    """A volume, drawn by rays through it: a channel by a map and an opacity, colours as they are stored, or labels.

    Or a field of a flow, by a map and an opacity, by rays through the cells of its zones: where they overlap the cell of least
    volume is seen, of a vector its length. Levels, slices, interpolation, colours as they are stored and labels are of volumes."""

    kind: Literal["volume"] = "volume"
    field: str | None = None
    """A channel, or a field of a flow, derived or not; null: the first scalar."""
    color: str | None = None
    """A map's name or a field's, or one colour; null: the field's own map."""
    opacity: list[tuple[Finite, Annotated[float, Field(ge=0, le=1)]]] | None = None
    """Nodes of the opacity: value, and opacity of `unit` of length, straight between them. Null: from the values that there
    are; of a flow from 0 at the lower end of the colours' range to 0.6 at the upper, and 1 for projections."""
    unit: Length | None = None
    """Null: a hundredth of the diagonal of the volume, or of the box of the zones."""
    samples_per_voxel: Annotated[float, Field(gt=0.1, le=16)] = 1.0
    """Samples of a ray in the length of a voxel, or of a cell of a flow; 2 or more find the largest values of narrow peaks."""
    level: Annotated[int, Field(ge=0)] | None = None
    """Of resolution, 0 the finest; null: as fine as pixels are. A flow has none."""
    within: tuple[Place, Place] | None = None
    """A box in space that is drawn, its lowest and highest corner; null: all."""
    planes: list[Plane] = []
    """Planes that cut it; what lies where their normals point is kept."""
    slices: dict[Literal["i", "j", "k"], tuple[int, int]] = {}
    """Which voxels along an axis are drawn, first and last, counted from 1."""
    projection: Literal["composite", "maximum", "mean", "surface"] = "composite"
    """Light of all samples; the map's colour of the largest or the mean value, behind what is composited; or the first place where
    `value` is reached, opaque."""
    value: Finite | None = None
    """Of the projection "surface"."""
    interpolation: Literal["linear", "nearest"] | None = None
    """Between voxels; null: linear, and the nearest voxel for labels."""
    shading: Shading | None = None
    """Light on gradients, of a flow on those of a scalar (`grad_NAME`); null: none."""
    opacity_from: Literal["alpha", "luminance", "distance"] | None = None
    """For colours as they are stored, what the nodes of `opacity` are over, from 0 to 1; null: alpha where there is one, else the
    distance from `background`."""
    background: str | None = None
    """A colour that is not shown; null: the one that is most often at the volume's faces."""
    labels: Labels | None = None
    """For numbers that are names; null: as the format says."""

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
    """Where the picture is taken from. What is null is fitted to what is drawn."""

    direction: Vector | None = None
    """From the target to the eye."""
    up: Vector | None = None
    """Direction that points up in the picture."""
    target: Place | None = None
    """What it looks at; null: the middle of what is drawn."""
    distance: Length | None = None
    """Of the eye from the target, in the units of the data; null: so that all is seen."""
    zoom: Positive = 1.0
    """Above 1: nearer."""
    fov_deg: Annotated[float, Field(gt=0, lt=170)] = 30.0
    """Degrees that a perspective camera sees from top to bottom."""
    projection: Literal["perspective", "orthographic"] = "perspective"
    """Lines that run together in the distance, or stay parallel."""

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
    """A light, infinitely far away."""

    direction: Vector
    """Towards the light. With `fixed_to` "camera": to the right, up and towards the eye."""
    color: str = "white"
    """Its colour."""
    intensity: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = 1.0
    """1 lights a surface that faces it in full."""
    fixed_to: Literal["camera", "scene"] = "camera"
    """Whether it goes along with the camera or stays where the data are."""

    @field_validator("direction")
    @classmethod
    def _points_somewhere(cls, value: Vector) -> Vector:
        return pointing(value, "a direction")


class Key(_Part):
    """Where the camera is at one picture of many; between two keys it moves evenly."""

    frame: Annotated[int, Field(ge=0)]
    """The picture, counted from 0."""
    step: Annotated[int, Field(ge=0)] | None = None
    """The time step that it shows; null: the scene's. Between two keys steps are counted evenly."""
    camera: Camera = Camera()
    """What is null is as for the whole scene."""


Size = tuple[Annotated[int, Field(gt=0, le=100_000)], Annotated[int, Field(gt=0, le=100_000)]]
Drawn = Annotated[Lines | Surface | Walls | Contour | Slice | Cores | Volume | Outline, Field(discriminator="kind")]


class View(_Part):
    """One of several pictures of the same objects, all made in one run. What is null is the scene's."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=60)]
    """Stands in the name of its file."""
    camera: Camera | None = None
    """Of its own; it stands still, whatever the scene's `path`."""
    size: Size | None = None
    """Width and height in pixels."""
    title: str | None = None
    """Written above it."""
    objects: list[Annotated[int, Field(ge=0)]] | None = None
    """Which of the scene's objects it shows, counted from 0; null: all."""


class Scene(_Part):
    """A picture, or pictures of many time steps.

    >>> import tempfile, farfield as ff
    >>> from farfield.scene import Lines, Outline, Trace
    >>> lines = Lines(trace=Trace(seeds="line:0.6,0.5,0.3:0.9,0.5,0.3:9"), color="density")
    >>> scene = ff.Scene(source="demo:box", objects=[Outline(), lines], size=(160, 90))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [drawn["name"] for drawn in ff.render(scene, folder + "/box.png")["drawn"]]
    ['outline', 'streamlines']
    """

    # What the schema says of it: the example is Python's.
    model_config = ConfigDict(
        json_schema_extra={
            "description": "A picture. Paths in a scene file (the source, files of lines and of seeds) are relative to its folder."
        }
    )

    version: Literal[1] = 1
    """Of the form of scene files."""
    source: str | None = None
    """As the command line takes it; null where only files of lines are drawn. This path, and those of lines and seeds, are
    relative to the working folder, in a file to the folder of that file."""
    step: Annotated[int, Field(ge=0)] = 0
    """Time step, counted from 0."""
    frames: str | list[int] | None = None
    """Of pictures of many time steps which, counted from 0: "0:100:2" (from, up to before, every) or a list; null: all."""
    define: dict[str, str] = {}
    """Fields made of others, names and expressions, as `--define` has them."""
    objects: list[Drawn] = []
    """What is drawn."""
    maps: dict[str, ColorMap] = {}
    """How fields become colours, by the names that objects have for it."""
    camera: Camera = Camera()
    """From where it is seen."""
    size: Size = (1600, 900)
    """Width and height in pixels."""
    background: str | tuple[str, str] = ("#20242c", "#0b0d11")
    """One colour, or top and bottom of a gradient."""
    lights: Annotated[list[Light], Field(max_length=8)] | None = None
    """Null: a key light from the upper left, a weak fill and the sky, which show surfaces in their own colours."""
    ambient: Annotated[float, Field(ge=0, le=10)] = 0.2
    """Light from everywhere, beside `lights`."""
    path: list[Key] = []
    """Key frames of the camera for pictures of many frames, in rising order: there are as many pictures as the last key says, and
    `frames` chooses some of them. None: the camera stands still, and each picture is of a time step."""
    scalar_bar: bool = True
    """Whether bars say what colours mean."""
    axes: bool = True
    """Whether the directions of x, y and z are shown."""
    scale_bar: bool | None = None
    """A rule that says how long something is; null: in parallel views of data whose unit of length is known. In perspective it
    holds at the camera's target."""
    title: str | None = None
    """Written above it."""
    time: bool | None = None
    """Write the time into the picture; null: where the dataset has several time steps."""
    views: list[View] = []
    """Pictures of the same objects, each with its own file; none: one picture with the camera and size of the scene."""
    samples: Annotated[int, Field(ge=1, le=4)] = 2
    """Samples of a pixel, along each side."""
    budget_s: Positive | None = None
    """Seconds that rays through volumes and fields of flows may take a picture: what could not be cast by then is filled from what
    is around it, and counted. Null: as long as they need."""

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
