"""Paths in source strings, and names of files that are numbered.

>>> sorted(["sol_10.q", "sol_9.q"], key=natural)
['sol_9.q', 'sol_10.q']
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

PART = re.compile(r"\+(?=(?:q|f|function)=)")
"""What begins a part of a source string behind its grid."""
SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")
"""How an address begins."""


def moved(text: str, move: Callable[[str], str]) -> str:
    """A source string with `move` applied to each path in it, patterns too. What is no path stays.

    >>> moved("flow.xyz+q=sol_*.q", lambda path: "data/" + path), moved("demo:box", lambda path: "data/" + path)
    ('data/flow.xyz+q=data/sol_*.q', 'demo:box')
    """
    if text.startswith("demo:") or SCHEME.match(text):
        return text
    # As `parse` has it: a file that is named like parts wins. It may be seen from either side of the move.
    if any(os.path.exists(os.path.expanduser(whole)) for whole in (text, move(text))):
        return move(text)
    head, *parts = PART.split(text)
    pairs = [part.partition("=") for part in parts]
    return move(head) + "".join(f"+{key}={move(pattern)}" for key, _, pattern in pairs)


def elsewhere(text: str) -> str:
    """A source string that means the same in any working folder.

    >>> elsewhere("/data/flow.xyz+q=/data/sol_*.q"), elsewhere("demo:box")
    ('/data/flow.xyz+q=/data/sol_*.q', 'demo:box')
    """
    return moved(text, lambda path: os.path.abspath(os.path.expanduser(path)))


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key under which `sol_9` comes before `sol_10`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def numbers_of(files: Iterable[str]) -> list[int] | None:
    """The number of each file of a series: where the names are alike but for one number, each with another one.

    >>> numbers_of(["run2/sol_8.q", "run2/sol_09.q", "run2/sol_10.q"]), numbers_of(["a.q", "b.q"]), numbers_of(["1_1.q", "2_2.q"])
    ([8, 9, 10], None, None)
    """
    parts = [re.split(r"(\d+)", os.path.basename(f)) for f in files]
    if len({(len(p), *p[::2]) for p in parts}) != 1:
        return None
    numbers = [[int(n) for n in p[1::2]] for p in parts]
    vary = [n for n, column in enumerate(zip(*numbers, strict=True)) if len(set(column)) > 1]
    found = [row[vary[0]] for row in numbers] if len(vary) == 1 else []
    return found if found and len(set(found)) == len(found) else None
