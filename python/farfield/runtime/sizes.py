"""Amounts of memory: their text forms, and the available memory.

>>> parse_bytes("64KiB"), parse_bytes("1.5 GiB"), parse_bytes("10MB"), parse_bytes("4096")
(65536, 1610612736, 10000000, 4096)
>>> resolve_limit("50%", available=8 * 2**30)
4294967296
>>> format_bytes(1536), format_bytes(3 * 2**30)
('1.5 KiB', '3.0 GiB')
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from farfield.errors import UsageError

_UNITS = {
    "": 1,
    "b": 1,
    **{u + "ib": 1024 ** (n + 1) for n, u in enumerate("kmgtp")},
    **{u + "b": 1000 ** (n + 1) for n, u in enumerate("kmgtp")},
    **{u: 1024 ** (n + 1) for n, u in enumerate("kmgtp")},
}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*|%)\s*")
_MOST = (1 << 64) - 1
"""Largest number of bytes of the extension's counters."""
_UNLIMITED_V1 = 1 << 60
"""cgroup v1 gives "no limit" as a number just below 2^63; no real limit exceeds an exbibyte."""


def parse_bytes(text: str) -> int:
    """Bytes from `2GiB`, `500MB`, `64k` (binary, as in `dd`) or a plain number.

    Raises:
        UsageError: if the text is not an amount of at least one byte.
    """
    match = _NUMBER.fullmatch(text)
    factor = _UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise UsageError(f"'{text}' is not an amount of memory; write it like 2GiB, 500MB or 65536")
    value = int(float(match[1]) * factor)
    if value < 1:
        raise UsageError(f"'{text}' is less than one byte")
    if value > _MOST:
        raise UsageError(f"'{text}' is more than any machine has")
    return value


def resolve_limit(text: str | int, available: int | None = None) -> int:
    """Bytes of a memory limit: an amount, or a share of the memory of the cgroup or the machine.

    Raises:
        UsageError: if it has neither form.
    """
    if isinstance(text, int):
        if not 1 <= text <= _MOST:
            raise UsageError(f"a memory limit of {text} bytes is out of range; it is 1 to 2^64 - 1")
        return text
    match = _NUMBER.fullmatch(text)
    if match and match[2] == "%":
        share = float(match[1])
        if not 0.0 < share <= 100.0:
            raise UsageError(f"'{text}' is not a share of memory; write it like 50%")
        return max(1, int((available_memory() if available is None else available) * share / 100.0))
    return parse_bytes(text)


def format_bytes(count: float) -> str:
    """An amount in binary units, as text."""
    value = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024.0 or unit == "TiB":
            break
        value /= 1024.0
    return f"{int(value)} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def count(number: int, noun: str) -> str:
    """A count with its noun, as text: `1 page`, `2,048 pages`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def available_memory() -> int:
    """The smallest of the machine's memory and the limits of this process's cgroups (v1 or v2)."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *cgroup_limits()])


def cgroup_limits(proc: Path = Path("/proc/self"), root: Path = Path("/")) -> list[int]:
    """Memory limits of this process's cgroup and its ancestors; empty if there are none."""
    try:
        groups = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:  # no cgroups, or no permission to read them: only the machine's memory counts
        return []
    limits = []
    for line in groups:
        number, controllers, path = line.split(":", 2)
        if number == "0" and controllers == "":
            kind, name = "cgroup2", "memory.max"
        elif "memory" in controllers.split(","):
            kind, name = "cgroup", "memory.limit_in_bytes"
        else:
            continue
        for top, mounted in _cgroup_mounts(mounts, kind):
            # Inside a container, the mount shows a part of the tree, and the path is relative to that part.
            relative = path[len(top) :] if top != "/" and (path + "/").startswith(top + "/") else path
            group = root / (mounted + "/" + relative).lstrip("/")
            stop = root / mounted.lstrip("/")
            while True:
                limit = _read_limit(group / name)
                if limit is not None:
                    limits.append(limit)
                if group == stop or stop not in group.parents:
                    break
                group = group.parent
    return limits


def _cgroup_mounts(mountinfo: list[str], kind: str) -> list[tuple[str, str]]:
    """(root within the hierarchy, mount point) of the mounts with memory limits."""
    found = []
    for line in mountinfo:
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) > 4 and tail and tail[0] == kind and (kind == "cgroup2" or "memory" in tail[-1].split(",")):
            found.append((fields[3], fields[4]))
    return found


def _read_limit(path: Path) -> int | None:
    try:
        value = int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None
    return value if 0 < value < _UNLIMITED_V1 else None
