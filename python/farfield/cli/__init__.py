"""The command line: `main` runs it and turns every outcome into an exit code and, for errors, one clear line.

Exit codes: 0 done, 1 data or run error, 2 usage or ambiguous input, 3 partial result, 4 memory limit too small, 5 network
or access, 70 a fault in Farfield, 130 interrupted.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

INTERRUPTED = 130
PARTIAL = 3


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs `farfield` and exits."""
    end_with(run, sys.argv[1:] if arguments is None else list(arguments))


def end_with(run: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> NoReturn:
    """Runs a command line as the whole of this process, and exits with its code."""
    _stop_in_order()
    # NumPy's linear algebra is unused here, but its import starts a thread per core, and these spin for 0.1 s.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the run is over, and the exit code gives its outcome
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence_stdout()
        code = code or 1
    sys.exit(code)


def _stop_in_order() -> None:
    """Treats requests to end, from job schedulers and closing terminals, as Ctrl-C, so that half-written files are
    removed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` ignores the signal
            signal.signal(number, signal.default_int_handler)


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; returns the exit code."""
    return guarded(_run, arguments)


def guarded(invoke: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Runs a command line by `invoke`. Whatever happens is an exit code and, for errors, one clear line."""
    try:
        return _told(invoke, arguments)
    except KeyboardInterrupt as stop:
        # The command may add text, in the same line.
        _say(f"interrupted; {stop}" if str(stop) else "interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed it
        _silence_stdout()
        return 1


def _run(arguments: Sequence[str]) -> int:
    from farfield.cli.table import check_command, help_text

    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text())
        return 0
    if arguments[0] == "--version":
        from farfield._version import __version__

        print(f"farfield {__version__}")
        return 0
    check_command(arguments[0])
    from farfield.cli.app import build, invoke

    return invoke(build(arguments[:1]), arguments)


def _told(invoke: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    from farfield.errors import FarfieldError

    try:
        return invoke(arguments)
    except FarfieldError as error:
        if wants_traceback(arguments):
            raise
        _say(f"error: {in_flags(str(error))}")
        return error.exit_code
    except MemoryError as error:
        if wants_traceback(arguments):
            raise
        _say(f"error: the machine has no memory left: {error}; give a smaller --memory-limit")
        return 4
    except OSError as error:
        if isinstance(error, BrokenPipeError) or wants_traceback(arguments):
            raise
        place = f"{error.filename}: " if error.filename else ""
        _say(f"error: {place}{error.strerror or error}")
        return 5 if isinstance(error, PermissionError) else 1
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # a bug, or a panic of the extension, which is not an Exception
        if wants_traceback(arguments):
            raise
        _say(
            f"error: internal: {type(error).__name__}: {error}; "
            "this is a defect of Farfield: run again with FARFIELD_DEBUG=1 for a traceback to report"
        )
        return 1


def in_flags(message: str) -> str:
    """Replaces the name of an option in a message of the extension by the name of the flag.

    >>> in_flags("trace options: 'time_step' must be a positive number"), in_flags("wing.q: cut off")
    ('--time-step must be a positive number', 'wing.q: cut off')
    """
    found = re.fullmatch(r"(?:[a-z]+ )*options: '([a-z][a-z0-9_]*)' (must be .*)", message, re.DOTALL)
    if found is None:
        return message
    flag = {"refine_length": "refine", "curve_points": "curves"}.get(found[1], found[1]).replace("_", "-")
    return f"--{flag} {found[2]}"


def wants_traceback(arguments: Sequence[str]) -> bool:
    """Whether errors include Python's traceback: with FARFIELD_DEBUG or -vv."""
    if os.environ.get("FARFIELD_DEBUG", "") not in ("", "0"):
        return True
    short = sum(a.count("v") for a in arguments if a.startswith("-") and a.strip("-v") == "" and not a.startswith("--"))
    return short + sum(a == "--verbose" for a in arguments) >= 2


def _say(text: str) -> None:
    try:
        print(f"farfield: {text}", file=sys.stderr, flush=True)
    except (OSError, ValueError):
        pass  # stderr is closed; the exit code remains


def _silence_stdout() -> None:
    """Prevents a failure of the interpreter's last flush on a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
