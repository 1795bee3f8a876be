"""Paths in source strings, and names of numbered files.

>>> sorted(["sol_10.q", "sol_9.q"], key=natural)
['sol_9.q', 'sol_10.q']
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

from farfield.sources.addresses import SCHEME

PART = re.compile(r"\+(?=(?:q|f|function)=)")
"""Beginning of a part of a source string after its grid."""


def moved(text: str, move: Callable[[str], str]) -> str:
    """A source string with `move` applied to each path in it, also to patterns. Other parts stay.

    >>> moved("flow.xyz+q=sol_*.q", lambda path: "data/" + path), moved("demo:box", lambda path: "data/" + path)
    ('data/flow.xyz+q=data/sol_*.q', 'demo:box')
    >>> moved("s3://bucket/flow.xyz+q=@steps.txt", lambda path: "data/" + path)
    's3://bucket/flow.xyz+q=@data/steps.txt'
    """
    if text.startswith("demo:"):
        return text

    def moved_one(path: str) -> str:
        if path.startswith("@") and not os.path.exists(path):
            return "@" + moved_one(path[1:])
        return path if SCHEME.match(path) else move(path)

    # As in `parse`, an existing file takes precedence over a parse into parts; it may exist before or after the move.
    if not SCHEME.match(text) and any(os.path.exists(os.path.expanduser(whole)) for whole in (text, move(text))):
        return move(text)
    head, *parts = PART.split(text)
    pairs = [part.partition("=") for part in parts]
    return moved_one(head) + "".join(f"+{key}={moved_one(pattern)}" for key, _, pattern in pairs)


def elsewhere(text: str) -> str:
    """A source string with the same meaning in any working folder.

    >>> elsewhere("/data/flow.xyz+q=/data/sol_*.q"), elsewhere("demo:box")
    ('/data/flow.xyz+q=/data/sol_*.q', 'demo:box')
    """
    return moved(text, lambda path: os.path.abspath(os.path.expanduser(path)))


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key that puts `sol_9` before `sol_10`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def numbers_of(files: Iterable[str]) -> list[int] | None:
    """The number of each file of a series, if the names differ in exactly one number, and all numbers differ; else
    None.

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
