"""Tokens of a page server: secrets of its clients, of which the server keeps hashes.

They lie in the file `tokens` of the server's folder, one a line: a name, the SHA-256 of the token, and `stage` if it may
stage data.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from farfield import _core
from farfield.errors import AccessError, DataError, UnknownName, UsageError

_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")


def state_folder() -> Path:
    """The folder of a server's certificate and tokens, by the XDG rules."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(base) / "farfield" / "server"


def listed(folder: Path) -> list[tuple[str, str]]:
    """Names and hashes of the tokens of a server's folder; errors as those of `_entries`."""
    return [(name, digest) for name, digest, _ in _entries(folder)]


def stagers(folder: Path) -> list[str]:
    """Hashes of the tokens that may stage; errors as those of `_entries`."""
    return [digest for _, digest, may_stage in _entries(folder) if may_stage]


def _entries(folder: Path) -> list[tuple[str, str, bool]]:
    """Names and hashes of tokens, and whether they may stage.

    Raises:
        AccessError: if other users may read or change the file.
        DataError: if a line is not a name, a hash and perhaps `stage`.
    """
    file = folder / "tokens"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except PermissionError as error:
        raise AccessError(f"{file}: {error.strerror}; the server's user must be able to read it") from error
    if file.stat().st_mode & 0o077:
        raise AccessError(f"{file}: others may read or change it; chmod 600 {file}")
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[2:] not in ([], ["stage"]) or len(words) < 2 or not re.fullmatch(r"[0-9a-f]{64}", words[1]):
            raise DataError(f"{file}: line {number} is not a name and a hash of 64 digits; remove it")
        found.append((words[0], words[1], words[2:] == ["stage"]))
    return found


def add(folder: Path, name: str, *, may_stage: bool = False) -> str:
    """Makes a token for a client, and returns it. The server keeps only its hash. `may_stage`: for `farfield stage`, too.

    Raises:
        UsageError: if the name has other characters, or there is one of this name.
    """
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"'{name}': a token's name has letters, digits and . _ @ - only, 64 at most")
    known = _entries(folder)
    if any(name == of for of, _, _ in known):
        raise UsageError(f"there is a token named '{name}'; remove it first (--revoke {name}), or choose another name")
    secret, digest = _core.new_token()
    _write(folder, [*known, (name, digest, may_stage)])
    return secret


def remove(folder: Path, name: str) -> None:
    """Revokes a token.

    Raises:
        UnknownName: if there is none of this name.
    """
    known = _entries(folder)
    if all(name != of for of, _, _ in known):
        there = ", ".join(of for of, _, _ in known) or "none"
        raise UnknownName(f"no token named '{name}'; there are: {there}")
    _write(folder, [entry for entry in known if entry[0] != name])


def _write(folder: Path, tokens: list[tuple[str, str, bool]]) -> None:
    """Replaces the file in one step."""
    temporary = folder / f"tokens.{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {digest}{' stage' * may_stage}\n" for name, digest, may_stage in tokens)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / "tokens")
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise DataError(f"{folder}: the tokens cannot be written: {error.strerror}") from error
