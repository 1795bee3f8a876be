"""What README shows does what README says, on files of the names that it uses."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farfield.settings import REPLACEMENT
from plot3d_files import box, cut, write
from running import Command

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def wing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with wing.xyz and wing.q: two zones, the first of which has a wall; wing_1.q to wing_4.q are steps."""
    whole = box(41, 9, 7, size=(2, 1, 1))
    for q in whole.q[1:4]:
        q[:, 0] = 0.0
    blocks = cut(whole, 2)
    for q in blocks[1].q[1:4]:
        q[:, 0] = 0.3
    for n in range(5):
        write(tmp_path, blocks, stem="wing" if n == 0 else f"wing_{n}", time=0.5 * n)
        (tmp_path / f"wing_{n}.xyz").unlink(missing_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_python(wing: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    said: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), said)
    assert said["ds"].stats()["limit_bytes"] == 2 << 30
    assert len(said["lines"]) == 50 and len(said["lines"]["density"]) == len(said["lines"].points) > 50
    assert (wing / "lines.vtp").stat().st_size > 1000
    assert len(said["paths"]) == 50 and said["paths"].time.max() == 2.0
    picture = (wing / "wing.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert np.shape(said["ds"].zones["zone2"]["pressure"][:, 5, 10:20]) == (7, 10)


def test_command_lines(wing: Path, ff: Command) -> None:
    (block,) = re.findall(r"## Use\n\n((?:    .*\n)+)", README)
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert len(commands) >= 6
    for program, *words in commands:
        assert program == "farfield"
        ff(*words, cwd=wing)
    assert all((wing / name).exists() for name in ("lines.vtp", "paths.vtp", "wing.png", "wing.zarr", "body.vtp"))


def test_pictures_of_time_and_flow_maps(wing: Path, ff: Command) -> None:
    """A video where the system can make one."""
    blocks = re.findall(r"## (?:Pictures|Flow maps)\n\n(?:.*\n)*?((?:    farfield .*\n)+)", README)
    commands = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    assert len(commands) == 4
    for _, *words in commands:
        if "wing.mp4" in words and shutil.which("ffmpeg") is None:
            assert "ffmpeg" in ff(*words, cwd=wing, ok=(2,)).stderr
            continue
        done = ff(*words, cwd=wing)
        if "--resume" in words:
            # "keeps those that are there": all of them, for the scene has the time steps, the camera and the ranges.
            assert "2 were there" in done.stdout and "redrawn" not in done.stdout, done.stdout
    assert sorted(p.name for p in wing.glob("wing_*.png")) == [f"wing_{n:04}.png" for n in (0, 2)]
    assert (wing / "map.zarr" / "residence_time" / "zarr.json").exists()


def test_options_of_every_run(ff: Command) -> None:
    """README names the commands that have --replacement; what it says of every run holds for the others too."""
    (said,) = re.findall(r"Every run takes (.*?)\n\n", README, re.DOTALL)
    everywhere, paging = " ".join(said.split()).split(";")
    assert "--memory-limit" in everywhere and f"--replacement {'|'.join(REPLACEMENT)}`" in paging
    for command in ("info", "convert", "validate", "probe", "trace", "extract grid-surface", "flowmap", "render"):
        text = ff(*command.split(), "--help").stdout
        for option in re.findall(r"`(--[a-z-]+)", everywhere):
            assert option in text, (command, option)
        assert ("--replacement" in text) == (f"`{command.split()[0]}`" in paging), command
