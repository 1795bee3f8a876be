"""Scenes on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from farfield.errors import DataError, UsageError
from farfield.scene.models import Scene


def load_scene(path: str | os.PathLike[str]) -> Scene:
    """Reads a scene file; its relative paths are relative to the working folder, as on the command line.

    Raises:
        DataError: if the file cannot be read.
        UsageError: if it is not a scene; the message names the first key that is wrong.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DataError(f"{os.fspath(path)}: cannot read the scene: {reason}") from error
    try:
        return Scene.model_validate_json(text)
    except ValidationError as error:
        raise UsageError(f"{os.fspath(path)}: not a scene: {explain(error)}") from error


def explain(error: ValidationError) -> str:
    """The first thing that is wrong, in one clause.

    >>> try:
    ...     Scene(size=(0, 10))
    ... except ValidationError as error:
    ...     explain(error)
    'size.0: Input should be greater than 0'
    """
    errors = error.errors(include_url=False)
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place + ': ' if place else ''}{first['msg'].removeprefix('Value error, ')}{more}"


def save_scene(scene: Scene, path: str | os.PathLike[str]) -> None:
    """Writes a scene file that `load_scene` and `farfield render` read.

    Raises:
        DataError: if it cannot be written.
    """
    try:
        Path(path).write_text(scene.model_dump_json(indent=2, exclude_defaults=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot write the scene: {error.strerror or error}") from error


def json_schema() -> dict[str, Any]:
    """The JSON Schema of scene files."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Scene.model_json_schema()}
