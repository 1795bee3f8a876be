from __future__ import annotations

import re
from pathlib import Path

import pytest

from farfield.errors import DataError, UnknownName, UsageError
from farfield.runtime.settings import REPLACEMENT, SETTINGS, Settings, parse_picture_size, read_file, write_setting
from farfield.runtime.sizes import cgroup_limits, format_bytes, parse_bytes, resolve_limit

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("64KiB", 65536),
        ("64k", 65536),
        ("2GiB", 2**31),
        ("2 GB", 2 * 10**9),
        (".5MiB", 2**19),
        ("1TiB", 2**40),
    ],
)
def test_amounts(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1 parsec", "0", "0.1", "1e9", "50%", "1 2"])
def test_amounts_that_make_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        parse_bytes(text)


def test_shares() -> None:
    assert resolve_limit("25%", available=1000) == 250
    assert resolve_limit(4096) == 4096
    assert 0 < resolve_limit("50%") <= 2**60
    for text in ("0%", "101%", "-5%"):
        with pytest.raises(UsageError):
            resolve_limit(text, available=1000)


def test_amounts_for_people() -> None:
    assert [format_bytes(n) for n in (0, 1023, 1024, 2**20 * 1.5)] == ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB"]


def _proc(folder: Path, cgroup: str, mountinfo: str) -> Path:
    proc = folder / "proc"
    proc.mkdir()
    (proc / "cgroup").write_text(cgroup)
    (proc / "mountinfo").write_text(mountinfo)
    return proc


def test_cgroup_2_takes_the_least_of_the_groups_above(tmp_path: Path) -> None:
    proc = _proc(tmp_path, "0::/a/b\n", "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n")
    group = tmp_path / "sys/fs/cgroup/a/b"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group.parent / "memory.max").write_text("5000000\n")
    assert cgroup_limits(proc, tmp_path) == [5000000]


def test_cgroup_1_in_a_container_where_the_mount_shows_a_part(tmp_path: Path) -> None:
    proc = _proc(
        tmp_path,
        "9:cpu:/x\n4:memory:/box/mine/sub\n0::/\n",
        "31 20 0:27 /box/mine /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
    )
    group = tmp_path / "sys/fs/cgroup/memory"
    (group / "sub").mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("7000\n")
    (group / "sub/memory.limit_in_bytes").write_text("9223372036854771712\n")
    assert cgroup_limits(proc, tmp_path) == [7000]


def test_no_cgroup(tmp_path: Path) -> None:
    assert cgroup_limits(tmp_path / "nothing", tmp_path) == []


def test_precedence(tmp_path: Path) -> None:
    project, user = tmp_path / "farfield.toml", tmp_path / "config.toml"
    user.write_text("workers = 4\nreaders = 4\nreplacement = 'lru'\npage = 4\n")
    project.write_text("workers = 3\nreaders = 3\nreplacement = 'clock'\n")
    s = Settings({"workers": 1}, environ={"FARFIELD_WORKERS": "2", "FARFIELD_READERS": "2"}, files=[project, user])
    assert [s[n] for n in ("workers", "readers", "replacement", "page", "progress")] == [1, 2, "clock", 4, True]
    assert [s.origin(n) for n in ("workers", "readers", "replacement", "page", "progress")] == [
        "--workers", "FARFIELD_READERS", str(project), str(user), "default",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [("workers", "-1"), ("workers", "two"), ("memory_limit", "lots"), ("page", "12"), ("codec", "gzip"), ("size", "10"),
     ("size", "0x5"), ("progress", "maybe"), ("replacement", "random"), ("cmap", "nosuch")],
)  # fmt: skip
def test_a_value_that_makes_no_sense_names_where_it_stands(name: str, text: str) -> None:
    variable = "FARFIELD_" + name.upper()
    with pytest.raises(UsageError, match=variable):
        Settings({}, environ={variable: text}, files=[])[name]


@pytest.mark.parametrize("text", ["1000000x1000000", "100001x5", "0x5", "5x" + "9" * 5000])
def test_a_picture_size_beyond_what_there_is_says_how_large_one_may_be(text: str) -> None:
    with pytest.raises(UsageError, match="each side has from 1 to 100,000 pixels"):
        parse_picture_size(text)
    assert parse_picture_size("100000 x 0001") == (100_000, 1)


def test_every_default_is_valid() -> None:
    s = Settings({}, environ={}, files=[])
    for name in SETTINGS:
        s[name]


def test_replacement_is_called_as_the_pager_calls_it() -> None:
    policies = ROOT / "crates/pager/src/policy"
    names = {}
    for path in policies.glob("*.rs"):
        if name := re.search(r'impl (\w+) \{[^}]*? const NAME: &\'static str = "(.*?)";', path.read_text()):
            names[name[1]] = name[2]
    (kinds,) = re.findall(r"pub const ALL: &\[Self\] = &\[(.*?)\];", (policies / "mod.rs").read_text())
    assert tuple(names[kind] for kind in re.findall(r"Self::(\w+)", kinds)) == REPLACEMENT
    for name in REPLACEMENT:
        assert Settings({"replacement": name}, environ={}, files=[])["replacement"] == name


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "config.toml"
    write_setting(path, "workers", "3")
    path.write_text("# mine\nreplacement = 'lru'  # why\n" + path.read_text())
    write_setting(path, "workers", "5")
    assert read_file(path) == {"replacement": "lru", "workers": "5"}
    assert path.read_text().startswith("# mine\n")
    with pytest.raises(UsageError):
        write_setting(path, "workers", "many")
    with pytest.raises(UnknownName):
        write_setting(path, "no_such", "1")
    assert read_file(path)["workers"] == "5"
    path.write_text("workers = [")
    with pytest.raises(DataError, match=r"config\.toml"):
        write_setting(path, "workers", "3")
    path.write_text("wrokers = 3")
    with pytest.raises(UnknownName, match="wrokers"):
        read_file(path)
