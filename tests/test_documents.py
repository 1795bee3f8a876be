"""The documents of the house: the map, its glossary, and the decisions. They name files that exist and keep their form."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAP = ROOT / "ARCHITECTURE.md"
PACKAGE = ROOT / "python" / "farfield"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
INDEX = ROOT / "docs" / "decisions" / "README.md"
DOCUMENTS = [MAP, INDEX, *DECISIONS]
LINES_AT_MOST = 150
TERMS_AT_MOST = 60
SECTIONS = ["Context", "Decision", "Measured", "Rejected"]
MEMBERS = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["members"]


def section(name: str) -> str:
    return re.split(rf"^## {name}\n", MAP.read_text(encoding="utf-8"), flags=re.MULTILINE)[1].split("\n## ")[0]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of a table's rows, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def parts() -> dict[str, str]:
    """The rows of the code map, by the crate or package that they belong to."""
    found: dict[str, str] = {}
    part = ""
    for name, text in rows(section("Code map")):
        if match := re.fullmatch(r"\*\*(.+)\*\*", name):
            part = match[1]
        found[part] = found.get(part, "") + f"{name} {text}\n"
    return found


def test_the_map_is_short() -> None:
    assert len(MAP.read_text(encoding="utf-8").splitlines()) <= LINES_AT_MOST


def test_the_glossary_has_each_term_once() -> None:
    terms = [cells[0] for cells in rows(section("Glossary"))]
    assert 0 < len(terms) <= TERMS_AT_MOST
    assert sorted({t.lower() for t in terms}) == sorted(t.lower() for t in terms)


def test_every_crate_and_package_is_on_the_map() -> None:
    assert [part for part in parts() if part.startswith("crates/")] == MEMBERS
    packages = sorted(p.parent.relative_to(PACKAGE.parent) for p in PACKAGE.rglob("__init__.py"))
    lacking = [".".join(p.parts) for p in packages[1:] if f"`{'.'.join(p.parts)}`" not in section("Code map")]
    assert not lacking and "python/farfield" in parts()


@pytest.mark.parametrize("part", [*MEMBERS, "python/farfield"])
def test_modules_are_on_the_map(part: str) -> None:
    """Each at the top of its crate or package, and none that is not there."""
    top = ROOT / part / ("src" if part in MEMBERS else "")
    files = {p.stem for p in top.iterdir() if p.suffix in (".rs", ".py") or (p.is_dir() and (p / "mod.rs").exists())}
    named = {word for word in re.findall(r"`(\w+)`", parts()[part]) if part in MEMBERS or (top / f"{word}.py").exists()}
    assert named == files - {"lib", "tests", "__init__", "__main__"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.stem)
def test_links_lead_to_files(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    assert not [link for link in links if "://" not in link and not (document.parent / link).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.stem)
def test_named_files_exist(document: Path) -> None:
    """`crate/module.rs` is in that crate's src, a Python file in the package; others are named from the top or from crates."""

    def exists(name: str) -> bool:
        crate, _, rest = name.partition("/")
        places = [ROOT / name, ROOT / "crates" / name, ROOT / "crates" / crate / "src" / rest]
        places += [PACKAGE / name, ROOT / "bench" / "python" / name]
        return any(place.is_file() for place in places)

    names = re.findall(r"`([\w./-]+\.(?:rs|py|toml|md))`", document.read_text(encoding="utf-8"))
    assert not [name for name in names if not exists(name)]


@pytest.mark.parametrize("document", DECISIONS, ids=lambda p: p.stem)
def test_decisions_keep_their_form(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert re.match(rf"# {document.name[:3]}\. \S", text)
    sections = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert sections == [s for s in SECTIONS if s in sections] and sections[:2] == SECTIONS[:2]
    bodies = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert all(body.strip() for body in bodies)


def test_the_index_lists_every_decision() -> None:
    assert [int(d.name[:3]) for d in DECISIONS] == list(range(1, len(DECISIONS) + 1))
    titles = [re.findall(r"^# (\d+)\. (.+)$", d.read_text(encoding="utf-8"), flags=re.MULTILINE)[0] for d in DECISIONS]
    listed = [(n, link, sentence) for n, link, sentence in rows(INDEX.read_text(encoding="utf-8"))]
    assert [(n, link) for n, link, _ in listed] == [
        (n, f"[{title}]({d.name})") for (n, title), d in zip(titles, DECISIONS, strict=True)
    ]
    assert all(sentence.endswith(".") for _, _, sentence in listed)
