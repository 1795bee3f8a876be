"""Scenes: documents that describe pictures, to save, edit and draw again.

>>> scene = Scene(source="flow.xyz+q=flow.q", objects=[{"kind": "surface", "surface": "zone1:k=1", "color": "mach"}])
>>> scene.objects[0].kind, scene.size
('surface', (1600, 900))
"""

from __future__ import annotations

from farfield.scene.defaults import default_scene
from farfield.scene.files import json_schema, load_scene, save_scene
from farfield.scene.models import (
    Camera,
    ColorMap,
    Contour,
    Cores,
    Key,
    Light,
    Lines,
    Outline,
    Plane,
    Scene,
    Slice,
    Surface,
    Trace,
    View,
    Volume,
    Walls,
)

__all__ = [
    "Camera",
    "ColorMap",
    "Contour",
    "Cores",
    "Key",
    "Light",
    "Lines",
    "Outline",
    "Plane",
    "Scene",
    "Slice",
    "Surface",
    "Trace",
    "View",
    "Volume",
    "Walls",
    "default_scene",
    "json_schema",
    "load_scene",
    "save_scene",
]
