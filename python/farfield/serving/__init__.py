"""The page server: what it serves, to whom, and its state. `staging` brings data to it."""

from farfield.serving.server import ServeOptions, Serving, start

__all__ = ["ServeOptions", "Serving", "start"]
