"""Files of sources, here and at servers: `farfield.sources.places` against `os`, and file objects against `io.BytesIO`."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pytest

from fake_server import HOST, Server, put
from farfield.errors import AccessError, DataError, UsageError
from farfield.results import outputs
from farfield.runtime import cache
from farfield.sources import addresses, list_files, parsing, paths, places, remote_files
from farfield.volume.formats.cache_conversion import identity

NAMES = ("a.nrrd", "run/sol_1.q", "run/sol_2.q", "run/sol_10.q", "run/deep/x.txt", "run/.hidden", "b.zarr/.zgroup")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    for n, name in enumerate(NAMES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(range(n, n + 7 * n + 1)))
    made = Server(tmp_path)
    put(monkeypatch, made)
    return made


@pytest.mark.parametrize(
    "name", [*NAMES, "", "run", "run/deep", "b.zarr", "none", "none.zarr", "run/none.q", "a.nrrd/zarr.json"]
)
def test_what_is_there(server: Server, name: str) -> None:
    here, there = str(server.root / name), server.url(name).rstrip("/")
    for of in (places.exists, places.isfile, places.isdir):
        assert of(there) == of(here)
        with places.opening():
            assert of(there) == of(here)
    if os.path.isfile(here):
        assert places.getsize(there) == os.path.getsize(here)
        assert places.modified_ns(there) == os.stat(here).st_mtime_ns
        assert places.read_bytes(there) == Path(here).read_bytes()
    elif not os.path.exists(here):
        for of in (places.getsize, places.version, places.read_bytes, places.modified_ns):
            with pytest.raises(FileNotFoundError):
                of(there)
            with pytest.raises((FileNotFoundError, NotADirectoryError)):
                of(here)


@pytest.mark.parametrize("inside", [True, False])
def test_folders(server: Server, inside: bool) -> None:
    with places.opening() if inside else io.BytesIO():
        for name in ("", "run", "run/deep"):
            here, there = str(server.root / name), server.url(name).rstrip("/")
            assert sorted(places.listdir(there)) == sorted(os.listdir(here))
            assert {(e.name, e.is_dir(), e.is_file(), e.path) for e in places.entries(there)} == {
                (e.name, e.is_dir(), e.is_file(), server.url(e.path)) for e in os.scandir(here)
            }
            assert {(folder, *map(frozenset, more)) for folder, *more in places.walk(there)} == {
                (server.url(folder).rstrip("/"), *map(frozenset, more)) for folder, *more in os.walk(here)
            }


@pytest.mark.parametrize(
    "pattern", ["run/sol_*.q", "*/sol_[12].q", "*", "run/*", "run/.h*", "*/deep/x.txt", "none/*.q", "run/*/*", "a.nrrd"]
)
def test_patterns(server: Server, pattern: str) -> None:
    with places.opening():
        found = places.glob(server.url(pattern))
    assert sorted(found) == sorted(map(server.url, places.glob(str(server.root / pattern))))


def test_a_question_mark_begins_a_query_and_is_no_wildcard(server: Server) -> None:
    assert not places.has_magic("https://host/a.nrrd?key=1")
    assert places.glob(server.url("run/sol_?.q")) == []


def test_a_place_that_lists_nothing_recommends_a_list(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match="403"):
        server.lists = False
        places.glob(server.url("run/sol_*.q"))
    monkeypatch.setattr(addresses, "UNLISTED", ("http", "https", "fake"))
    with pytest.raises(UsageError, match=r"@names\.txt"):
        places.glob(server.url("run/sol_*.q"))
    with pytest.raises(DataError, match=r"@names\.txt"):
        places.listdir(server.url("run"))
    assert places.isdir(server.url("b.zarr"))


def test_walking_goes_where_the_caller_lets_it(server: Server) -> None:
    seen = []
    for folder, folders, _ in places.walk(HOST):
        folders[:] = [name for name in folders if name in ("run", "deep")]
        seen.append(folder)
    assert seen == [HOST, server.url("run"), server.url("run/deep")]


def test_names() -> None:
    assert places.abspath("a") == os.path.abspath("a")
    assert places.realpath("s3://b/a/../c/") == places.normpath("s3://b/c") == "s3://b/c"
    assert places.expanduser("~/a") == os.path.expanduser("~/a")
    assert places.expanduser("@~/a.txt") == "@" + os.path.expanduser("~/a.txt")
    assert places.samefile("s3://b/a/.", "s3://b/a") and not places.samefile("s3://b/a", "a")
    assert places.relpath("s3://b/a/x/y", "s3://b/a") == "x/y"
    # A file at a server leads neither to this machine nor to another server, and a file here not to a server.
    assert places.join("s3://b/a", "/etc/passwd") == "s3://b/etc/passwd"
    assert places.is_remote(places.join("s3://b/a", "https://h/x")) and "s3://b/" in places.join(
        "s3://b/a", "https://h/x"
    )
    assert not places.is_remote(places.join("", "https://h/x"))


@pytest.mark.parametrize("seed", range(8))
def test_file_objects(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked in whatever order, the bytes are those of the file."""
    chance = random.Random(seed)
    size = chance.choice([0, 1, remote_files.BLOCK - 1, remote_files.BLOCK, remote_files.BLOCK + 1, 3 << 20])
    data = chance.randbytes(size)
    (tmp_path / "a.bin").write_bytes(data)
    server = Server(tmp_path)
    put(monkeypatch, server)
    with places.open_binary(server.url("a.bin")) as found:
        wanted = io.BytesIO(data)
        for _ in range(300):
            what = chance.choice(["read", "read", "seek", "readinto", "peek", "line", "rest"])
            if what == "seek":
                whence = chance.choice([0, 1, 2])
                by = chance.randint(0, size + 10) if whence == 0 else chance.randint(-min(wanted.tell(), size), 1000)
                assert found.seek(by, whence) == wanted.seek(by, whence)
            elif what == "readinto":
                one, other = bytearray(chance.choice([1, 100, 200_000])), bytearray(0)
                other = bytearray(len(one))
                assert found.readinto(one) == wanted.readinto(other) and one == other  # type: ignore[attr-defined]
            elif what == "line":
                assert found.readline() == wanted.readline()
            elif what == "rest" and chance.random() < 0.1:
                assert found.read() == wanted.read()
            else:
                count = chance.choice([0, 1, 17, 8192, 70_000, 2 << 20])
                assert found.read(count) == wanted.read(count)
            assert found.tell() == wanted.tell()
        with pytest.raises(OSError, match=r"nvalid|negative"):
            found.seek(-1)
    with pytest.raises(ValueError, match="closed"):
        found.read()
    assert all(0 < length <= 3 << 20 for _, _, length in server.of("read"))


def test_reading_in_order_asks_for_more_and_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random.Random(1).randbytes(6 << 20)
    (tmp_path / "a.bin").write_bytes(data)
    server = Server(tmp_path)
    put(monkeypatch, server)
    with places.opening():
        with places.open_binary(server.url("a.bin")) as file:
            assert file.read(4096) == data[:4096]
            assert [length for _, _, length in server.of("read")] == [remote_files.BLOCK]
            assert b"".join(iter(lambda: file.read(10_000), b"")) == data[4096:]
        lengths = [length for _, _, length in server.of("read")]
        assert len(lengths) < 14 and max(lengths) == 1 << 20 and sum(lengths) == len(data)
        blocks = remote_files.remote.knowledge().readers[server.url("a.bin")]  # type: ignore[union-attr]
        assert len(blocks._blocks) <= 4
        with places.open_binary(server.url("a.bin")) as file:
            file.seek(-10, 2)
            assert file.read() == data[-10:]
        assert server.of("open") == [server.url("a.bin")]


def test_a_server_that_gives_too_little_is_not_believed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = server.reader

    def short(path: str) -> object:
        made = reader(path)
        made.size += 1
        return made

    monkeypatch.setattr(remote_files.remote.extension(), "FileReader", short)
    with pytest.raises(DataError, match="has changed"):
        places.read_bytes(server.url("run/sol_2.q"))


def test_in_an_opening_each_file_is_asked_about_once(server: Server) -> None:
    files = [server.url(name) for name in NAMES] + [server.url("none.q")]
    with places.opening():
        places.prefetch_stats(files)
        for _ in range(3):
            assert [places.isfile(name) for name in files] == [True] * len(NAMES) + [False]
            assert [places.getsize(name) for name in files[:-1]] == [
                (server.root / name).stat().st_size for name in NAMES
            ]
            with places.opening():
                assert places.exists(files[0])
        assert len(server.of("stat")) == 1 and server.begun == 1
    with places.opening():
        assert places.isfile(files[0])
    assert len(server.of("stat")) == 2 and server.begun == 2


def test_a_listed_folder_needs_no_more_questions_but_for_versions(server: Server) -> None:
    with places.opening():
        for name in places.listdir(server.url("run")):
            path = server.url(f"run/{name}")
            assert places.isfile(path) or places.isdir(path)
        assert not server.of("stat")
        assert '"' in places.version(server.url("run/sol_1.q"))
        assert len(server.of("stat")) == 1


def test_an_error_of_a_server_ends_the_opening_whoever_catches_it(server: Server) -> None:
    server.refused = r"sol_2\.q"
    with pytest.raises(AccessError, match="403"), places.opening():
        try:
            places.read_bytes(server.url("run/sol_2.q"))
        except OSError:
            pass
    with pytest.raises(AccessError, match="403"), places.opening():
        try:
            with places.opening():
                places.isfile(server.url("run/sol_2.q"))
        except AccessError as error:
            raise DataError("it is damaged") from error
    with pytest.raises(AccessError, match="403"):
        places.exists(server.url("run/sol_2.q"))
    with places.opening():
        assert not places.exists(server.url("run/none.q"))


def test_local_files_ask_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files.remote, "extension", lambda: pytest.fail("asked"))
    (tmp_path / "a").write_bytes(b"1")
    with places.opening():
        places.prefetch_stats([str(tmp_path / "a")])
        assert places.read_bytes(str(tmp_path / "a")) == b"1"
        assert isinstance(places.for_library(str(tmp_path / "a")), str)


def test_identities_have_the_version(server: Server) -> None:
    path, url = server.root / "a.nrrd", server.url("a.nrrd")
    before = identity(url)
    assert before == identity(url) and url in before
    path.write_bytes(b"other")
    assert identity(url) != before


def test_records_of_the_cache_ask_no_server(server: Server, tmp_path: Path) -> None:
    entry = tmp_path / "cache" / "data" / "a.raw"
    entry.parent.mkdir(parents=True)
    entry.write_bytes(b"1")
    cache.note_use(entry, [server.url("a.nrrd"), str(server.root / "run" / "sol_1.q")])
    server.calls.clear()
    assert [e.stale for e in cache.entries(tmp_path / "cache")] == [False] and not server.calls


def test_lists_of_files(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    here = server.root / "names.txt"
    here.write_text(f"# of two places\nrun/sol_2.q\n\n  {server.url('run/sol_1.q')}\n")
    assert list_files.files_of(f"@{here}") == [str(server.root / "run/sol_2.q"), server.url("run/sol_1.q")]
    assert list_files.files_of(f"@{server.url('names.txt')}") == [server.url("run/sol_2.q"), server.url("run/sol_1.q")]
    assert parsing.expand(f"@{here}") == list_files.files_of(f"@{here}")
    monkeypatch.chdir(server.root)
    (server.root / "@odd.q").write_bytes(b"1")
    assert not list_files.is_list("@odd.q") and parsing.expand("@odd.q") == ["@odd.q"]
    here.write_text("run/sol_1.q\nrun/none.q\n")
    with pytest.raises(DataError, match=r"line 2 is run/none\.q"):
        parsing.expand("@names.txt")
    here.write_text("ftp://h/a\n")
    with pytest.raises(UsageError, match="ftp"):
        parsing.expand("@names.txt")
    here.write_text("\n")
    with pytest.raises(UsageError, match="names no file"):
        parsing.expand("@names.txt")
    with pytest.raises(DataError, match="no such list"):
        parsing.expand("@none.txt")


def test_addresses_that_are_not_read() -> None:
    with pytest.raises(UsageError, match=r"ftp:// addresses.*farfield://.*https://.*s3://"):
        parsing.parse("ftp://host/a.nrrd")
    with pytest.raises(UsageError, match=r"'/data/a b\.nii'"):
        parsing.parse("file:///data/a%20b.nii")
    with pytest.raises(UsageError, match=r"'s3://bucket/a\.zarr'"):
        parsing.parse(Path("s3://bucket/a.zarr"))
    with pytest.raises(UsageError, match="to a server"):
        outputs.check(["s3://bucket/lines.vtp"], [])


def test_sources_keep_their_addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    text = "s3://b/g.xyz+q=https://h/q_1.q+f=f.q"
    assert paths.elsewhere(text) == f"s3://b/g.xyz+q=https://h/q_1.q+f={tmp_path}/f.q"
    assert paths.elsewhere("@names.txt") == f"@{tmp_path}/names.txt"
    found = parsing.parse(text, check=False)
    assert (found.path, found.q, found.function) == ("s3://b/g.xyz", ("https://h/q_1.q",), ("f.q",))
    assert found.elsewhere().path == "s3://b/g.xyz" and found.elsewhere().q == ("https://h/q_1.q",)


def test_what_is_not_at_a_server_is_named(server: Server) -> None:
    for text in ("none.xyz", "run/sol_1.q+q=fake://host/none.q", "run/no_*.q", "none.zarr/"):
        with pytest.raises(DataError, match=r"none|no_\*"):
            parsing.parse(server.url(text))
