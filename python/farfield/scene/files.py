"""Scenes on disk."""

from __future__ import annotations

import ast
import contextlib
import difflib
import inspect
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from farfield.errors import AccessError, DataError, FarfieldError, UnknownName, UsageError
from farfield.flow import seeds
from farfield.results import outputs
from farfield.scene import models
from farfield.scene.models import Contour, Drawn, Lines, Scene
from farfield.sources import places
from farfield.sources.parsing import parse
from farfield.sources.paths import moved
from farfield.sources.source import Source
from farfield.volume.formats import patterns
from farfield.volume.formats.detection import is_volume, split_variable
from farfield.volume.formats.options import Options

_NEARBY = 2
"""Largest number of steps up from a scene's folder for a relative path. Files so near are likely to move with the
scene."""


def load_scene(path: str | os.PathLike[str]) -> Scene:
    """Reads a scene file. Paths in the file are relative to its folder; in the `Scene`, to the working folder.

    Raises:
        DataError: if the file cannot be read.
        UsageError: if it is not JSON or not a scene; the message names the first wrong key.
    """
    name = os.fspath(path)
    if not os.path.lexists(name):
        raise outputs.not_there(name)
    try:
        text = Path(name).read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name}: not a scene: its byte {error.start + 1:,} is none of text in UTF-8; save it as UTF-8, or {_ANEW}"
        ) from error
    except OSError as error:
        raise DataError(f"{name}: cannot read the scene: {error.strerror or error}") from error
    try:
        scene = Scene.model_validate_json(text)
    except ValidationError as error:
        broken = next((e["ctx"]["error"] for e in error.errors(include_url=False) if e["type"] == "json_invalid"), None)
        if broken is not None:
            what = f"it is not JSON ({broken})" if text.strip() else "the file is empty"
            raise UsageError(f"{name}: not a scene: {what}; mend it there, or {_ANEW}") from error
        raise UsageError(f"{name}: not a scene: {explain(error)}") from error
    twice = _said_twice(text)
    if twice is not None:
        raise UsageError(f"{name}: not a scene: {twice}: the key occurs twice; remove one of them")
    folder = os.path.dirname(name)
    return _moved(scene, lambda inner: os.path.join(folder, os.path.expanduser(inner)))


_ANEW = "write a new one with 'farfield scene SRC -o FILE'"


class _Twice(dict[str, Any]):
    """A JSON object with a repeated key."""

    key: str


def _said_twice(text: str) -> str | None:
    """The place of the first repeated key. JSON readers silently use the last one.

    >>> _said_twice('{"a": [{"b": 1}, {"b": 2, "c": 3, "b": 4}]}')
    'a.1.b'
    """

    def hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        names = [name for name, _ in pairs]
        found = _Twice(found)
        found.key = next(name for n, name in enumerate(names) if name in names[:n])
        return found

    def place(value: Any, there: tuple[str, ...]) -> tuple[str, ...] | None:
        if isinstance(value, _Twice):
            return (*there, value.key)
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        return next((p for key, v in inner if (p := place(v, (*there, str(key)))) is not None), None)

    found = place(json.loads(text, object_pairs_hook=hook, parse_int=float), ())
    return None if found is None else ".".join(found)


def as_scene(document: Mapping[str, Any]) -> Scene:
    """A scene from a dictionary in the form of a scene file, with paths relative to the working folder.

    Raises:
        UsageError: if it is not a scene; the message names the first wrong key.
    """
    try:
        return Scene.model_validate(document)
    except ValidationError as error:
        raise UsageError(f"not a scene: {explain(error)}") from error


def files_of(
    scene: Scene,
    known: Source | None = None,
    *,
    scene_file: str | None = None,
    volume: Options | None = None,
) -> tuple[Source | None, list[str]]:
    """The dataset's files, or None without one, and the names of all files that drawing reads.

    Args:
        scene: The scene.
        known: The dataset's files, if already located.
        scene_file: The file of the scene, for messages.
        volume: Options of the source if it is a volume.

    Raises:
        DataError: if a file does not exist.
        UsageError: if the source or seeds are invalid.
    """
    read = [] if scene_file is None else [scene_file]
    try:
        if scene.source is not None and scene_file is not None and _is_same(scene.source, scene_file):
            raise UsageError("source: this is the scene itself; name the data that it shows")
        of_volume = scene.source is not None and known is None and is_volume(scene.source, volume)
        if of_volume and scene.source is not None:
            path = split_variable(places.expanduser(scene.source))[0]
            read += patterns.files_of(path) if patterns.is_pattern(path) else [path]
        named = None if of_volume else scene.source
        source = parse(named) if known is None and named is not None else known
        for n, drawn in enumerate(scene.objects):
            if not isinstance(drawn, Lines):
                continue
            if drawn.file is not None:
                if not os.path.exists(drawn.file):
                    # Lines from flags have no place in a scene file.
                    place = "" if scene_file is None else f"objects.{n}.file: "
                    raise DataError(f"{place}{drawn.file}: there is no such file of lines; 'farfield trace' writes one")
                read.append(drawn.file)
            elif drawn.trace is not None and isinstance(drawn.trace.seeds, str):
                seeds.resolve(drawn.trace.seeds)
                read += seeds.file_of(drawn.trace.seeds)
    except FarfieldError as error:
        if scene_file is None:
            raise
        folder = os.path.dirname(os.path.abspath(scene_file))
        hint = f"; paths in a scene are relative to its folder, {folder}" if isinstance(error, DataError) else ""
        raise type(error)(f"{scene_file}: {error}{hint}") from error
    return source, read if source is None else [*read, *source.reads()]


def _is_same(a: str, b: str) -> bool:
    """Whether both paths exist and are one file."""
    try:
        return places.samefile(places.expanduser(a), b)
    except (OSError, ValueError):
        return False


_PLACE = re.compile(
    r"(?:(?:objects|lights|path|views)\.\d+[\w.]*|(?:maps|define)\..+?|camera[a-z_.]*|step|frames|path|background|size|objects): "
)
"""Prefixes of messages about parts of a scene, from the extension and `to_native`."""
_OF_POINT = re.compile(r"objects\.(\d+)\.near: (.*\bthe point\b.*)", re.DOTALL)
"""Messages of the extension about the point of a local isosurface."""


@contextlib.contextmanager
def placed(scene: Scene, scene_file: str | None, *, of_flags: bool = False) -> Iterator[None]:
    """Adds the scene file's name to errors about a part of a scene. A scene of flags (`of_flags`) has no file, so its
    errors name no part."""
    try:
        yield
    except (UsageError, UnknownName, DataError, AccessError) as error:
        text = _of_lines(_in_words_of_scenes(str(error)), scene)
        text = _of_point(text, scene) if isinstance(error, UsageError) else text
        place = _PLACE.match(text)
        if place is not None and of_flags:
            raise type(error)(text[place.end() :]) from error
        own = next((name for name in scene.define if text.startswith((f"'{name} = ", f"'{name}' cannot be"))), None)
        if scene_file is None or (place is None and own is None):
            if text != str(error):
                raise type(error)(text) from error
            raise
        key = "" if own is None else f"define.{own}: "
        raise type(error)(f"{scene_file}: {key}{text}") from error


_OF_KEYS = {"the camera's ": "camera", "a picture of ": "size", "a picture takes ": "objects"}
"""Beginnings of messages without a key, and the key for each."""


def _in_words_of_scenes(text: str) -> str:
    """Rewrites an error of the extension with a place in the form of scene files.

    >>> _in_words_of_scenes("scene: objects[3]: voxels.i: no"), _in_words_of_scenes("a picture of 9 x 0 pixels cannot be")
    ('objects.3: voxels.i: no', 'size: a picture of 9 x 0 pixels cannot be')
    """
    bare = re.sub(r"^scene: (\w+)\[(\d+)\]: ", r"\1.\2: ", text).removeprefix("scene: ")
    if bare != text and _PLACE.match(bare):
        return bare
    key = next((key for begin, key in _OF_KEYS.items() if text.startswith(begin)), None)
    return text if key is None else f"{key}: {text}"


def _of_lines(text: str, scene: Scene) -> str:
    """Adds advice to an error of the extension about a file of lines."""
    names = [o.file for o in scene.objects if isinstance(o, Lines) and o.file is not None]
    name = next((name for name in names if text.startswith(f"{name}: ")), None)
    reason = "" if name is None else text.removeprefix(f"{name}: ")
    if name is None or "farfield trace" in reason or not _OF_LINES.match(reason):
        return text
    with contextlib.suppress(OSError):
        if not os.path.getsize(name):
            reason = "the file is empty"
        elif reason == "is not a VTK XML file":
            reason = "this is no file of lines, neither a .vtp nor an .npz"
    return f"{name}: {reason}; write it again with 'farfield trace'"


_OF_LINES = re.compile(r"(is|ends|has|holds|array|there are|the)\b[^;]*$")
"""Messages of the extension about a file of lines that lack advice."""


def _of_point(text: str, scene: Scene) -> str:
    """Adds the key and the point to an error about the point of a local isosurface."""
    found = _OF_POINT.match(text)
    drawn = None if found is None else scene.objects[int(found[1])]
    if found is None or not isinstance(drawn, Contour) or drawn.near is None:
        return text
    said = found[2]
    if "the point (" not in said:
        numbers = ", ".join(f"{v:.6g}" for v in drawn.near)
        said = said.replace("the point", f"the point ({numbers})", 1)
    if "lies " in said:
        said += "; choose a point within the data, on or beside the surface that is meant"
    return f"objects.{found[1]}.near: {said}"


def placed_text(text: str, scene_file: str | None, *, of_flags: bool) -> str:
    """A sentence that begins with a place in a scene, in the form of `placed`.

    >>> placed_text("objects.0.within: it is outside", "a.json", of_flags=False)
    'a.json: objects.0.within: it is outside'
    """
    place = _PLACE.match(text)
    if of_flags and place is not None:
        return text[place.end() :]
    return text if scene_file is None else f"{scene_file}: {text}"


def _moved(scene: Scene, move: Callable[[str], str]) -> Scene:
    """Applies `move` to each path of a scene."""
    return scene.model_copy(
        update={
            "source": scene.source and moved(scene.source, move),
            "objects": [_moved_lines(o, move) if isinstance(o, Lines) else o for o in scene.objects],
        }
    )


def _moved_lines(lines: Lines, move: Callable[[str], str]) -> Lines:
    if lines.file is not None:
        return lines.model_copy(update={"file": move(lines.file)})
    if lines.trace is not None and seeds.file_of(lines.trace.seeds):
        return lines.model_copy(
            update={"trace": lines.trace.model_copy(update={"seeds": move(str(lines.trace.seeds))})}
        )
    return lines


def _seen_from(folder: str, path: str) -> str:
    """Converts a path to one relative to `folder` if it is in or near it, else to an absolute path."""
    here = os.path.join(os.getcwd(), os.path.expanduser(path))

    def is_same(name: str) -> bool:
        # `..` after a link leads to another folder than the text suggests.
        return os.path.realpath(name) == os.path.realpath(here)

    plain = os.path.normpath(here)
    near = os.path.relpath(plain, folder)
    is_near = near.split(os.sep).count(os.pardir) <= _NEARBY and os.path.commonpath([plain, folder]) != os.sep
    if is_near and is_same(os.path.join(folder, near)):
        return near
    return plain if is_same(plain) else here


def explain(error: ValidationError) -> str:
    """The first error, in one clause.

    >>> try:
    ...     Scene(size=(0, 10))
    ... except ValidationError as error:
    ...     explain(error)
    'size.0: Input should be greater than 0'
    """
    errors = error.errors(include_url=False)
    # A missing key is often present under a wrong name.
    first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
    parts = list(first["loc"])
    kind = _KINDS.get(str(parts[2])) if parts[:1] == ["objects"] and len(parts) > 2 else None
    if kind is not None:
        del parts[2]  # names the type of the object, which is no key of the file
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = _no_such("key", str(parts[-1]), _keys(parts, kind))
    elif first["type"] == "union_tag_invalid":
        message = _no_such("kind", str(first["ctx"]["tag"]), list(_KINDS))
    elif first["type"] == "union_tag_not_found":
        message = f"it needs a 'kind': {', '.join(_KINDS)}"
    either = next((n for n, part in enumerate(parts[:-1]) if part in _EITHER), None)
    if either is not None and isinstance(parts[either + 1], str):
        # Deeper keys name alternatives of the model.
        message, errors = _EITHER[str(parts[either])], errors[:1]
        del parts[either + 1 :]
    place = ".".join(str(part) for part in parts)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place + ': ' if place else ''}{message}{more}"


_EITHER = {
    "background": "one colour, or two in a list: of the top and of the bottom",
    "normal": "x, y or z, or three numbers in a list",
    "seeds": "text as 'farfield trace' takes it, or positions in a list, of three numbers each",
    "frames": 'text like "0:100:2", or time steps in a list',
}
"""Accepted forms of keys that have several."""
_KINDS: dict[str, type[BaseModel]] = {
    str(model.model_fields["kind"].default): model for model in get_args(get_args(Drawn)[0])
}


def _no_such(what: str, name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"no {what} '{name}'; {hint}there are: {', '.join(known)}"


def _keys(parts: Sequence[int | str], kind: type[BaseModel] | None) -> list[str]:
    """The valid keys at the place of the last part."""
    model: type[BaseModel] = Scene
    for n, part in enumerate(parts[:-1]):
        if n == 1 and kind is not None:
            model = kind
        elif isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The single model in an annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = {model for model in map(_model_in, get_args(annotation)) if model is not None}
    return found.pop() if len(found) == 1 else None


def save_scene(scene: Scene, path: str | os.PathLike[str]) -> None:
    """Writes a scene file for `load_scene` and `farfield render`. Paths in or near its folder become relative to it,
    others absolute.

    Raises:
        DataError: if the file cannot be written.
    """
    folder = os.path.dirname(os.path.abspath(path))
    scene = _moved(scene, lambda inner: _seen_from(folder, inner))
    try:
        Path(path).write_text(scene.model_dump_json(indent=2, exclude_defaults=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{os.fspath(path)}: cannot write the scene: {error.strerror or error}") from error


def json_schema() -> dict[str, Any]:
    """The JSON Schema of scene files, with the model's descriptions of keys."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Scene.model_json_schema()}
    for name, said in _said_of_keys().items():
        properties = (schema if name == "Scene" else schema["$defs"].get(name, {})).get("properties", {})
        for key in said.keys() & properties.keys():
            properties[key].setdefault("description", said[key])
    return schema


def _said_of_keys() -> dict[str, dict[str, str]]:
    """The docstring of each key, by class and key. Reading them here, not in the model, saves a tenth of a second per
    picture."""
    tree = ast.parse(inspect.getsource(models))
    found: dict[str, dict[str, str]] = {}
    for part in (part for part in tree.body if isinstance(part, ast.ClassDef)):
        for key, text in itertools.pairwise(part.body):
            match key, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as said)):
                    found.setdefault(part.name, {})[name] = inspect.cleandoc(said)
    return found


def is_scene_file(name: str) -> bool:
    """Whether a name is that of a scene, not of a source.

    >>> is_scene_file("wing.json"), is_scene_file("wing.p3d.json"), is_scene_file("wing.xyz+q=wing.q")
    (True, False, False)
    """
    return name.endswith(".json") and not name.endswith(".p3d.json")
