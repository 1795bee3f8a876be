"""The command line, in two ways: `farfield` runs it in this process, `process` in a process of its own.

A process costs its start, and few tests are about processes: those of signals, kills, resident memory, times of starts, and of
several runs at once. All others run in this process. A call there finds what a process finds where it begins: streams and their
descriptors, environment, working folder, warnings, logs, an empty record of the cache's use. Its changes to these and to signal
handlers are undone when it ends. Loaded modules stay, and what they keep by the identity of a file.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager
from contextvars import Context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO
from unittest import mock

Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]
"""As `farfield` and `process` below: the fixtures `ff` and `process`."""
Json = Callable[..., Any]
"""The same with --json, and the object that it prints: the fixtures `ff_json` and `process_json`."""
LONGEST_S = 300
"""A command that takes longer hangs."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Those that the command line handles."""


def farfield(
    *words: object, ok: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Done:
    """Runs `farfield` in this process, in its main thread; `ok` are the exit codes that the test expects."""
    from farfield.cli import INTERRUPTED, main

    code: object = None
    with _streams() as (out, err), _surroundings(env or {}, cwd):
        try:
            Context().run(main, list(map(str, words)))
        except SystemExit as end:
            code = end.code
        printed, said = _text(out), _text(err)
    assert isinstance(code, int), f"{words}: the exit code is {code!r}"
    if code == INTERRUPTED and code not in ok:
        raise KeyboardInterrupt  # of whoever runs the tests
    return _expected(Done(command(*words), code, printed, said), ok)


def process(
    *words: object, ok: tuple[int, ...] = (0,), env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Done:
    """Runs `farfield` as a process to its end; `ok` are the exit codes that the test expects."""
    done = subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        timeout=LONGEST_S,
        check=False,
    )
    return _expected(done, ok)


def start(*words: object, **more: Any) -> subprocess.Popen[str]:
    """Starts `farfield` as a process; `more` goes to `Popen`."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(*words), text=True, **{**pipes, **more})


def begun(child: subprocess.Popen[str], sign: Path, least: int = 0) -> None:
    """Waits until a run has made a file of at least so many bytes: the extension runs then, and not the start of Python."""
    end = time.monotonic() + 60
    while child.poll() is None and time.monotonic() < end and not (sign.exists() and sign.stat().st_size >= least):
        time.sleep(0.005)


def printed(*words: object, ok: tuple[int, ...] = (0,)) -> tuple[Any, str]:
    """Runs `farfield ... --json` in this process; the object that it prints, and what it says on stderr."""
    done = farfield(*words, "--json", ok=ok)
    return json.loads(done.stdout), done.stderr


def command(*words: object) -> list[str]:
    """`farfield` with these words, as a process."""
    return [sys.executable, "-m", "farfield", *map(str, words)]


def _expected(done: Done, ok: tuple[int, ...]) -> Done:
    assert done.returncode in ok, f"{done.args[3:]}: exit {done.returncode}: {done.stderr}"
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr, done.stderr
    return done


def _run(words: Sequence[str], **_: object) -> Done:
    own = command()
    assert list(words[: len(own)]) == own, words
    return farfield(*words[len(own) :], ok=(0, 1, 2, 3, 4))


NO_PROCESSES = SimpleNamespace(run=_run, DEVNULL=subprocess.DEVNULL)
"""In the place of `subprocess` in a module whose commands start others: these run in this process, too."""


@contextmanager
def _streams() -> Iterator[tuple[TextIO, TextIO]]:
    """Nothing on stdin, and files that take stdout and stderr, also what the extension writes to their descriptors."""
    sys.stdout.flush()
    sys.stderr.flush()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        open(os.devnull, encoding="utf-8") as nothing,
        _in_place_of(0, nothing),
        _in_place_of(1, out),
        _in_place_of(2, err),
        # As the interpreter opens them off a terminal.
        open(0, encoding="utf-8", closefd=False) as stdin,
        open(1, "w", encoding="utf-8", closefd=False) as stdout,
        open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False) as stderr,
        mock.patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr),
    ):
        yield out, err


@contextmanager
def _in_place_of(number: int, file: TextIO) -> Iterator[None]:
    kept = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        os.dup2(kept, number)
        os.close(kept)


def _text(file: TextIO) -> str:
    sys.stdout.flush()
    sys.stderr.flush()
    file.seek(0)
    return file.read()


@contextmanager
def _surroundings(env: Mapping[str, str], cwd: Path | None) -> Iterator[None]:
    """What a command finds where it begins, and may change."""
    from farfield.runtime import cache

    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, env))
        if cwd is not None:
            stack.enter_context(chdir(cwd))
        for number in SIGNALS:
            stack.callback(signal.signal, number, signal.getsignal(number))
        # A message that no handler takes goes to stderr; pytest has handlers.
        stack.enter_context(mock.patch.object(logging.getLogger(), "handlers", []))
        stack.enter_context(_warnings_on_stderr())
        # A process tells by locks that it uses a cache, and they end with it.
        stack.enter_context(mock.patch.dict(cache._LOOKED, clear=True))
        stack.enter_context(mock.patch.dict(cache._BEGUN, clear=True))
        stack.callback(_close_all, cache._BEGUN)
        stack.enter_context(_interrupted_when_late())
        yield


def _close_all(files: Mapping[str, Any]) -> None:
    for file in files.values():
        file.close()


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Those that an interpreter shows by itself."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        warnings.showwarning = lambda *about, **_: sys.stderr.write(warnings.formatwarning(*about[:4]))
        yield


@contextmanager
def _interrupted_when_late() -> Iterator[None]:
    """Interrupts a command that hangs as Ctrl-C does, and fails then."""
    late = []

    def interrupt(*_: object) -> None:
        late.append(True)
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
    assert not late, f"it took longer than {LONGEST_S} s"
