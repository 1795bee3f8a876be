"""The scene model. JSON Schema is made from it (`json_schema`), and a test holds the copy in docs/ to it."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from farfield.errors import FarfieldError
from farfield.names import field_names
from farfield.surfaces import parse_surface

Vector = tuple[float, float, float]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


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
    units: str | None = None
    """Null: the field's own."""

    @field_validator("range")
    @classmethod
    def _rising(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and not value[0] < value[1]:
            raise ValueError(f"a range goes from the lower to the higher value, not {value[0]:g} to {value[1]:g}")
        return value


class Trace(_Part):
    """Streamlines traced for the picture, with the words of `farfield trace`."""

    seeds: str | list[Vector]
    """A shape or a file as `farfield trace` takes them, or positions."""
    field: str = "velocity"
    direction: Literal["forward", "backward", "both"] = "both"
    integrator: Literal["rk45", "rk45-physical", "rk4", "euler"] = "rk45"
    tolerance: Positive = 1e-5
    initial_step: Positive | None = None
    max_step: Positive | None = None
    max_length: Positive | None = None
    max_time: Positive | None = None
    max_steps: Annotated[int, Field(gt=0)] | None = 2000
    """Null, here as above: no bound."""
    terminal_speed: Annotated[float, Field(ge=0)] = 1e-12
    scalars: list[str] = []

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
    trace: Trace | None = None
    color: str | None = None
    """A map's name, a field's name, or a colour (`"#ffcc00"`, `"tomato"`); null: white."""
    radius: Positive | None = None
    """In the units of the grid; null: from the size of what is drawn."""

    @model_validator(mode="after")
    def _one_origin(self) -> Lines:
        if (self.file is None) == (self.trace is None):
            raise ValueError("lines come from a file or from a trace: give one of the two")
        return self


class Surface(_Part):
    """One grid surface."""

    kind: Literal["surface"] = "surface"
    surface: str
    """`zone1:k=1`: all points with that index (1-based)."""
    color: str | None = None
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
    mesh: bool = False


class Outline(_Part):
    """The edges of zones, as they lie in space."""

    kind: Literal["outline"] = "outline"
    zone: str | None = None
    """Null: all zones."""
    color: str | None = None
    width: Positive = 1.0
    """Pixels."""


class Camera(_Part):
    """Where the picture is taken from. What is null is fitted to what is drawn."""

    direction: Vector | None = None
    """From the target to the eye."""
    up: Vector | None = None
    target: Vector | None = None
    distance: Positive | None = None
    zoom: Positive = 1.0
    fov_deg: Annotated[float, Field(gt=0, lt=170)] = 30.0
    projection: Literal["perspective", "orthographic"] = "perspective"

    @field_validator("direction", "up")
    @classmethod
    def _points_somewhere(cls, value: Vector | None) -> Vector | None:
        if value is not None and not (math.hypot(*value) > 0 and math.isfinite(math.hypot(*value))):
            raise ValueError("a direction has a length")
        return value


Drawn = Annotated[Lines | Surface | Walls | Outline, Field(discriminator="kind")]


class Scene(_Part):
    """A picture.

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
    source: str | None = None
    """As the command line takes it; null where only files of lines are drawn. This path, and those of lines and seeds, are
    relative to the working folder, in a file to the folder of that file."""
    step: Annotated[int, Field(ge=0)] = 0
    objects: list[Drawn] = []
    maps: dict[str, ColorMap] = {}
    camera: Camera = Camera()
    size: tuple[Annotated[int, Field(gt=0, le=100_000)], Annotated[int, Field(gt=0, le=100_000)]] = (1600, 900)
    background: str | tuple[str, str] = ("#20242c", "#0b0d11")
    """One colour, or top and bottom of a gradient."""
    scalar_bar: bool = True
    axes: bool = True
    title: str | None = None
    samples: Annotated[int, Field(ge=1, le=4)] = 2
    """Samples of a pixel, along each side."""

    @model_validator(mode="after")
    def _has_source(self) -> Scene:
        needy = [o.kind for o in self.objects if not (isinstance(o, Lines) and o.file is not None)]
        if self.source is None and needy:
            raise ValueError(f"the scene has no source, which its {needy[0]} needs")
        return self
