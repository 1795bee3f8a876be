"""The page server: what it serves, to whom, its state, and data that are brought to it."""

from farfield.serving.server import ServeOptions, Serving, start
from farfield.serving.staging import stage

__all__ = ["ServeOptions", "Serving", "stage", "start"]
