"""Which files of a Rust crate need each other, by the paths that they name: for the tests of the structure.

A path counts for the file that defines the item: `pub use` passes names on, and a file that only passes them on needs nothing of
them. Unit tests are left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

Module = tuple[str, ...]
USE = re.compile(r"(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"\b([a-z_][a-z0-9_]*(?:::[A-Za-z_]\w*)+)")
TYPE = re.compile(
    r"^[ \t]*(?:pub(?:\([a-z: ]+\))? )?(?:unsafe )?(struct|enum|trait|union) ([A-Z]\w*)|^(?:pub(?:\([a-z: ]+\))? )?type ([A-Z]\w*)",
    re.M,
)


def code(path: Path) -> str:
    """The text of a file without comments, strings and the unit tests at its end."""
    text = path.read_text(encoding="utf-8")
    text = re.split(r"#\[cfg\(test\)\]\s*\n\s*mod \w+ \{", text)[0]
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\])*"', '""', text, flags=re.S)


def type_names(path: Path) -> list[str]:
    """The types that a file defines, those of functions and tests too; associated types of traits do not count."""
    return [m[2] or m[3] for m in TYPE.finditer(path.read_text(encoding="utf-8"))]


def imports(tree: str) -> list[tuple[list[str], str]]:
    """Paths of the tree of a `use`, each with the name that it gives: `a::{b, c as d}` gives (a::b, b) and (a::c, d)."""
    tree = tree.strip()
    group = re.match(r"^(.*?)\{(.*)\}$", tree, re.S)
    if not group:
        path, _, name = tree.partition(" as ")
        parts = [part.strip() for part in path.split("::") if part.strip()]
        if parts and parts[-1] == "self":
            parts.pop()
        return [(parts, name.strip() or (parts[-1] if parts else ""))]
    head = [part for part in re.sub(r"\s", "", group[1]).split("::") if part]
    found: list[tuple[list[str], str]] = []
    depth, item = 0, ""
    for character in group[2] + ",":
        if character == "," and depth == 0:
            if item.strip():
                found += [(head + path, name) for path, name in imports(item)]
            item = ""
        else:
            depth += (character == "{") - (character == "}")
            item += character
    return found


class Crate:
    """The files of a crate, by module path, and which of them each one needs."""

    def __init__(self, source: Path) -> None:
        self.files: dict[Module, Path] = {}
        for path in sorted(source.rglob("*.rs")):
            parts = path.relative_to(source).with_suffix("").parts
            if "tests" in parts:
                continue
            if parts[-1] in ("mod", "lib", "main"):
                parts = parts[:-1]
            self.files[parts] = path
        self.texts = {module: code(path) for module, path in self.files.items()}
        self.passed_on: dict[Module, dict[str, Module]] = defaultdict(dict)
        for module, text in self.texts.items():
            for path, name, public in self.uses(module, text):
                if public:
                    self.passed_on[module][name] = path
        self.needs = {module: self._needs(module) for module in self.files}

    def uses(self, module: Module, text: str) -> list[tuple[Module, str, bool]]:
        found = []
        for use in USE.finditer(text):
            for parts, name in imports(re.sub(r"\s+", " ", use[2])):
                path = self.absolute(module, parts)
                if path is not None:
                    found.append((path, name, bool(use[1])))
        return found

    def absolute(self, module: Module, parts: list[str]) -> Module | None:
        """The path from the crate's root, None where it leads out of the crate."""
        if not parts:
            return None
        if parts[0] == "crate":
            return tuple(parts[1:])
        if parts[0] == "self":
            return (*module, *parts[1:])
        if parts[0] == "super":
            above = parts.index(next((part for part in parts if part != "super"), parts[-1]))
            return (*module[: len(module) - above], *parts[above:])
        return (*module, *parts) if (*module, parts[0]) in self.files else None

    def file_of(self, path: Module, depth: int = 0) -> tuple[Module, bool]:
        """The file that defines what a path names, and whether the path names the file itself."""
        length = next(n for n in range(len(path), -1, -1) if path[:n] in self.files)
        module, rest = path[:length], path[length:]
        if rest and depth < 9 and rest[0] in self.passed_on[module]:
            return self.file_of(self.passed_on[module][rest[0]] + rest[1:], depth + 1)
        return module, not rest

    def _needs(self, module: Module) -> set[Module]:
        text = self.texts[module]
        body = USE.sub("", text)
        needed: set[Module] = set()
        modules: dict[str, Module] = {}
        for path, name, public in self.uses(module, text):
            if public and not re.search(rf"\b{re.escape(name)}\b", body):
                continue
            target, whole = self.file_of(path)
            if whole:
                modules[name] = path
            else:
                needed.add(target)
        for match in PATH.finditer(body):
            first, *rest = match[1].split("::")
            path_of = (*modules[first], *rest) if first in modules else self.absolute(module, [first, *rest])
            if path_of is not None:
                needed.add(self.file_of(path_of)[0])
        return needed - {module}


def circles(needs: dict[Module, set[Module]]) -> list[list[Module]]:
    """The sets of files that all need each other, by way of others too; largest first (Tarjan 1972)."""
    numbers: dict[Module, int] = {}
    lowest: dict[Module, int] = {}
    stack: list[Module] = []
    found: list[list[Module]] = []

    def visit(module: Module) -> None:
        numbers[module] = lowest[module] = len(numbers)
        stack.append(module)
        for other in needs[module]:
            if other not in numbers:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], numbers[other])
        if lowest[module] == numbers[module]:
            cut = stack.index(module)
            found.append(sorted(stack[cut:]))
            del stack[cut:]

    for module in needs:
        if module not in numbers:
            visit(module)
    return sorted((circle for circle in found if len(circle) > 1), key=len, reverse=True)
