"""What users can name, as a flat table of keys: commands and options, names of the package, scenes, settings, exit codes.

`python tests/surface.py` prints all of it as JSON, that of surface_printed.py with it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "baseline" / "surface.json"

Rows = dict[str, str]
"""What each key is, in words."""


def parameters() -> Iterator[tuple[str, Any]]:
    """Each parameter of each command, in order, with the command's words."""
    import typer

    from farfield.cli.app import build
    from farfield.cli.table import COMMANDS

    def walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", {})
        for name, child in children.items():
            yield from walk(child, f"{path} {name}".lstrip())
        if not children:
            yield from ((path, p) for p in command.params)

    yield from walk(typer.main.get_command(build(list(COMMANDS))), "")


def signature(thing: object) -> inspect.Signature:
    """Without annotations."""
    found = inspect.signature(thing)  # type: ignore[arg-type]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return found.replace(parameters=plain, return_annotation=inspect.Signature.empty)


def command_line() -> Rows:
    """`trace`, `trace SRC`, `trace --read-ahead`: what is typed after it, its default, its other names."""
    rows: Rows = {}
    arguments: Counter[str] = Counter()
    for path, p in parameters():
        words = path.split()
        rows |= {" ".join(words[: n + 1]): "command" for n in range(len(words))}
        is_option = p.opts[0].startswith("-")
        name = max(p.opts, key=len) if is_option else p.metavar or p.name.upper()
        arguments[path] += not is_option
        about = sorted({*p.opts, *p.secondary_opts} - {name}) if is_option else [f"argument {arguments[path]}"]
        flag = getattr(p, "is_flag", False) or getattr(p, "count", False)
        about.append("flag" if flag else p.metavar or _kind(p))
        about += ["required"] if p.required else []
        about += ["several"] if p.multiple or p.nargs != 1 else []
        about += [f"{word} {value}" for word in ("min", "max") if (value := _bound(p, word)) is not None]
        about += [f"default {p.default}"] if p.default not in (None, False) else []
        rows[f"{path} {name}"] = ", ".join(about)
    return rows


def _bound(parameter: Any, word: str) -> Any:
    return getattr(parameter if hasattr(parameter, "type_descriptor") else parameter.type, word, None)


def _kind(parameter: Any) -> str:
    """The type of an option that has no word for it; typer keeps it in one of two places."""
    descriptor = getattr(parameter, "type_descriptor", None)
    kind = descriptor.annotation if descriptor is not None else parameter.type.name.removesuffix(" range")
    return {"str": "text", "int": "integer"}.get(found := getattr(kind, "__name__", str(kind)), found)


SPECIAL = ("array", "contains", "enter", "exit", "getitem", "iter", "len")
"""Of the methods that Python calls by itself those that make something possible."""


def package(samples: Mapping[str, object]) -> Rows:
    """`farfield.open`, `farfield.open(source)`, `farfield.Dataset.fields`. `samples`: an object of each class that has
    attributes besides those that the class names."""
    import farfield
    from farfield import scene

    rows: Rows = {}
    for name in sorted(farfield.__all__):
        thing = getattr(farfield, name)
        if inspect.isclass(thing):
            rows |= _of_class(f"farfield.{name}", thing, samples.get(name))
        elif callable(thing):
            rows |= {f"farfield.{name}": "function"} | _of_call(f"farfield.{name}", thing)
        else:
            rows[f"farfield.{name}"] = "constant"
    for name, sample in samples.items():
        if name not in farfield.__all__:  # what calls give back, by the name that it shows
            rows |= _of_class(name, type(sample), sample)
    for name in sorted(scene.__all__):
        thing = getattr(scene, name)
        key = f"farfield.scene.{name}"
        rows |= {key: "class"} if inspect.isclass(thing) else {key: "function"} | _of_call(key, thing)
    return rows


def _of_class(key: str, thing: type, sample: object) -> Rows:
    import farfield

    known = {c.__name__: c for c in vars(builtins).values() if inspect.isclass(c) and c is not object}
    known |= {name: getattr(farfield, name) for name in farfield.__all__}
    above = [c.__name__ for c in thing.__mro__[1:] if known.get(c.__name__) is c]
    code = getattr(thing, "exit_code", None)
    about = ["class", *([f"({', '.join(above)})"] if above else []), *([f"exit code {code}"] if code else [])]
    rows = {key: " ".join(about)}
    own = {f"__{name}__" for name in SPECIAL}
    given = {*getattr(thing, "__dataclass_fields__", ()), *getattr(sample, "__dict__", ())}
    for member in sorted({*dir(thing), *given}):
        owner = next((c for c in thing.__mro__ if member in vars(c)), None)
        # Whatever class of ours has it: how they are put together is nothing that a user names.
        ours = owner is None or owner.__module__.startswith("farfield")
        if not ours or (member.startswith(("_", "model_")) and member not in own):
            continue
        value = inspect.getattr_static(thing, member, None)
        if member in given or not callable(getattr(value, "__func__", value)):
            rows[f"{key}.{member}"] = "attribute"
        else:
            rows[f"{key}.{member}"] = "method"
            rows |= _of_call(f"{key}.{member}", getattr(thing, member))
    return rows


def _of_call(key: str, thing: object) -> Rows:
    rows: Rows = {}
    given = [p for p in signature(thing).parameters.values() if p.name != "self"]
    for n, p in enumerate(given, 1):
        several = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        how = "several" if several else "by name" if p.kind is p.KEYWORD_ONLY else f"number {n}"
        default = [] if several else ["required"] if p.default is p.empty else [f"default {p.default!r}"]
        rows[f"{key}({p.name})"] = ", ".join([how, *default])
    return rows


def documents() -> Rows:
    """`SCENE.objects[volume].opacity`, and the same of results of experiments: types, limits, defaults."""
    from farfield.scene.files import json_schema
    from farfield_bench.result import result_schema

    return {**_of_schema("SCENE", json_schema()), **_of_schema("RESULT", result_schema())}


def _of_schema(top: str, schema: Mapping[str, Any]) -> Rows:
    rows: Rows = {}

    def whole(node: Any) -> Any:
        reference = node.get("$ref")
        return schema["$defs"][reference.rsplit("/", 1)[1]] if reference else node

    def below(node: Any, key: str) -> None:
        node = whole(node)
        for part in (*node.get("anyOf", ()), *node.get("oneOf", ())):
            kind = whole(part).get("properties", {}).get("kind", {}).get("const")
            below(part, f"{key.removesuffix('[]')}[{kind}]" if kind else key)
        if isinstance(node.get("items"), dict):
            below(node["items"], f"{key}[]")
        if isinstance(node.get("additionalProperties"), dict):
            below(node["additionalProperties"], f"{key}.*")
        for name, value in node.get("properties", {}).items():
            needed = ["required"] if name in node.get("required", ()) else []
            default = value.get("default")
            shown = [f"default {json.dumps(default)}"] if "default" in value and not isinstance(default, dict) else []
            rows[f"{key}.{name}"] = ", ".join([_type(value), *needed, *shown])
            below(value, f"{key}.{name}")

    below(schema, top)
    return rows


LIMITS = {
    "minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<",
    "minItems": "items >=", "maxItems": "items <=", "minLength": "length >=", "pattern": "like",
}  # fmt: skip


def _type(node: Mapping[str, Any]) -> str:
    if "const" in node or "enum" in node:
        return "|".join(json.dumps(value) for value in node.get("enum", [node.get("const")]))
    if several := [*node.get("anyOf", ()), *node.get("oneOf", ())]:
        return " or ".join(dict.fromkeys(_type(part) for part in several))
    limits = [f"{sign} {node[name]}" for name, sign in LIMITS.items() if name in node]
    kind = "object" if "$ref" in node else node.get("type", "anything")
    if kind == "array":
        items = node.get("prefixItems") or [node.get("items", {})]
        kind = f"[{', '.join(dict.fromkeys(map(_type, items)))}]"
    if isinstance(node.get("additionalProperties"), dict):
        kind = f"object of {_type(node['additionalProperties'])}"
    return " ".join([kind, *limits])


def exit_codes() -> Rows:
    """As the top of the command line says them."""
    from farfield.cli.table import help_text

    (said,) = re.findall(r"Exit codes: (.*?)\.$", help_text(), re.DOTALL | re.MULTILINE)
    return {f"exit code {code}": about for code, about in re.findall(r"(\d+) ([^,]+)", said.replace("\n", " "))}


def variables() -> Rows:
    """Of the environment: those of settings, and those that stand in the source as a word of their own."""
    import farfield
    from farfield.runtime.settings import SETTINGS

    rows: Rows = {}
    for path in sorted(Path(farfield.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and re.fullmatch(r"(FARFIELD|XDG)_[A-Z_]*[A-Z]", str(node.value)):
                rows[str(node.value)] = "variable"
    return rows | {s.variable: f"setting, default {s.default}" for s in SETTINGS.values()}


def present(folder: Path) -> dict[str, Rows]:
    """All of it, by section; `folder` is an empty one for what runs write."""
    import surface_printed as printed

    with printed.Workplace(folder) as place:
        return {
            "command line": command_line(),
            "words": place.words(),
            "package": package(place.samples()),
            "documents": documents(),
            "exit codes": exit_codes(),
            "environment": variables(),
            "printed": place.printed(),
            "counters": place.counters(),
        }


if __name__ == "__main__":
    import tempfile

    os.environ.pop("FARFIELD_UPDATE_SNAPSHOTS", None)
    with tempfile.TemporaryDirectory() as scratch:
        json.dump(present(Path(scratch)), sys.stdout, indent=1, sort_keys=True)
    print()
