"""Small files that people have, each with its right answer: the tables of tests/cases_*.py, run in process."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

from case_table import Cases, attempt

HERE = Path(__file__).resolve().parent
CASES: Cases = {}
for _table in sorted(HERE.glob("cases_*.py")):
    for _name, _tries in importlib.import_module(_table.stem).CASES.items():
        CASES.setdefault(_name, []).extend(_tries)


@pytest.mark.parametrize("name", sorted(CASES))
def test_case(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / Path(name).name
    shutil.copytree(HERE / "cases" / name, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for case in CASES[name]:
        attempt(case, capsys)


def test_every_folder_has_its_row() -> None:
    kinds = [kind for kind in (HERE / "cases").iterdir() if kind.is_dir()]
    folders = {f"{kind.name}/{case.name}" for kind in kinds for case in kind.iterdir()}
    assert folders == set(CASES)
