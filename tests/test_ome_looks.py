"""How OME-Zarr says that it is shown: channels that are switched off, colours of labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import farfield
from farfield.scene.models import Volume
from farfield.scene.volumes import first_scene
from running import Json

zarr = pytest.importorskip("zarr")

AXES = [{"name": "c", "type": "channel"}, *({"name": n, "type": "space", "unit": "micrometer"} for n in "zyx")]


def image(path: Path, data: np.ndarray[Any, Any], **attributes: Any) -> Path:
    group = zarr.open_group(path, mode="w", zarr_format=2)
    group.create_array("0", data=data, chunks=(1, *data.shape[1:]))
    placed = [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [1.0, 2.0, 0.5, 0.5]}]}]
    group.attrs.update({"multiscales": [{"version": "0.4", "axes": AXES, "datasets": placed}], **attributes})
    return path


def channels(*active: bool) -> dict[str, Any]:
    return {"channels": [{"label": f"c{n}", "color": "00FF00", "active": on} for n, on in enumerate(active)]}


@pytest.mark.parametrize(
    ("active", "shown"), [((True, False, True), ["c0", "c2"]), ((False, False, False), ["c0", "c1", "c2"])]
)
def test_channels_that_are_off_are_not_shown(
    active: tuple[bool, ...], shown: list[str], ff_json: Json, tmp_path: Path
) -> None:
    data = np.random.default_rng(1).integers(0, 999, (3, 4, 5, 6)).astype(np.uint16)
    source = image(tmp_path / "a.zarr", data, omero=channels(*active))
    with farfield.open(source) as volume:
        scene = first_scene(volume, str(source))
        assert [o.field for o in scene.objects if isinstance(o, Volume)] == shown
        assert volume.slice_image(normal="z", size=(6, 5)).values.shape == (5, 6, 3)
    words = ("extract", "slice", source, "--normal", "z", "--size", "6x5", "-o", tmp_path / "a.png")
    assert [f["name"] for f in ff_json(*words)["fields"]] == shown
    assert [f["name"] for f in ff_json(*words, "--field", "c1")["fields"]] == ["c1"]
    # A copy of it says the same, to us and to others.
    copy = tmp_path / "copy.zarr"
    ff_json("convert", source, copy)
    with farfield.open(copy) as volume:
        assert [o.field for o in first_scene(volume, str(copy)).objects if isinstance(o, Volume)] == shown
    said = json.loads((copy / "zarr.json").read_text())["attributes"]["ome"]["omero"]["channels"]
    assert [c["label"] for c in said if c["active"]] == shown


def test_labels_have_the_colours_of_the_file(ff_json: Json, tmp_path: Path) -> None:
    colors = [{"label-value": 7, "rgba": [255, 128, 0, 255]}, {"label-value": 0, "rgba": [0, 0, 0, 0]}, {"rgba": [1]}]
    data = np.full((1, 4, 5, 6), 7, np.int32)
    source = image(tmp_path / "a.zarr", data, **{"image-label": {"version": "0.4", "colors": colors}})
    with farfield.open(source) as volume:
        (drawn,) = (o for o in first_scene(volume, str(source)).objects if isinstance(o, Volume))
        assert drawn.labels is not None and drawn.labels.colors == {"7": "#ff8000"}
    copy = tmp_path / "copy.zarr"
    ff_json("convert", source, copy)
    with farfield.open(copy) as volume:
        (drawn,) = (o for o in first_scene(volume, str(copy)).objects if isinstance(o, Volume))
        assert drawn.labels is not None and drawn.labels.colors == {"7": "#ff8000"}
    said = json.loads((copy / "zarr.json").read_text())["attributes"]["ome"]["image-label"]
    assert said["colors"] == [{"label-value": 7, "rgba": [255, 128, 0, 255]}]


def test_pictures_say_which_colour_is_which_channel(ff_json: Json, tmp_path: Path) -> None:
    data = np.random.default_rng(2).integers(0, 999, (3, 4, 5, 6)).astype(np.uint16)
    colors = {"nuclei": "FF0000", "membrane": "0000FF", "off": "00FF00"}
    omero = {"channels": [{"label": n, "color": c, "active": n != "off"} for n, c in colors.items()]}
    source = image(tmp_path / "a.zarr", data, omero=omero)

    def squares(*words: object) -> list[int]:
        """Pixels that have the colour of a channel exactly, in the upper left corner."""
        out = tmp_path / "a.png"
        ff_json("render", source, *words, "--size", "400x300", "-o", out)
        with Image.open(out) as picture:
            corner = np.asarray(picture.convert("RGB"))[:80, :30]
        wanted = [tuple(bytes.fromhex(c)) for c in colors.values()]
        return [int((corner == c).all(axis=2).sum()) for c in wanted]

    red, blue, green = squares()
    assert red == blue >= 16 and green == 0, (red, blue, green)
    assert squares("--color", "nuclei") == [0, 0, 0]
    assert squares("--no-bar") == [0, 0, 0]
