"""The scene that Python sends is the one that Rust reads: crates/render/src/scene has the only definition of its keys."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DESERIALIZED = re.compile(
    r"#\[derive\([^)]*Deserialize[^)]*\)\]\s*(?:#\[[^\]]*\]\s*|///[^\n]*\n\s*)*(?:pub(?:\([^)]*\))? )?struct (\w+)[^{;]*\{"
)
FIELD = re.compile(r'(?:#\[serde\([^)]*rename = "(\w+)"[^)]*\)\]\s*)?(?:pub(?:\([^)]*\))? )?\b([a-z_0-9]+):(?!:)')


def rust_keys() -> dict[str, list[str]]:
    """Keys of each object of the document, by the struct that reads it."""
    found = {}
    for path in sorted((ROOT / "crates/render/src/scene").glob("*.rs")):
        text = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
        for match in DESERIALIZED.finditer(text):
            body = text[match.end() : text.index("\n}", match.end())]
            found[match[1]] = [renamed or name for renamed, name in FIELD.findall(body)]
    return found


def python_names() -> set[str]:
    """Names that the modules of the scene write: strings, keywords, fields of models."""
    found = set()
    package = ROOT / "python/farfield"
    for path in [*sorted((package / "scene").glob("*.py")), package / "flow/grid_surfaces.py"]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.keyword) and node.arg:
                found.add(node.arg)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
    return found


KEYS = rust_keys()


def test_the_definition_is_found() -> None:
    assert {"RawScene", "CameraSpec", "RawVolume", "RawLines"} <= KEYS.keys()
    assert "fov_deg" in KEYS["CameraSpec"] and len(KEYS["RawScene"]) > 15


@pytest.mark.parametrize("struct", KEYS)
def test_every_key_that_rust_reads_is_sent(struct: str) -> None:
    """A key that nobody sends is dead. One that Rust does not know is refused at run time, at every level of the document."""
    assert not [key for key in KEYS[struct] if key not in python_names()]
