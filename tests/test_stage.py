"""`farfield stage`: what is at the servers then is what the source has, whatever ended it meanwhile."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import farfield
from farfield import _core
from farfield.errors import AccessError, DataError, UnknownName, UsageError
from farfield.serving import ServeOptions, Serving, tokens
from farfield.serving import start as start_server
from farfield.serving.dataset_files import files_of
from farfield.serving.server import parse_staging
from farfield.serving.staging import parse_destination, remove, stage
from plot3d_files import box, write
from remote_servers import eventually, free_port, use, web_server
from running import Command, Json, start

KILLS = 50 if "FARFIELD_SOAK_S" in os.environ else 5
"""Ends of `farfield stage` by kill -9; 50 in the long form."""
STEPS = 3


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A series of PLOT3D files, and a store of it."""
    use(monkeypatch, tmp_path, XDG_STATE_HOME=str(tmp_path / "xdg"))
    made = tmp_path / "data"
    made.mkdir()
    for step in range(STEPS):
        block = box(17, 14, 12)
        block.q = [q * (1 + step) + n for n, q in enumerate(block.q)]
        write(made, [block], stem=f"sol_{step}", real=4, time=float(step))
    (made / "sol_0.xyz").rename(made / "grid.xyz")
    for step in range(1, STEPS):
        (made / f"sol_{step}.xyz").unlink()
    farfield.convert(series(made), made / "flow.zarr", progress=False)
    return made


def series(folder: Path | str) -> str:
    return f"{folder}/grid.xyz+q={folder}/sol_*.q"


@contextmanager
def near(folder: Path, count: int = 1, size: str = "1GiB") -> Iterator[tuple[list[Serving], str]]:
    """Servers that take staged data, and the beginning of addresses there."""
    with ExitStack() as stack:
        made = [
            stack.enter_context(
                start_server(
                    ServeOptions(
                        names=[],
                        listen="127.0.0.1:0",
                        state=folder / f"state{n}",
                        staging=parse_staging(f"{folder / f'near{n}'}:{size}"),
                    )
                )
            )
            for n in range(count)
        ]
        yield made, "farfield://" + ",".join(server.address for server in made)


def below(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and times of all files below a folder."""
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def same(first: str, second: str, fields: tuple[str, ...] = (), steps: tuple[int, ...] = ()) -> None:
    """Both sources have the same numbers, bit for bit."""
    with farfield.open(first) as a, farfield.open(second) as b:
        names = fields or tuple(next(iter(a.zones.values())).fields)
        for step, name in itertools.product(steps or range(STEPS), names):
            for zone in a.zones:
                one, other = (np.asarray(ds.isel(time=step).zones[zone][name]) for ds in (a, b))
                assert one.tobytes() == other.tobytes(), (zone, name, step)


def test_a_store_and_a_pair_to_one_server(root: Path, tmp_path: Path, ff: Command, ff_json: Json) -> None:
    store = root / "flow.zarr"
    with near(tmp_path) as (_, base):
        done = ff_json("stage", store, f"{base}/flow")
        assert done["source"] == f"{base}/flow" and done["bytes_sent"] == done["bytes"] and done["bytes_there"] == 0
        assert below(tmp_path / "near0" / "flow") == below(store) and done["files"] == len(below(store))
        same(str(store), done["source"])
        again = ff_json("stage", f"{store}/", f"{base}/flow")
        assert again["bytes_sent"] == 0 and again["bytes_there"] == done["bytes"]
        pair = ff_json("stage", series(root), f"{base}/pair")
        assert pair["files"] == STEPS + 1 and pair["source"] == series(f"{base}/pair").replace(str(root), "")
        same(series(root), pair["source"])
        said = ff("stage", root / "grid.xyz", f"{base}/alone", "--dry-run").stdout
        assert said.startswith("would stage 1 file") and f"to open as {base}/alone/grid.xyz" in said
        said = ff("stage", root / "grid.xyz", f"{base}/alone.xyz", "--rate", "80Mbit").stdout
        assert f"open it as {base}/alone.xyz" in said
        assert (tmp_path / "near0" / "alone.xyz").read_bytes() == (root / "grid.xyz").read_bytes()
        listed = tmp_path / "two.txt"
        listed.write_text(f"{root}/sol_0.q\n{root}/sol_2.q\n")
        two = f"{root}/grid.xyz+q=@{listed}"
        found = files_of(two)
        assert sorted(name for _, name in found.files) == ["grid.xyz", "sol_0.q", "sol_2.q"]
        for _ in range(2):
            done = ff_json("stage", two, f"{base}/two")
            assert done["source"] == f"{base}/two/grid.xyz+q=@{base}/two/listed-1.txt" and done["files"] == 4
        assert done["bytes_sent"] == 0
        same(two, done["source"], steps=(0, 1))
        assert ff_json("stage", "--remove", f"{base}/flow")["removed"] == "flow"
        assert not (tmp_path / "near0" / "flow").exists()
        ff("stage", "--remove", f"{base}/flow", ok=(1,))


def test_replicas_on_three_servers(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = root / "flow.zarr"
    with near(tmp_path, 3) as (servers, base):
        done = stage(store, f"{base}/flow", replicas=2, progress=False)
        held = [below(tmp_path / f"near{n}" / "flow") for n in range(3)]
        for name, content in below(store).items():
            copies = [files[name] for files in held if name in files]
            assert set(copies) == {content}
            assert len(copies) == (3 if name.endswith(".json") else 2), name
        assert sum(server["files"] for server in done["servers"]) == sum(map(len, held))
        assert min(server["files"] for server in done["servers"]) > 0
        same(str(store), done["source"])
        with pytest.raises(UsageError, match="from 1 to 3"):
            stage(store, f"{base}/flow", replicas=4, progress=False)
        # A source that has changed replaces what was staged.
        path = next(path for path in store.rglob("c.*") if "density" in str(path))
        os.utime(path, ns=(1, 1_500_000_000_000_000_001))
        done = stage(store, f"{base}/flow", replicas=2, progress=False)
        assert done["bytes_sent"] == 2 * path.stat().st_size
        name = str(path.relative_to(store))
        times = {(tmp_path / f"near{n}" / "flow" / name).stat().st_mtime_ns for n in range(3) if name in held[n]}
        assert times == {1_500_000_000_000_000_001}
        same(str(store), done["source"])
        # Without it, what the others lack may lie on the one that is gone.
        monkeypatch.setenv("FARFIELD_REPLICAS", "2")
        servers[1].stop()
        same(str(store), done["source"])


def test_from_servers(root: Path, tmp_path: Path) -> None:
    with near(tmp_path) as (_, base), web_server(root) as web:
        done = stage(web.url("flow.zarr"), f"{base}/flow", progress=False)
        staged = below(tmp_path / "near0" / "flow")
        assert {name: content for name, (content, _) in staged.items()} == {
            name: content for name, (content, _) in below(root / "flow.zarr").items()
        }
        same(str(root / "flow.zarr"), done["source"])
        again = stage(f"{base}/flow", f"{base}/copy", progress=False)
        assert again["bytes"] == done["bytes"] and below(tmp_path / "near0" / "copy") == staged
        with pytest.raises(DataError, match=r"@names\.txt"):
            stage(web.url("flow.zarr/zone1"), f"{base}/zone", progress=False)


def test_fields_and_steps(root: Path, tmp_path: Path, ff: Command) -> None:
    store = root / "flow.zarr"
    with near(tmp_path) as (_, base):
        some = stage(store, f"{base}/some", fields=["density"], steps="1", progress=False)
        names = set(below(tmp_path / "near0" / "some"))
        kinds = {name for name in names if not name.endswith("zarr.json")}
        assert not any("/energy/" in name or "/density/c.0." in name for name in kinds)
        assert {name for name in names if name.endswith("zarr.json")} == {
            name for name in below(store) if name.endswith("zarr.json")
        }
        same(str(store), some["source"], fields=("density",), steps=(1,))
        # The rest joins it.
        stage(store, f"{base}/some", progress=False)
        assert below(tmp_path / "near0" / "some") == below(store)
        last = stage(series(root), f"{base}/last", steps="0,-1", progress=False)
        assert set(below(tmp_path / "near0" / "last")) == {"grid.xyz", "sol_0.q", "sol_2.q"}
        with farfield.open(last["source"]) as ds:
            assert list(ds.times) == [0.0, 2.0]
        with pytest.raises(UnknownName, match="density"):
            stage(store, f"{base}/some", fields=["mach"], progress=False)
        with pytest.raises(UsageError, match="3 steps"):
            stage(store, f"{base}/some", steps="7", progress=False)
        with pytest.raises(UsageError, match="convert"):
            stage(series(root), f"{base}/some", fields=["density"], progress=False)


def test_refusals(root: Path, tmp_path: Path, ff: Command) -> None:
    store = root / "flow.zarr"
    whole = sum(len(content) for content, _ in below(store).values())
    with near(tmp_path, size=str(whole - 1)) as (servers, base):
        said = ff("stage", store, f"{base}/flow", ok=(1,)).stderr
        assert f"{whole} bytes more are needed there, and {whole - 1} are free" in said
        assert servers[0].status()["staging"]["used"] == 0 and not (tmp_path / "near0" / "flow").exists()
    with near(tmp_path / "exact", size=str(whole)) as (_, base):
        for sent in (whole, 0):
            assert stage(store, f"{base}/flow", progress=False)["bytes_sent"] == sent
        with pytest.raises(DataError, match="bytes more are needed there, and 0 are free"):
            stage(root / "grid.xyz", f"{base}/grid", progress=False)
    for text in ("s3://bucket/a", "farfield://a", "farfield://a/b/c", "farfield://a,/b", "farfield://a/.b", "here"):
        with pytest.raises(UsageError):
            parse_destination(text)
    ff("stage", store, ok=(2,))
    ff("stage", "demo:box", f"{base}/box", ok=(2,))
    ff("stage", tmp_path / "none", f"{base}/none", ok=(1,))
    ff("serve", "--may-stage", ok=(2,))
    ff("serve", "--staging", "1GiB", ok=(2,))
    # Nothing listens, and a server that takes nothing.
    ff("stage", store, f"farfield://127.0.0.1:{free_port()}/flow", ok=(5,))
    options = ServeOptions(names=[("data", str(root))], listen="127.0.0.1:0", state=tmp_path / "plain")
    with start_server(options) as plain:
        said = ff("stage", store, f"farfield://{plain.address}/flow", ok=(5,)).stderr
        assert "--staging" in said


def test_tokens(root: Path, tmp_path: Path, ff: Command, ff_json: Json) -> None:
    state = tmp_path / "s"
    reads = ff_json("serve", "--new-token", "ben", "--state", state)["token"]
    writes = ff_json("serve", "--new-token", "anna", "--may-stage", "--state", state)["token"]
    assert [name for name, _ in tokens.listed(state)] == ["ben", "anna"] and len(tokens.stagers(state)) == 1
    options = ServeOptions(
        names=[], listen="127.0.0.1:0", tls=True, state=state, staging=(str(tmp_path / "near"), 1 << 30)
    )
    with start_server(options) as server:
        address = f"farfield://{server.address}/flow"

        def as_client(token: str | None) -> None:
            _core.set_server_credentials(server.address, token, server.fingerprint)

        wrong, _ = _core.new_token()
        for token in (None, wrong, reads):
            as_client(token)
            with pytest.raises(AccessError, match="refuses access"):
                stage(root / "flow.zarr", address, progress=False)
        as_client(writes)
        stage(root / "flow.zarr", address, progress=False)
        assert below(tmp_path / "near" / "flow") == below(root / "flow.zarr")
        ff("serve", "--revoke", "anna", "--state", state)
        assert server.read_tokens()
        with pytest.raises(AccessError, match="refuses access"):
            stage(root / "grid.xyz", address, progress=False)
        with pytest.raises(AccessError, match="refuses access"):
            remove(address)
    assert below(tmp_path / "near" / "flow") == below(root / "flow.zarr")


def test_killed_at_many_points(root: Path, tmp_path: Path, ff_json: Json) -> None:
    """`farfield stage` ends by kill -9; the next one goes on. The server sees nothing but whole files."""
    data = tmp_path / "large"
    data.mkdir()
    content = np.random.default_rng(3).bytes(24 << 20)
    for n in range(6):
        (data / f"part_{n}").write_bytes(content[n << 20 : (n + 4 * n + 1) << 20])
    random.seed(5)
    sent = there = 0
    with near(tmp_path, 2) as (servers, base):
        for _ in range(KILLS):
            child = start("stage", data, f"{base}/large", "--replicas", 2, "--rate", "160Mbit")
            before = sum(server.status()["staging"]["used"] for server in servers)
            end = time.monotonic() + 20
            while child.poll() is None and time.monotonic() < end:
                if sum(server.status()["requests"]["stageput"] for server in servers) > sent + random.randrange(1, 10):
                    break
                time.sleep(0.005)
            child.kill()
            child.communicate(timeout=30)
            sent = sum(server.status()["requests"]["stageput"] for server in servers)
            assert sum(server.status()["staging"]["used"] for server in servers) >= before
            assert child.returncode == -signal.SIGKILL
            assert not any((tmp_path / f"near{n}" / "large").exists() for n in range(2))
        done = ff_json("stage", data, f"{base}/large", "--replicas", 2)
        there = done["bytes_there"]
        for n in range(2):
            assert below(tmp_path / f"near{n}" / "large") == below(data)
    assert there > 0


def test_a_source_that_changes(root: Path, tmp_path: Path) -> None:
    data = root / "large"
    data.mkdir()
    for n in range(3):
        (data / f"part_{n}").write_bytes(bytes([n]) * (3 << 20))
    os.utime(data / "part_1", ns=(5, 5))

    def change(phase: str, done: float, total: float) -> bool:
        if phase == "staging":
            with (data / "part_1").open("r+b") as file:
                file.write(b"other")
        return True

    with near(tmp_path) as (_, base):
        with pytest.raises(DataError, match="part_1: changed while it was read"):
            stage(data, f"{base}/large", rate="16Mbit", progress=change)
        assert not (tmp_path / "near0" / "large").exists()
        assert not list((tmp_path / "near0").rglob("part_1"))
        # The file of another version begins again.
        done = stage(data, f"{base}/large", progress=False)
        assert below(tmp_path / "near0" / "large") == below(data) and done["bytes_sent"] >= 3 << 20


def test_volumes(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(24 * 20 * 16, dtype="<u2").reshape(24, 20, 16)
    head = "NRRD0004\ntype: uint16\ndimension: 3\nsizes: 16 20 24\nendian: little\nencoding: raw\n"
    (root / "whole.nrrd").write_bytes(head.encode() + b"\n" + values.tobytes())
    (root / "apart.nhdr").write_text(f"{head}data file: apart.raw\n\n")
    (root / "apart.raw").write_bytes(values.tobytes())
    farfield.convert(root / "whole.nrrd", root / "volume.zarr", progress=False)
    monkeypatch.chdir(root)
    with near(tmp_path) as (_, base):
        for source, name, files, address in (
            ("whole.nrrd", "a.nrrd", 1, "/a.nrrd"),
            ("whole.nrrd", "a", 1, "/a/whole.nrrd"),
            ("apart.nhdr", "b", 2, "/b/apart.nhdr"),
            ("volume.zarr", "c", None, "/c"),
        ):
            done = stage(source, f"{base}/{name}", progress=False)
            assert done["source"] == base + address and done["files"] == (files or done["files"])
            with farfield.open(done["source"]) as ds:
                assert np.array_equal(ds[:], values)
        with pytest.raises(UsageError, match="one array"):
            stage("volume.zarr", f"{base}/c", fields=["a"], progress=False)
        with pytest.raises(UsageError, match="convert"):
            stage("whole.nrrd", f"{base}/a", steps="0", progress=False)


def test_interrupted(root: Path, tmp_path: Path) -> None:
    (root / "large").mkdir()
    (root / "large" / "a").write_bytes(bytes(8 << 20))
    with near(tmp_path) as (servers, base):
        child = start("stage", root / "large", f"{base}/large", "--rate", "8Mbit")
        assert eventually(lambda: servers[0].status()["requests"]["stageput"] > 0, 30)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=10)
        assert child.returncode == 130 and "the same command goes on" in err


def test_a_server_that_is_killed_meanwhile(root: Path, tmp_path: Path) -> None:
    data = tmp_path / "one.bin"
    content = np.random.default_rng(3).bytes(24 << 20)
    data.mkdir()
    (data / "a").write_bytes(content)
    words = (
        "serve",
        "--listen",
        f":{free_port()}",
        "--staging",
        f"{tmp_path / 'near'}:1GiB",
        "--state",
        tmp_path / "s",
    )

    def serve() -> tuple[object, str]:
        child = start(*words)
        assert child.stdout is not None
        return child, child.stdout.readline()

    server, said = serve()
    address = said.split()[2].rstrip(",")
    child = start("stage", data, f"farfield://{address}/one", "--rate", "80Mbit", "--json")
    parts = tmp_path / "near" / ".staging" / "parts"
    end = time.monotonic() + 30
    while time.monotonic() < end and sum(f.stat().st_size for f in parts.rglob("*") if f.is_file()) < 6 << 20:
        time.sleep(0.01)
    server.kill()  # type: ignore[attr-defined]
    server.communicate(timeout=30)  # type: ignore[attr-defined]
    server, _ = serve()
    try:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        assert json.loads(out)["files"] == 1
        assert (tmp_path / "near" / "one" / "a").read_bytes() == content
    finally:
        server.kill()  # type: ignore[attr-defined]
        server.communicate(timeout=30)  # type: ignore[attr-defined]
