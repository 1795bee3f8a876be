"""Licences of what is installed with the package are permissive. For crates cargo-deny compares deny.toml (`make check`)."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
COPYLEFT = re.compile(r"GPL|MPL|EPL|CDDL|EUPL|OSL|SSPL|Mozilla|GNU|Eclipse")
PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-CMU",
    "PSF-2.0",
    "Python Software Foundation",
    "Unlicense",
    "Zlib",
}
"""As SPDX names them, and as classifiers do that do not say which of several licences is meant."""


def alternatives(package: str) -> list[set[str]]:
    """The licences of an installed package: it may be used under all of those in any one set."""
    about = metadata.metadata(package)
    if expression := about.get("License-Expression"):
        return [set(part.split(" AND ")) for part in expression.split(" OR ")]
    classifiers = [c.split(" :: ")[-1] for c in about.get_all("Classifier") or () if c.startswith("License :: ")]
    if classifiers:
        return [{re.sub(r" License.*| Software License.*", "", c)} for c in classifiers]
    return [{about.get("License") or "none is named"}]


def wheels() -> list[str]:
    """What the package depends on, itself or through others, without extras."""
    found: dict[str, None] = {}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    while wanted:
        requirement = Requirement(wanted.pop())
        name = requirement.name.lower().replace("_", "-")
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[name] = None
            wanted += metadata.requires(name) or ()
    return sorted(found)


@pytest.mark.parametrize("package", wheels())
def test_wheels_have_permissive_licences(package: str) -> None:
    found = alternatives(package)
    assert any(licences <= PERMISSIVE for licences in found), (
        f"{package}: {found}; if this is permissive, add it to PERMISSIVE"
    )


def test_no_copyleft_licence_is_allowed() -> None:
    allowed = tomllib.loads((ROOT / "deny.toml").read_text(encoding="utf-8"))["licenses"]["allow"]
    assert allowed and not [name for name in [*allowed, *PERMISSIVE] if COPYLEFT.search(name)]
