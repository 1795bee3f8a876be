r"""Compares the size and shape of the code of two commits: circles of files, long functions, comment words.

    python tools/code_figures.py BEFORE [AFTER]

Prints a Markdown table. Rust only; tests are left out, but for lines and comments of tests of the workspace.

>>> long = "fn f(a: u8, b: u8) -> u8 {\n    a +\n    b\n}\n"
>>> functions(long)
[('f', 4, 2)]
>>> comment_words("// One two.\nlet x = 1; // three\n")
3
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from rust_modules import Crate, circles  # noqa: E402

FUNCTION = re.compile(r"\bfn\s+(\w+)")
COMMENT = re.compile(r"//[/!]?(.*)$", re.M)
LITERAL = re.compile(r"""b?r?"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'""", re.S)
MANY_PARAMETERS = 7


def plain(text: str) -> str:
    """Code with strings and comments blanked out; lines stay."""
    text = COMMENT.sub("", text)
    return LITERAL.sub(lambda m: '""' + "\n" * m[0].count("\n"), text)


def closing(text: str, at: int) -> int:
    """Where the bracket at `at` closes; the end of the text where it does not."""
    pairs = {"(": ")", "{": "}"}
    opening, ending, depth = text[at], pairs[text[at]], 0
    for n in range(at, len(text)):
        depth += (text[n] == opening) - (text[n] == ending)
        if depth == 0:
            return n
    return len(text) - 1


def functions(text: str) -> list[tuple[str, int, int]]:
    """Name, lines and parameters (with `self`) of each function that has a body."""
    code, found = plain(text), []
    for match in FUNCTION.finditer(code):
        start = code.find("(", match.end())
        if start < 0:
            continue
        end = closing(code, start)
        stops = [code.find(c, end) for c in "{;"]
        if stops[0] < 0 or 0 <= stops[1] < stops[0]:
            continue
        lines = code.count("\n", match.start(), closing(code, stops[0])) + 1
        found.append((match[1], lines, parameters(code[start + 1 : end])))
    return found


def parameters(inside: str) -> int:
    """Parameters between the brackets of a function."""
    depth, count, filled = 0, 0, False
    for before, character in zip(" " + inside, inside, strict=False):
        depth += character in "([{<"
        depth -= character in ")]}" or (character == ">" and before != "-")
        if character == "," and depth == 0:
            count, filled = count + filled, False
        elif not character.isspace():
            filled = True
    return count + filled


def comment_words(text: str) -> int:
    """Words of all comments."""
    return sum(len(re.findall(r"[A-Za-z][\w'-]*", m[1])) for m in COMMENT.finditer(text))


def is_test(path: Path) -> bool:
    """Whether a file is one of tests or benchmarks alone."""
    return any(part in ("tests", "benches") for part in path.parts) or path.stem == "tests"


def figures(root: Path) -> Iterator[tuple[str, str]]:
    """Each figure of a tree, with its name."""
    crates = sorted(path for path in (root / "crates").iterdir() if (path / "src").is_dir())
    files = [
        path
        for crate in crates
        for path in sorted((crate / "src").rglob("*.rs"))
        if not is_test(path.relative_to(root))
    ]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    found = [(name, lines, count, path) for path, text in texts.items() for name, lines, count in functions(text)]
    large = {
        crate.name: [len(circle) for circle in circles(Crate(crate / "src").needs) if len(circle) > 3]
        for crate in crates
    }
    yield "crates", str(len(crates))
    yield (
        "circles of more than three files",
        ", ".join(f"{c} {' '.join(map(str, n))}" for c, n in large.items() if n) or "none",
    )
    name, lines, _, path = max(found, key=lambda f: f[1])
    yield "lines of the longest function", f"{lines} (`{name}` of {path.parent.name}/{path.name})"
    yield "functions of more than 100 lines", str(sum(lines > 100 for _, lines, _, _ in found))
    yield (
        f"functions with more than {MANY_PARAMETERS} parameters",
        str(sum(count > MANY_PARAMETERS for _, _, count, _ in found)),
    )
    code_lines = sum(line.strip() != "" for text in texts.values() for line in plain(text).splitlines())
    words = sum(map(comment_words, texts.values()))
    yield "lines of code", f"{code_lines:,}"
    yield "comment words a line of code", f"{words / code_lines:.2f}"
    for crate in crates:
        lines = sum(text.count("\n") for path, text in texts.items() if path.is_relative_to(crate))
        yield f"lines of {crate.name}", f"{lines:,}"


def of_commit(commit: str, folder: Path) -> dict[str, str]:
    """Figures of a commit, unpacked into a folder."""
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, "crates"], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return dict(figures(folder))


def main(before: str, after: str = "HEAD") -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as work:
        a, b = (of_commit(commit, Path(work, name)) for commit, name in ((before, "before"), (after, "after")))
    print(f"| | {before} | {after} |\n|---|---|---|")
    for name in [*a, *(name for name in b if name not in a)]:
        print(f"| {name} | {a.get(name, '')} | {b.get(name, '')} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
