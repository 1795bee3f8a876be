"""What holds the house together: the chain of crates, the size of files, the public surfaces, the schemas, the version.

Snapshots are in tests/snapshots and docs/; FARFIELD_UPDATE_SNAPSHOTS=1 writes them anew, and the change is then read in review.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import surface
from rust_modules import Crate, type_names
from rust_modules import circles as circles_of_files

ROOT = Path(__file__).resolve().parent.parent
SNAPSHOTS = ROOT / "tests" / "snapshots"
LINES_AT_MOST = 600

# A crate may use those before it.
CHAIN = [
    "pager",
    "field",
    "testing",
    "kernels",
    "output",
    "profile",
    "convert",
    "runtime",
    "trace",
    "extract",
    "render",
    "bench",
    "python-calls",
    "python",
    "bench-python",
]


def sources(*suffixes: str) -> Iterator[Path]:
    for top in ("crates", "python", "bench", "tests"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in suffixes and "target" not in path.parts and "__pycache__" not in path.parts:
                yield path


def snapshot(path: Path, text: str) -> None:
    if os.environ.get("FARFIELD_UPDATE_SNAPSHOTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists() and path.read_text(encoding="utf-8") == text, (
        f"{path.relative_to(ROOT)} is not what the code has; if that is meant, FARFIELD_UPDATE_SNAPSHOTS=1 writes it anew"
    )


@pytest.mark.parametrize("crate", CHAIN)
def test_crates_form_a_chain(crate: str) -> None:
    manifest = tomllib.loads((ROOT / "crates" / crate / "Cargo.toml").read_text())
    assert manifest["package"]["name"] == f"farfield-{crate}"
    below = set(CHAIN[: CHAIN.index(crate)])
    for table in ("dependencies", "dev-dependencies", "build-dependencies"):
        ours = {name for name in manifest.get(table, {}) if name in CHAIN}
        assert ours <= below, f"{crate} uses {ours - below}"


def shipped(path: Path) -> str:
    """A file of Rust without its module of tests; single items for tests may stand amid the others."""
    return re.split(r"#\[cfg\(test\)\]\n(?:pub\(crate\) )?mod \w+ \{", path.read_text())[0]


@pytest.mark.parametrize(
    ("crate", "words"),
    [
        ("pager", r"iblank|plot3d|curvilinear|streamline"),
        ("field", r"std::thread|crossbeam|rayon"),
        ("kernels", r"std::fs|std::io\b|std::thread|std::net|std::time|Mutex|RwLock|\basync\b|\.await"),
        *((crate, r"pyo3|numpy::") for crate in CHAIN[4:-3]),
    ],
)
def test_crates_do_not_know_what_they_must_not(crate: str, words: str) -> None:
    found = []
    for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs")):
        code = shipped(path)
        for n, line in enumerate(code.splitlines(), 1):
            text = line.split("//")[0]
            if "tests" not in path.parts and re.search(words, text):
                found.append(f"{path.relative_to(ROOT)}:{n}: {line.strip()}")
    assert not found, "\n".join(found)


PACKAGE = ROOT / "python" / "farfield"
CIRCLE_AT_MOST = 3

LATE = {
    r"farfield\.cli(\..*)?": "a command imports its needs when it runs, so that help costs little more than Python's start",
    r".*:farfield\.demo(\..*)?": "datasets are made once",
    r".*:farfield\.report(\..*)?": "reports are for those who ask what a run waited for",
    r".*:farfield\.pictures\.colors": "`cmap` is for those who name a colour map",
    r".*:farfield\.pictures\.drawing": "`pydantic`, which checks scenes, is for those who draw",
    r".*:farfield\.volume\.formats\.(cf|dicom|images|vtk|zarr)\..*": "readers are for sources of their format",
    r".*:farfield\.volume\.(opening|vector_flow)": "volumes are not needed by what opens flows",
    r"farfield\._core:.*": "the extension is loaded once the processor was looked at",
    r"farfield\.(sources\.remote|runtime\.network):farfield\._core": "the extension is loaded by what opens a dataset",
}
"""Imports inside functions, as `importer` or `importer:imported`, with their reasons."""


@pytest.mark.parametrize("crate", CHAIN)
def test_files_of_a_crate_form_no_large_circles(crate: str) -> None:
    needs = Crate(ROOT / "crates" / crate / "src").needs
    assert needs
    large = [circle for circle in circles_of_files(needs) if len(circle) > CIRCLE_AT_MOST]
    assert not large, "\n".join(" ".join("::".join(module) or "lib" for module in circle) for circle in large)


EXPERIMENTS = ROOT / "bench" / "python" / "farfield_bench"


def module_of(path: Path) -> str:
    top = PACKAGE if path.is_relative_to(PACKAGE) else EXPERIMENTS
    parts = [*path.relative_to(top.parent).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, modules: Mapping[str, Path]) -> Iterator[tuple[str, bool]]:
    """Modules of the package that a module imports, and whether within a function; not those for types alone."""

    def walk(node: ast.AST, inside: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.Import):
                yield from ((alias.name, inside) for alias in child.names)
            if isinstance(child, ast.ImportFrom) and child.module is not None:
                # Of a package a name may be a module.
                names = [f"{child.module}.{alias.name}" for alias in child.names]
                yield from ((name if name in modules else child.module, inside) for name in names)
            yield from walk(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    for name, inside in walk(ast.parse(path.read_text(encoding="utf-8")), False):
        if name in modules and name != module_of(path):
            yield name, inside


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Sets of modules each of which leads to all others of its set."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        ahead = [start]
        while ahead:
            fresh = graph[ahead.pop()] - found
            found |= fresh
            ahead += fresh
        return found

    ends = {name: reached(name) for name in graph}
    of_each = {name: frozenset(other for other in ends[name] if name in ends[other]) for name in graph}
    return sorted(sorted(circle) for circle in set(of_each.values()) if circle)


def test_circles_of_modules_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    assert circles(graph) == [["a", "b", "c"], ["d", "e"]]


def test_python_modules_form_no_circles() -> None:
    """Imports within functions count, too."""
    modules = {module_of(path): path for top in (PACKAGE, EXPERIMENTS) for path in sorted(top.rglob("*.py"))}
    graph = {name: {other for other, _ in imports(path, modules)} for name, path in modules.items()}
    assert len(graph) > 100 and sum(map(len, graph.values())) > 500
    large = [circle for circle in circles(graph) if len(circle) > CIRCLE_AT_MOST]
    assert not large, "\n".join(" ".join(circle) for circle in large)


def test_imports_in_functions_have_a_reason() -> None:
    modules = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
    late = [f"{name}:{other}" for name, path in modules.items() for other, inside in imports(path, modules) if inside]
    assert not [one for one in late if not any(re.fullmatch(f"{way}(:.*)?", one) for way in LATE)]
    assert not [way for way in LATE if not any(re.fullmatch(f"{way}(:.*)?", one) for one in late)], (
        "a reason without use"
    )


def test_the_product_knows_no_experiments() -> None:
    assert not [str(path) for path in PACKAGE.rglob("*.py*") if "farfield_bench" in path.read_text(errors="ignore")]


# Kernels whose subject is the arrangement of a grid: its surfaces, cores, slices and rays.
OF_GRIDS = {"surface", "cores", "slice", "rays", "cellrays"}


def test_kernels_that_follow_particles_see_domains() -> None:
    """Numbers of nodes along axes, and the zones that have them, stay behind `field::domain`."""
    top = ROOT / "crates" / "kernels" / "src"
    found = []
    for path in sorted(top.rglob("*.rs")):
        if OF_GRIDS & set(path.relative_to(top).with_suffix("").parts):
            continue
        for n, line in enumerate(shipped(path).splitlines(), 1):
            text = line.split("//")[0]
            if re.search(r"\.ijk\b|\bijk\[|\bCellId \{|\.zones\(\)|\.translation\b|\.nodes\b", text):
                found.append(f"{path.relative_to(ROOT)}:{n}: {line.strip()}")
    assert not found, "\n".join(found)


def test_files_stay_small() -> None:
    long = {
        str(p.relative_to(ROOT)): n
        for p in sources(".rs", ".py", ".pyi")
        if (n := len(p.read_text().splitlines())) > LINES_AT_MOST
    }
    assert not long, f"split by noun: {long}"


def test_no_type_name_has_three_meanings() -> None:
    found: dict[str, list[str]] = {}
    for path in sources(".rs"):
        for name in type_names(path):
            found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in found.items() if len(paths) > 2}


def test_nothing_is_left_unfinished() -> None:
    marks = re.compile(
        "|".join(
            ["TO" + "DO", "FIX" + "ME", "XX" + "X", "todo" + "!", "unimplemented" + "!", "NotImplemented" + "Error"]
        )
    )
    found = [f"{p.relative_to(ROOT)}" for p in sources(".rs", ".py", ".pyi") if marks.search(p.read_text())]
    assert not found


def test_one_version() -> None:
    from farfield import __version__

    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
    assert manifest["workspace"]["package"]["version"] == __version__


def test_overflow_is_checked_in_release() -> None:
    assert tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]["release"]["overflow-checks"] is True


def test_python_surface() -> None:
    import farfield

    rows = []
    for name in sorted(farfield.__all__):
        thing = getattr(farfield, name)
        if inspect.isclass(thing):
            rows.append(f"class {name}({', '.join(b.__name__ for b in thing.__bases__)})")
            for member, value in sorted(vars(thing).items()):
                if not member.startswith("_") and callable(getattr(value, "__func__", value)):
                    rows.append(f"    {member}{surface.signature(getattr(thing, member))}")
                elif not member.startswith("_") and (
                    isinstance(value, property) or type(value).__name__ == "cached_property"
                ):
                    rows.append(f"    {member}")
        elif callable(thing):
            rows.append(f"def {name}{surface.signature(thing)}")
        else:
            rows.append(name)
    snapshot(SNAPSHOTS / "package.txt", "\n".join(rows) + "\n")


def test_everything_public_shows_an_example() -> None:
    """Properties are shown by the class that has them."""
    import farfield

    bare = []
    for name in sorted(set(farfield.__all__) - {"__version__"}):
        thing = getattr(farfield, name)
        named = {name: thing}
        if inspect.isclass(thing) and not issubclass(thing, Exception):
            own = {member: getattr(value, "__func__", value) for member, value in vars(thing).items()}
            named |= {f"{name}.{m}": v for m, v in own.items() if inspect.isfunction(v) and not m.startswith("_")}
        bare += [name for name, value in named.items() if ">>>" not in (value.__doc__ or "")]
    assert not bare


def test_command_line_surface() -> None:
    rows = [f"farfield {path}: {' '.join([*p.opts, *p.secondary_opts])}" for path, p in surface.parameters()]
    snapshot(SNAPSHOTS / "command_line.txt", "\n".join(rows) + "\n")


PUBLIC = re.compile(
    r"^\s*pub (?:const |unsafe |extern \"C\" )*(fn|struct|enum|trait|type|const|static|mod|union)\s+([A-Za-z_][A-Za-z0-9_]*)"
)


@pytest.mark.parametrize("crate", CHAIN)
def test_rust_surface(crate: str) -> None:
    """Every `pub` item by file. `pub(crate)` is not surface."""
    top = ROOT / "crates" / crate / "src"
    rows = []
    for path in sorted(top.rglob("*.rs")):
        if "tests" in path.relative_to(top).parts or path.stem == "tests":
            continue
        for line in shipped(path).splitlines():
            if match := PUBLIC.match(line):
                rows.append(f"{path.relative_to(top)}: {match[1]} {match[2]}")
    snapshot(SNAPSHOTS / f"crate-{crate}.txt", "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("path", "maker"),
    [
        ("docs/scene.schema.json", "farfield.scene.files:json_schema"),
        ("docs/benchmark.schema.json", "farfield_bench.result:result_schema"),
    ],
)
def test_schemas(path: str, maker: str) -> None:
    module, _, name = maker.partition(":")
    schema = getattr(importlib.import_module(module), name)()
    snapshot(ROOT / path, json.dumps(schema, indent=2) + "\n")


def test_no_two_crates_build_the_same_library() -> None:
    """Both would write one file of the target folder, and the package built last would install its own for both."""
    names = []
    for manifest in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        table = tomllib.loads(manifest.read_text(encoding="utf-8"))
        names.append(table.get("lib", {}).get("name", table["package"]["name"].replace("-", "_")))
    assert len(names) > 10 and len(names) == len(set(names)), names
