"""Settings and their origins, by precedence: the flag, `FARFIELD_*`, ./farfield.toml, the user's file.

>>> Settings({"workers": "3"}, environ={"FARFIELD_READERS": "7"}, files=[])["workers"]
3
>>> Settings({}, environ={"FARFIELD_READERS": "7"}, files=[]).origin("readers")
'FARFIELD_READERS'
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from farfield.errors import AccessError, DataError, UnknownName, UsageError
from farfield.runtime.sizes import resolve_limit

PROJECT_FILE = Path("farfield.toml")
DEFINE = "define"
"""The table of a file with definitions of fields."""


def user_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's file, by the XDG rules."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(base) / "farfield" / "config.toml"


def _whole(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()):
        raise UsageError(f"'{text}' is not a whole number of at least 0")
    return int(text)


def _yes(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise UsageError(f"'{text}' is neither yes nor no")


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise UsageError(f"'{text}' is none of {', '.join(words)}")
        return text

    return parse


def _limit(text: str) -> str:
    resolve_limit(text, available=1 << 40)
    return text


def _cache_size(text: str) -> str:
    resolve_limit(text, available=1 << 50)
    return text


def _cache_size_or_none(text: str) -> str:
    return text if text.strip() == "0" else _cache_size(text)


def _page(text: str) -> int:
    return int(_one_of("4", "8", "16", "32", "64")(text.strip()))


LONGEST_SIDE = 100_000
"""Largest side of a picture in pixels."""


def parse_picture_size(text: str) -> tuple[int, int]:
    """Width and height in pixels from `1920x1080`.

    Raises:
        UsageError: if it is not two positive numbers, or exceeds the limits of a PNG file.
    """
    match = re.fullmatch(r"\s*(\d+)\s*[xX]\s*(\d+)\s*", text)
    if match is None:
        raise UsageError(f"'{text}' is not a picture size; write it like 1920x1080")
    # As text, because thousands of digits are too slow to convert.
    sides = [side.lstrip("0") for side in match.groups()]
    if any(not side or len(side) > len(str(LONGEST_SIDE)) or int(side) > LONGEST_SIDE for side in sides):
        raise UsageError(
            f"'{text}' cannot be the size of a picture: each side has from 1 to {LONGEST_SIDE:,} pixels, as in 1920x1080"
        )
    return int(sides[0]), int(sides[1])


def _colour_map(text: str) -> str:
    # The import is expensive, and only needed for a colour map.
    from farfield.pictures.colors import lut

    try:
        lut(text)
    except UnknownName as error:
        raise UsageError(str(error)) from error
    return text


def _default_cache(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())) / "farfield"


@dataclass(frozen=True)
class Setting:
    """A setting: its parser and its purpose."""

    name: str
    parse: Callable[[str], Any]
    default: str | None
    help: str

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return "FARFIELD_" + self.name.upper()


# The pager's names of its policies, the default first.
REPLACEMENT = ("clock", "lru", "sieve", "s3-fifo", "2q")

SETTINGS = {
    s.name: s
    for s in (
        Setting("memory_limit", _limit, "50%", "bytes (2GiB, 64KiB) or a share of the machine or its cgroup (50%)"),
        Setting("workers", _whole, "0", "threads that compute at most; 0: one a core"),
        Setting("readers", _whole, "0", "reads in flight; 0: what suits the source"),
        Setting("replacement", _one_of(*REPLACEMENT), REPLACEMENT[0], f"which page goes: {', '.join(REPLACEMENT)}"),
        Setting("progress", _yes, "yes", "show progress on a terminal"),
        Setting("cache_dir", lambda text: Path(text).expanduser(), None, "where converted and generated data is kept"),
        Setting(
            "cache_size", _cache_size, "20%", "what is kept takes at most: bytes (50GiB) or a share of its disk (20%)"
        ),
        Setting(
            "network_cache",
            _cache_size_or_none,
            "10GiB",
            "pages of servers on this disk: bytes, a share of it, or 0 for none",
        ),
        Setting("offline", _yes, "no", "use only what is kept of servers, and ask none"),
        Setting("page", _page, None, "page edge of converted stores: 4, 8, 16, 32 or 64"),
        Setting("layout", _one_of("cubed", "flat"), None, "layout of converted stores: cubed or flat"),
        Setting("codec", _one_of("none", "zstd", "lz4"), None, "codec of converted stores: none, zstd or lz4"),
        Setting("size", parse_picture_size, "1600x900", "size of pictures"),
        Setting("cmap", _colour_map, None, "colour map of fields that have no sign"),
    )
}


def setting(name: str) -> Setting:
    """The setting of that name; dashes are equal to underscores.

    Raises:
        UnknownName: if it does not exist, with the existing ones.
    """
    found = SETTINGS.get(name.replace("-", "_"))
    if found is None:
        raise UnknownName(f"no setting named '{name}'; there are: {', '.join(SETTINGS)}")
    return found


def _table(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:  # the file is optional
        return {}
    except PermissionError as error:
        raise AccessError(
            f"{path}: cannot read the settings: permission denied; ask its owner for the right to"
        ) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path}: cannot read the settings: {error}") from error


def read_definitions(path: Path) -> dict[str, str]:
    """The table `[define]` of a TOML file: names and expressions; empty if there is none.

    Raises:
        DataError: if the file cannot be read or is not TOML, or if an expression is not text.
    """
    table = _table(path).get(DEFINE, {})
    if not isinstance(table, dict):
        raise DataError(f"{path}: '{DEFINE}' is a table: write [{DEFINE}], and below it NAME = \"EXPRESSION\"")
    for name, expression in table.items():
        if not isinstance(expression, str):
            raise DataError(f'{path}: [{DEFINE}] {name}: write the expression as text: {name} = "{expression}"')
    return dict(table)


def read_file(path: Path) -> dict[str, str]:
    """Settings of a TOML file as text, without definitions; empty if the file does not exist.

    Raises:
        DataError: if it cannot be read or is not TOML.
        UnknownName: if a setting does not exist.
    """
    values = {}
    for key, value in _table(path).items():
        if key == DEFINE:
            continue
        name = key.replace("-", "_")
        if name not in SETTINGS or isinstance(value, dict | list):
            raise UnknownName(f"{path}: no setting named '{key}'; there are: {', '.join(SETTINGS)}")
        values[name] = str(value)
    return values


class Settings:
    """All settings with their origins. Files are read once, and only if nothing of higher precedence sets a name."""

    def __init__(
        self,
        flags: Mapping[str, Any] | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        files: Sequence[Path] | None = None,
    ) -> None:
        self._flags = {k: v for k, v in (flags or {}).items() if v is not None}
        self._environ = environ
        self._files = [PROJECT_FILE, user_file(environ)] if files is None else list(files)
        self._tables: list[dict[str, str]] | None = None

    @property
    def flags(self) -> dict[str, Any]:
        """Values given with the call or the command.

        >>> Settings({"workers": 3, "readers": None}).flags
        {'workers': 3}
        """
        return dict(self._flags)

    def _find(self, name: str) -> tuple[Any, str]:
        known = setting(name)
        if known.name in self._flags:
            return self._flags[known.name], "--" + known.name.replace("_", "-")
        if self._environ.get(known.variable, "") != "":
            return self._environ[known.variable], known.variable
        if self._tables is None:
            self._tables = [read_file(path) for path in self._files]
        for path, table in zip(self._files, self._tables, strict=True):
            if known.name in table:
                return table[known.name], str(path)
        return known.default, "default"

    def origin(self, name: str) -> str:
        """The flag, variable or file that sets a value, or `default`."""
        return self._find(name)[1]

    def __getitem__(self, name: str) -> Any:
        """The value of a setting.

        Raises:
            UsageError: if the value is invalid, with its origin.
        """
        value, origin = self._find(name)
        if value is None:
            return _default_cache(self._environ) if name == "cache_dir" else None
        try:
            return setting(name).parse(str(value))
        except UsageError as error:
            raise UsageError(f"{origin}: {error}") from error

    def definitions(self) -> list[tuple[str, str, str]]:
        """Fields that the files define: name, expression, file. The first definition of a name counts.

        Raises:
            DataError: if a file cannot be read, or if its definitions are invalid.
        """
        found: dict[str, tuple[str, str, str]] = {}
        for path in self._files:
            for name, expression in read_definitions(path).items():
                found.setdefault(name, (name, expression, str(path)))
        return list(found.values())

    def memory_limit(self) -> int:
        """The memory limit in bytes."""
        return resolve_limit(self["memory_limit"])

    def network_cache(self) -> int:
        """Most bytes of pages of servers on the disk of `cache_dir`; 0: none.

        Raises:
            UsageError: if the value is invalid.
        """
        text = self["network_cache"]
        return 0 if text.strip() == "0" else resolve_limit(text, available=self._disk())

    def cache_limit(self) -> int:
        """Largest size of the cache in bytes."""
        return resolve_limit(self["cache_size"], available=self._disk())

    def _disk(self) -> int:
        """Bytes of the disk of the cache."""
        folder = Path(self["cache_dir"]).absolute()
        there = next(place for place in (folder, *folder.parents) if place.exists())
        return shutil.disk_usage(there).total

    def resources(self, *, replacement: bool = True) -> dict[str, Any]:
        """Resources of a run in the form for the extension. `replacement` False: for a run that replaces no pages."""
        names = ("workers", "readers", "replacement") if replacement else ("workers", "readers")
        return {"memory_limit": self.memory_limit(), **{name: self[name] for name in names}}


def write_setting(path: Path, name: str, text: str) -> None:
    """Sets a value in a file; other lines and comments stay unchanged.

    Raises:
        UsageError: if the value is invalid.
        UnknownName: if the setting does not exist.
        DataError: if the file cannot be written, or is no file of settings.
    """
    known = setting(name)
    known.parse(text)
    read_file(path)  # raises for a damaged file, before it is changed
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    mine = re.compile(rf"\s*[\"']?{known.name.replace('_', '[_-]')}[\"']?\s*=")
    try:
        old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        # Lines below the head of a table belong to that table.
        tables = next((n for n, line in enumerate(old) if line.lstrip().startswith("[")), len(old))
        kept = [line for line in old[:tables] if not mine.match(line)]
        below = ["", *old[tables:]] if old[tables:] and kept and kept[-1].strip() else old[tables:]
        while below and kept and not kept[-1].strip():
            below = [kept.pop(), *below]
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_name(path.name + ".new")
        lines = [*kept, f"{known.name} = {quoted}", *below]
        scratch.write_text("\n".join(lines) + "\n", encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot write the settings: {error.strerror or error}") from error
