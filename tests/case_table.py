"""What a table of cases is made of: command lines on the small files of tests/cases, and what each must answer.

A case is a folder of tests/cases, copied to a temporary one, in which its command lines run one after the other, in process. A row
says the exit code, patterns that the output has or must not have, numbers of the JSON that `--json` prints, and a function that
looks at what was written. Where a right value comes from stands beside it: analytic, or the answer of another reader.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Try:
    """One command line of a case."""

    words: str
    """Without `farfield`; split as a shell does, without its patterns."""
    exit: int = 0
    says: tuple[str, ...] = ()
    """Patterns, each found in standard output or standard error."""
    never: tuple[str, ...] = ()
    """Patterns that are found in neither."""
    json: dict[str, Any] = field(default_factory=dict)
    """By path, such as "zones.0.dims" or "values.velocity": the value; numbers within `tolerance`, relative or absolute."""
    tolerance: float = 1e-6
    check: Callable[[Path], None] | None = None
    """Looks at what was written into the case's folder."""


Cases = dict[str, list[Try]]
"""By the folder's name below tests/cases, such as "flows/vti-vectors"."""


def dig(document: Any, path: str) -> Any:
    """What lies at a path of keys and indices.

    >>> dig({"zones": [{"dims": [3, 4, 5]}]}, "zones.0.dims.2")
    5
    """
    for key in path.split("."):
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def same(found: Any, wanted: Any, tolerance: float) -> bool:
    """Whether two values agree, numbers within the tolerance; NaN and null are one."""
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(same(f, w, tolerance) for f, w in zip(found, wanted, strict=True))
    if isinstance(wanted, float) and math.isnan(wanted):
        return found is None or math.isnan(found)
    if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
        return found == pytest.approx(wanted, rel=tolerance, abs=tolerance)
    return bool(found == wanted)


def attempt(case: Try, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs one command line in the working folder and compares."""
    from farfield.cli import run

    words = shlex.split(case.words)
    if case.json and "--json" not in words:
        words.append("--json")
    capsys.readouterr()
    code = run(words)
    out, err = capsys.readouterr()
    said = f"farfield {case.words}: exit {code}\n{out}\n{err}"
    assert code == case.exit, said
    assert "internal:" not in err, said
    for pattern in case.says:
        assert re.search(pattern, out + err, re.IGNORECASE), f"lacks {pattern!r}: {said}"
    for pattern in case.never:
        assert not re.search(pattern, out + err, re.IGNORECASE), f"has {pattern!r}: {said}"
    if case.json:
        document = json.loads(out)
        for path, wanted in case.json.items():
            found = dig(document, path)
            assert same(found, wanted, case.tolerance), f"{path} is {found}, not {wanted}: {said}"
    if case.check:
        case.check(Path.cwd())
