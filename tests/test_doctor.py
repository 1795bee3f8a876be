"""`farfield doctor`: each step that fails is named, with what to do; a good line is measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from farfield.doctor import examine
from farfield.errors import UsageError
from remote_servers import Fault, Request, WebServer, free_port, page_server, use, web_server
from running import Command, Json

FAST = ("--seconds", "0.1")


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    use(monkeypatch, tmp_path, FARFIELD_NETWORK_TIMEOUT="2", FARFIELD_NETWORK_CACHE="0")
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.bin").write_bytes(np.arange(1 << 18, dtype="<u4").tobytes())
    with web_server(root) as made:
        yield made


def test_a_good_line(web: WebServer, tmp_path: Path, ff: Command, ff_json: Json) -> None:
    with page_server(web.root, tmp_path / "s") as pages, page_server(web.root, tmp_path / "t", tls=True) as secured:
        addresses = [web.url("a.bin"), f"{pages.urls[0]}/a.bin", f"{secured.urls[0]}/a.bin"]
        found = ff_json("doctor", *addresses, *FAST)["examinations"]
    for address, one in zip(addresses, found, strict=True):
        assert (
            one["ok"]
            and one["url"] == address
            and re.match(r"It works: [\d.]+ [GM]bit/s with [\d.]+ ms a read", one["verdict"])
        )
        names = [step["name"] for step in one["steps"]]
        assert names[:6] == ["proxy", "name", "tcp", "open", "reads", "rate"] and "compression" in names
        assert ("server" in names) == address.startswith("farfield")
        steps = {step["name"]: step for step in one["steps"]}
        assert steps["open"]["bytes"] == 1 << 20 and not steps["open"]["weak_version"]
        assert steps["reads"]["read_p99_ms"] >= steps["reads"]["read_p50_ms"] > 0
        assert steps["rate"]["depth_64_bytes_per_s"] > 0
    text = ff("doctor", web.url("a.bin"), *FAST).stdout
    assert re.search(r"^ok +tcp +connected in", text, re.MULTILINE) and text.rstrip().splitlines()[-1].startswith(
        "It works"
    )


def no_ranges(asked: Request) -> Fault | None:
    return Fault(whole=True) if asked.range else None


@pytest.mark.parametrize(
    ("address", "fault", "step", "words"),
    [
        ("http://no-such-host.invalid/a.bin", None, "name", "check the spelling of the host"),
        ("http://127.0.0.1:FREE/a.bin", None, "tcp", "nothing listens at 127.0.0.1:FREE"),
        ("farfield://127.0.0.1:FREE/a", None, "tcp", "start the server, or give its port"),
        ("https://127.0.0.1:PORT/a.bin", None, "tls", "is 127.0.0.1:PORT a port of TLS?"),
        ("http://127.0.0.1:PORT/a.bin", lambda _: Fault(403), "open", "403 Forbidden.*token, keys and permissions"),
        ("http://127.0.0.1:PORT/none.bin", None, "open", "no such file or store.*check the spelling"),
        ("http://127.0.0.1:PORT/a.bin", no_ranges, "reads", "must answer ranges"),
    ],
)
def test_what_fails(
    address: str, fault: object, step: str, words: str, web: WebServer, ff: Command, ff_json: Json
) -> None:
    free = str(free_port())
    address = address.replace("FREE", free).replace("PORT", str(web.port))
    words = words.replace("FREE", free).replace("PORT", str(web.port)).replace("?", r"\?")
    if fault is not None:
        web.fault = fault  # type: ignore[assignment]
    done = ff("doctor", address, *FAST, ok=(5,))
    assert re.search(f"^FAIL +{step} ", done.stdout, re.MULTILINE), done.stdout
    verdict = done.stdout.rstrip().splitlines()[-1]
    assert verdict.startswith(f"It fails at '{step}'") and re.search(words, verdict, re.IGNORECASE), verdict
    (one,) = ff_json("doctor", address, *FAST, ok=(5,))["examinations"]
    assert not one["ok"] and [s["name"] for s in one["steps"] if not s["ok"]] == [step] == [one["steps"][-1]["name"]]
    assert one["steps"][-1]["advice"]


def test_a_wrong_token(web: WebServer, tmp_path: Path, ff: Command) -> None:
    from farfield.serving import ServeOptions, start, tokens

    tokens.add(tmp_path / "s", "anna")
    options = ServeOptions(names=[("root", str(web.root))], listen="127.0.0.1:0", tls=True, state=tmp_path / "s")
    with start(options) as server:
        env = {"FARFIELD_TOKEN": "1" * 64, "FARFIELD_SERVER_PIN": str(server.fingerprint)}
        done = ff("doctor", f"{server.urls[0]}/a.bin", *FAST, ok=(5,), env=env)
    assert (
        re.search("^FAIL +open ", done.stdout, re.MULTILINE) and "token" in done.stdout and "1" * 64 not in done.stdout
    )


def test_several_addresses(web: WebServer, ff: Command, ff_json: Json) -> None:
    addresses = (web.url("none.bin"), web.url("a.bin"))
    done = ff("doctor", *addresses, *FAST, ok=(5,))
    assert all(address in done.stdout for address in addresses) and "It works" in done.stdout
    assert [one["ok"] for one in ff_json("doctor", *addresses, *FAST, ok=(5,))["examinations"]] == [False, True]
    with pytest.raises(UsageError, match="not the address of a server"):
        examine(str(web.root / "a.bin"))
