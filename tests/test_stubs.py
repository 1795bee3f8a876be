"""What the extension gives has the keys that its stubs promise, those and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import farfield as ff
from running import Json

STUBS = (Path(ff.__file__).parent / "_native.pyi").read_text()

Form = dict[str, Any]
MARKS = {"extract_surface": '"grid_surface": writes'}
"""Where the stubs say what a job gives, of those that are no functions."""


def form(*marks: str) -> Form:
    """The keys of the object that stands behind these words in the stubs, each with those of the objects in it; `*` for any."""
    at = 0
    for mark in marks:
        at = STUBS.index(mark, at) + len(mark)
    plain = re.sub(r"#.*", "", STUBS[STUBS.index("{", at) :])
    top: Form = {}
    inside, names, before = [top], ["*"], ""
    for token in re.findall(r'"[a-z_]+"|[{}\[\],:|]', plain):
        if token == "{":
            made: Form = {}
            inside[-1][names[-1]] = made
            inside.append(made)
            names.append("*")
        elif token == "}":
            inside.pop()
            names.pop()
            if len(inside) == 1:
                break
        elif token[0] == '"' and before in ("{", ","):  # elsewhere it is a value
            names[-1] = token.strip('"')
            inside[-1][names[-1]] = {}
        before = token
    found: Form = top["*"]
    return found


def check(found: Any, promised: Form, place: str) -> None:
    if isinstance(found, list):
        for item in found:
            check(item, promised, place)
    elif isinstance(found, dict) and promised:
        assert "*" in promised or found.keys() == promised.keys(), (place, found.keys() ^ promised.keys())
        for key, value in found.items():
            check(value, promised.get(key) or promised.get("*", {}), f"{place} {key}")


def test_forms_are_understood() -> None:
    stats, info = form("STATS = "), form("INFO = ")
    assert {"wall_s", "pages", "warnings"} < stats.keys() and "faults" in stats["pages"] and "io_uring" not in stats
    assert info["walls"].keys() == {"zone", "axis", "index"} and info["settings"] == {}
    assert form("def render(", "Result: ")["maps"] == {"*": {"field": {}, "range": {}, "units": {}}}


def test_numbers_of_runs(store: Path, ff_json: Json, tmp_path: Path) -> None:
    promised = form("STATS = ")
    runs: tuple[tuple[object, ...], ...] = (
        ("info", store, "--ranges"),
        ("convert", store, tmp_path / "s.zarr"),
        ("probe", store, 0.5, 0.5, 0.5),
        ("trace", store, "--seeds", "random:3:1", "-o", tmp_path / "l.npz"),
        ("render", store, "--size", "80x60", "-o", tmp_path / "p.png"),
        ("render", "--lines", tmp_path / "l.npz", "--size", "80x60", "-o", tmp_path / "p.png"),
        ("extract", "grid-surface", store, "--surface", "zone1:k=1", "-o", tmp_path / "s.vtp"),
        ("validate", store),
    )
    for words in runs:
        found = ff_json(*words)
        assert promised.keys() <= found.keys(), (words, promised.keys() - found.keys())
        assert promised["pages"].keys() <= found["pages"].keys(), (words, found["pages"])


def test_results(flow: str, store: Path, tmp_path: Path) -> None:
    stats, summary = form("STATS = "), form("SUMMARY of a trace = ")
    found = {"convert": ff.convert(flow, tmp_path / "s.zarr"), "validate": ff.validate(flow)}
    for source in (flow, store, "demo:taper"):
        with ff.open(source) as ds:
            for ranges in (False, True):
                check(ds.info(ranges=ranges), form("INFO = "), f"info of {source}")
            check(ds.stats(), stats, "stats")
            check(json.loads(ds._native.look()), form("def look("), "look")
            probed = json.loads(ds._native.probe((0.9, 0.5, 0.5)))
            assert probed.keys() == form("def probe(").keys()
            lines = ds.streamlines(seeds="random:3:1", max_steps=9)
            traced = ds.trace(tmp_path / "l.vtp", options={"seeds": "random:3:1", "max_steps": 9})
            for run in (lines.summary, traced):
                check(run, summary, "summary")
                check(run["stats"], stats, "stats of a trace")
            surface = tmp_path / "s.vtp"
            found["extract_surface"] = ff.extract_surface(ds, surface, surfaces=["zone1:k=1"])
            found["render"] = ff.render(ds, tmp_path / "p.png", size=(80, 60))
        for name, result in found.items():
            check(result, form(MARKS.get(name, f"def {name}("), "Result: "), name)
            check(result["stats"], stats, f"stats of {name}")
