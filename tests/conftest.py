"""What tests share: the command line, in this process and as one of its own, small flows, a stand-in for the extension."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fake_native
from plot3d_files import Block, box, cut, source_of, write
from running import Command, Json, farfield, process

# A shell that runs this in the background, or `nohup`, has signals ignored, and children inherit that; some of them are to be
# interrupted. A handler, whatever it does, is the default again in a child.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture(scope="session")
def ff() -> Command:
    """Runs `farfield` in this process; `ok` are the exit codes that the test expects."""
    return farfield


@pytest.fixture(scope="session")
def ff_json(ff: Command) -> Json:
    """Runs `farfield ... --json` in this process; the object that it prints."""
    return lambda *words, **more: json.loads(ff(*words, "--json", **more).stdout)


@pytest.fixture(scope="session", name="process")
def process_() -> Command:
    """Runs `farfield` as a process, where that is what is tested: its exit, signals, resident memory, or several at a time."""
    return process


@pytest.fixture(scope="session")
def process_json(process: Command) -> Json:
    """Runs `farfield ... --json` as a process; the object that it prints."""
    return lambda *words, **more: json.loads(process(*words, "--json", **more).stdout)


@pytest.fixture(scope="session")
def flow_blocks() -> list[Block]:
    """Three abutting zones, cut along i out of one warped box."""
    return cut(box(25, 15, 13), 3)


@pytest.fixture(scope="session")
def flow(flow_blocks: list[Block], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source string of those zones."""
    return source_of(*write(tmp_path_factory.mktemp("flow"), flow_blocks))


@pytest.fixture(scope="session")
def store(flow: str, ff: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, converted, with small pages."""
    target = tmp_path_factory.mktemp("store") / "flow.zarr"
    ff("convert", flow, target, "--page", 8)
    return target


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> fake_native.Calls:
    """In place of the extension, one that records what it is asked and answers in the right shape."""
    calls = fake_native.Calls()
    fake_native.put(monkeypatch, fake_native.module(calls))
    return calls


@pytest.fixture
def there(tmp_path: Path) -> Callable[..., Any]:
    """What reads a volume that may have to be converted into a cache."""
    from volume_files import look

    return lambda path, **options: look(path, tmp_path / "cache", **options)
