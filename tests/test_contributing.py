"""CONTRIBUTING.md names the files that a new part touches: compared with the parts that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from farfield.runtime.settings import REPLACEMENT

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PRODUCT = ("crates", "python", "bench/python")


def listed(part: str) -> list[str]:
    """Files of the table below a heading."""
    section = TEXT.split(f"### {part}\n")[1].split("\n### ")[0]
    return re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)


def naming(pattern: str) -> set[str]:
    """Files of the product, without tests, in which a pattern occurs."""
    found = set()
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*")):
            inner = path.relative_to(ROOT)
            of_product = path.suffix in (".rs", ".py", ".pyi") and "tests" not in inner.parts and path.stem != "tests"
            if of_product and re.search(pattern, path.read_text(encoding="utf-8")):
                found.add(str(inner))
    return found


def test_every_file_that_is_named_exists() -> None:
    names = re.findall(r"`((?:crates|python|tests|tools|docs|bench)/[\w/.]+)`", TEXT)
    assert len(names) > 20
    assert not [
        name
        for name in names
        if not {"NAME", "FAMILY", "KIND"} & set(re.split(r"\W", name)) and not (ROOT / name).exists()
    ]


def test_every_command_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+%?):", makefile, re.MULTILINE))
    for name in re.findall(r"`make ([a-z-]+)(?:NAME)?`", TEXT):
        assert name in targets or f"{name}%" in targets, name


@pytest.mark.parametrize(
    ("part", "example", "pattern"),
    [
        ("A replacement policy", "sieve", r"\bSieve\b|\bsieve\b"),
        ("A volume format", "nrrd", r"raster\.nrrd\b|is_nrrd|raster import nrrd\b"),
        ("A flow format", "uneven", r"\"farfield\.flow\.formats\.uneven\""),
        ("A kernel", "surfaces", r"\bsurfaces::job\b|fn job\(.*SurfaceSpec"),
    ],
)
def test_a_part_touches_the_files_of_its_list(part: str, example: str, pattern: str) -> None:
    """Everywhere an example of the part is named stands on the list."""
    allowed = {name.replace("NAME", "*").replace("FAMILY", "*") for name in listed(part)}
    own = {name for name in naming(pattern) if Path(name).stem != example}
    assert own and not [name for name in own if not any(Path(name).match(a) for a in allowed)], own


def test_python_and_rust_name_the_same_policies() -> None:
    policies = (ROOT / "crates/pager/src/policy").glob("*.rs")
    names = {
        name
        for path in policies
        for name in re.findall(r'const NAME: &\'?\w*\s*str = "([^"]+)"', path.read_text("utf-8"))
    }
    assert names == set(REPLACEMENT)


def test_lists_are_as_short_as_they_must_be() -> None:
    assert len(listed("A flow format")) <= 2  # and a test
    assert len(listed("A kernel")) <= 5
