"""Nothing that users can name goes, comes or changes without a line in CHANGELOG.md.

tests/baseline/surface.json lists the names of version 0.1.0: commands with options, names of the package with parameters, keys of
scenes and of printed JSON, words that options take, exit codes, variables, counters. Each difference from it stands below
`## Unreleased`, by its key in backquotes, with the reason behind a colon on the same line:

    - `trace --read-ahead`, `trace --ahead`: a shorter name for an option that is typed often.

A line about something that goes or comes as a whole (a command, a class, an object of the JSON) speaks for all that is in it.

FARFIELD_UPDATE_SNAPSHOTS does not renew surface.json. A snapshot that is renewed with the code agrees with whatever the code is. A
feature that gets lost is then lost in the snapshot, too. surface.json stays as it is until a release. Then `tests/surface.py`
prints the next one, and the section gets the number of the release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import pytest

import surface
import surface_printed
from running import NO_PROCESSES

CHANGELOG = surface.ROOT / "CHANGELOG.md"
Tables = Mapping[str, Mapping[str, str]]

ITEM = re.compile(r"- (`[^`]+`(?:, `[^`]+`)*)(: \S.*)?$")


def is_part(key: str, whole: str) -> bool:
    """Whether one key lies under another."""
    return key.startswith(whole) and key[len(whole) : len(whole) + 1] in (" ", ".", "[", "(", ":")


def same_types(one: str, two: str) -> bool:
    """Whether types of printed values agree. What a run does not know is null, or an empty list, and says nothing of the type."""
    kinds = [set(rows.split(" or ")) - {"null"} for rows in (one, two)]
    return kinds[0] == kinds[1] or not all(kinds) or "[]" in one + two


def differences(old: Tables, new: Tables) -> dict[str, str]:
    """By key: removed, added, or what changed."""
    found: dict[str, str] = {}
    for section in sorted({*old, *new}):
        before, now = old.get(section, {}), new.get(section, {})
        found |= dict.fromkeys(before.keys() - now.keys(), "removed")
        found |= {key: f"added: {now[key]}" for key in now.keys() - before.keys()}
        for key in before.keys() & now.keys():
            same = same_types if section == "printed" else str.__eq__
            if not same(before[key], now[key]):
                found[key] = f"changed: {before[key]} -> {now[key]}"
    return found


def listed(changelog: str) -> tuple[dict[str, str], list[str]]:
    """Keys below `## Unreleased` with their lines, and lines that begin with a key and give no reason."""
    (section,) = re.findall(r"^## Unreleased\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    keys: dict[str, str] = {}
    bare: list[str] = []
    for line in section.splitlines():
        if line.startswith("- `"):
            match = ITEM.match(line)
            if match is None or match[2] is None:
                bare.append(line)
            else:
                keys |= dict.fromkeys(re.findall(r"`([^`]+)`", match[1]), line)
    return keys, bare


def complaints(old: Tables, new: Tables, changelog: str) -> list[str]:
    """What CHANGELOG.md says too little or too much."""
    found = differences(old, new)
    keys, bare = listed(changelog)
    fates = {key: what.partition(":")[0] for key, what in found.items()}
    wholes = [key for key in keys if fates.get(key) in ("removed", "added")]
    missing = [
        f"not in CHANGELOG.md: `{key}`: {what}"
        for key, what in sorted(found.items())
        if key not in keys and not any(is_part(key, whole) and fates[whole] == fates[key] for whole in wholes)
    ]
    stale = [f"no such difference as `{key}`: {line}" for key, line in keys.items() if key not in found]
    return [*missing, *stale, *(f"no reason behind a colon: {line}" for line in bare)]


@pytest.fixture(scope="module")
def present(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("farfield.tuning.subprocess", NO_PROCESSES)
        return surface.present(tmp_path_factory.mktemp("surface"))


def test_every_difference_is_in_the_changelog(present: Tables) -> None:
    """The docstring of this file says how a line looks, and why surface.json is not renewed."""
    found = complaints(
        json.loads(surface.KEPT.read_text(encoding="utf-8")), present, CHANGELOG.read_text(encoding="utf-8")
    )
    assert not found, "\n".join(["", *found])


def test_each_key_stands_for_one_thing(present: Tables) -> None:
    kept = json.loads(surface.KEPT.read_text(encoding="utf-8"))
    for tables in (kept, present):
        keys = [key for rows in tables.values() for key in rows]
        assert len(keys) == len(set(keys)) and not [key for key in keys if "`" in key or key != key.strip()]


def test_every_run_does_what_it_is_there_for(present: Tables) -> None:
    """Of an option with another name the tables of surface_printed.py have to know the new one."""
    assert not [what for rows in present.values() for what in rows.values() if what.startswith(surface_printed.FAILS)]


def test_every_command_runs_or_has_a_schema(present: Tables) -> None:
    """A new command has a run of its own among those whose JSON is looked at."""
    paths = {path for path, _ in surface.parameters()}
    keys = list(present["printed"])
    assert {path for path in paths if not any(key.startswith(f"{path} ") for key in keys)} == set()


OLD = {"command line": {"trace": "command", "trace --ahead": "N", "cut": "command", "cut --x": "flag"}}


@pytest.mark.parametrize(
    ("now", "lines", "expected"),
    [
        (OLD["command line"], "", []),
        ({"trace": "command", "cut": "command", "cut --x": "flag"}, "", ["not in CHANGELOG.md: `trace --ahead`: removed"]),
        ({"trace": "command", "cut": "command", "cut --x": "flag"}, "- `trace --ahead`: nobody used it.", []),
        ({"trace": "command", "cut": "command", "cut --x": "flag"}, "- `trace --ahead`", ["removed", "no reason behind a colon"]),
        (OLD["command line"] | {"trace --ahead": "M"}, "", ["`trace --ahead`: changed: N -> M"]),
        (OLD["command line"] | {"trace --new": "flag"}, "", ["`trace --new`: added"]),
        (OLD["command line"], "- `trace --ahead`: it is gone.", ["no such difference as `trace --ahead`"]),
        # One line for both names, and one for a whole command; a part that stays is no part of what goes.
        ({"trace": "command", "trace --a": "N", "cut": "command", "cut --x": "flag"}, "- `trace --ahead`, `trace --a`: short.", []),
        ({"trace": "command", "trace --ahead": "N"}, "- `cut`: others do that.", []),
        ({"trace": "command", "trace --ahead": "N", "cut": "command"}, "- `cu`: why.", ["`cut --x`: removed", "`cu`"]),
        # Words on it elsewhere do not count.
        ({"trace": "command", "cut": "command", "cut --x": "flag"}, "The option `trace --ahead` is gone.", ["removed"]),
        ({"trace": "command", "cut": "command", "cut --x": "flag"}, "## 0.0.9\n- `trace --ahead`: why.", ["removed"]),
    ],
)  # fmt: skip
def test_what_is_complained_of(now: dict[str, str], lines: str, expected: list[str]) -> None:
    found = complaints(
        OLD, {"command line": now}, f"# Changelog\n\n## Unreleased\n\n{lines}\n\n## 0.1.0\n\n- `x`: y.\n"
    )
    assert len(found) == len(expected) and all(part in whole for part, whole in zip(expected, found, strict=True)), (
        found
    )


def test_what_a_run_does_not_know_is_no_difference() -> None:
    old = {"printed": {"a --json: x": "null", "a --json: y": "number or null", "a --json: z": "number"}}
    new = {"printed": {"a --json: x": "string", "a --json: y": "null or string", "a --json: z": "number or null"}}
    assert differences(old, new) == {"a --json: y": "changed: number or null -> null or string"}
