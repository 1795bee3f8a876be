"""The command line as a process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]
"""As `farfield` below: the fixture `ff`."""
Json = Callable[..., Any]
"""The same with --json, and the object that it prints: the fixture `ff_json`."""


def command(*words: object) -> list[str]:
    """`farfield` with these words."""
    return [sys.executable, "-m", "farfield", *map(str, words)]


def farfield(
    *words: object, ok: tuple[int, ...] = (0,), env: dict[str, str] | None = None, cwd: Path | None = None
) -> Done:
    """Runs `farfield` to its end; `ok` are the exit codes that the test expects."""
    done = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        timeout=300,
        check=False,
    )
    assert done.returncode in ok, f"{words}: exit {done.returncode}: {done.stderr}"
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr, done.stderr
    return done


def start(*words: object, **more: Any) -> subprocess.Popen[str]:
    """Starts `farfield`; `more` goes to `Popen`."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(*words), text=True, **{**pipes, **more})


def printed(*words: object, ok: tuple[int, ...] = (0,)) -> tuple[Any, str]:
    """Runs `farfield ... --json` in this process, which is sooner done; the object that it prints, and what it says on stderr."""
    from farfield.cli import run

    out, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(said):
        code = run([*map(str, words), "--json"])
    assert code in ok, f"{words}: exit {code}: {said.getvalue()}"
    return json.loads(out.getvalue()), said.getvalue()
