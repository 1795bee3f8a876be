"""Datasets that are brought near: from a disk, an archive or a store to page servers."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from farfield import _core
from farfield.errors import UsageError
from farfield.runtime.progress import Report, reporting
from farfield.runtime.settings import Settings
from farfield.serving.dataset_files import DatasetFiles, ends_alike, files_of
from farfield.serving.server import parse_rate

_SCHEME = "farfield"
_DATASET = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
_LIST_TIME_NS = 1_000_000_000
"""The time of change of lists that are made here: the same one whenever they are staged again."""


def parse_destination(text: str) -> tuple[list[str], str]:
    """The URLs of the servers, and the name of the dataset, of `farfield://a,b:7000/name`.

    >>> parse_destination("farfield://a,b:7000/wing.zarr")
    (['farfield://a', 'farfield://b:7000'], 'wing.zarr')

    Raises:
        UsageError: if it is no such address.
    """
    scheme, mark, rest = text.partition("://")
    servers, _, name = rest.rstrip("/").partition("/")
    if not mark or scheme != _SCHEME or not all(servers.split(",")):
        raise UsageError(f"{text}: data are staged to page servers; write it like farfield://a,b,c/name")
    if _DATASET.fullmatch(name) is None:
        raise UsageError(
            f"{text}: '{name}' cannot be the name of a staged dataset; give one of letters, digits and . _ - that does "
            "not begin with a point"
        )
    return [f"{_SCHEME}://{server}" for server in servers.split(",")], name


def stage(
    source: str | os.PathLike[str],
    destination: str,
    *,
    replicas: int = 1,
    fields: Sequence[str] = (),
    steps: str | None = None,
    rate: str | int | None = None,
    memory_limit: str | int | None = None,
    dry_run: bool = False,
    progress: bool | Report | None = None,
) -> dict[str, Any]:
    """Brings a dataset to page servers, each of its files to `replicas` of them. What is there already is not sent
    again, so the same call goes on after an interruption. The dataset appears once all of it is there.

    Args:
        source: Whatever `farfield.open` takes, except demos.
        destination: `farfield://a,b,c/name`: servers that were started with `--staging`.
        replicas: The number of servers that get each file. Small documents go to all.
        fields: The fields of a store; all, if there are none.
        steps: `all`, `a:b:s` or `n,n,...`: time steps of a store, or of a series of PLOT3D files.
        rate: Most bytes a second, or `"200Mbit"`.
        memory_limit: As in `farfield.open`.
        dry_run: Only say what would go where.
        progress: As in `farfield.open`.

    Returns:
        `files`, `bytes`, `bytes_sent`, `bytes_there`, `seconds`, `servers`, and `source`: what to open then.

    Raises:
        AccessError: if a server cannot be reached, or this client may not stage there.
        DataError: if a file cannot be read or changes meanwhile, or a server has no room.
        UsageError: if the source has no files of its own, or an argument is invalid.
    """
    text = os.fspath(source)
    servers, name = parse_destination(destination)
    found = files_of(text, fields=fields, steps=steps)
    address = found.address(f"{_SCHEME}://{_hosts(servers)}/{name}")
    with tempfile.TemporaryDirectory(prefix="farfield-stage-") as folder, reporting(progress) as report:
        options = {
            "files": _named(found, name, Path(folder)),
            "servers": servers,
            "dataset": name,
            "replicas": replicas,
            "rate": parse_rate(rate) if isinstance(rate, str) else rate,
            "memory": Settings({"memory_limit": memory_limit}).memory_limit(),
            "dry_run": dry_run,
        }
        done: dict[str, Any] = json.loads(_core.stage_files(json.dumps(options), report))
    return {"source": address, **done}


def remove(destination: str) -> dict[str, Any]:
    """Removes a staged dataset from servers, with what was begun of it.

    Raises:
        AccessError: if a server cannot be reached, or this client may not stage there.
        DataError: if no server has it.
    """
    servers, name = parse_destination(destination)
    return {"removed": name, "servers": _core.remove_staged(servers, name)}


def _hosts(servers: Sequence[str]) -> str:
    return ",".join(server.partition("://")[2] for server in servers)


def _named(found: DatasetFiles, name: str, folder: Path) -> list[tuple[str, str]]:
    """Files with their names below the dataset; the list of files, if there is one, is made in `folder`."""
    files = list(found.files)
    if found.is_file and ends_alike(name, files[0][1]):
        return [(files[0][0], "")]
    for list_name, listed in found.lists.items():
        made = folder / list_name
        made.write_text("".join(f"{file}\n" for file in listed), encoding="utf-8")
        os.utime(made, ns=(_LIST_TIME_NS, _LIST_TIME_NS))
        files.append((str(made), list_name))
    return files
