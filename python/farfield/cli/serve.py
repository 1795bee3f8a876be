"""`farfield serve`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from farfield.cli.common import Common, command
from farfield.errors import UsageError

if TYPE_CHECKING:
    from farfield.serving import ServeOptions, Serving

_LOOK_EVERY_S = 2.0
"""Interval of looks at the file of tokens."""


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "serve", source=False, run=False)
    def serve(
        common: Common,
        names: Annotated[
            list[str] | None,
            typer.Argument(metavar="NAME=PATH...", help="datasets: files, folders or addresses, by their names"),
        ] = None,
        origins: Annotated[
            list[str] | None,
            typer.Option("--origin", metavar="URL", help="an address to serve, by its last part; may be repeated"),
        ] = None,
        cache: Annotated[
            str | None, typer.Option(metavar="SIZE", help="memory for what comes from addresses, such as 32GiB")
        ] = None,
        cache_local: Annotated[bool, typer.Option("--cache-local", help="keep local files in it, too")] = False,
        cache_disk: Annotated[
            str | None, typer.Option(metavar="PATH:SIZE", help="a folder for what comes from addresses")
        ] = None,
        listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="port 0: a free one")] = "127.0.0.1:7207",
        rate: Annotated[str | None, typer.Option(metavar="RATE", help="most of the line, such as 500Mbit")] = None,
        rate_per_client: Annotated[str | None, typer.Option(metavar="RATE", help="most for each client")] = None,
        buffers: Annotated[
            str, typer.Option("--memory-limit", metavar="SIZE", help="most memory for replies under way")
        ] = "256MiB",
        connections: Annotated[int, typer.Option(min=1, metavar="N", help="most connections")] = 1024,
        certificate: Annotated[
            str | None, typer.Option(metavar="PEM", help="certificate chain; by default one is made and kept")
        ] = None,
        key: Annotated[str | None, typer.Option(metavar="PEM", help="its key")] = None,
        tls: Annotated[
            bool | None, typer.Option("--tls/--no-tls", help="default: --tls where other machines can connect")
        ] = None,
        state: Annotated[Path | None, typer.Option(metavar="FOLDER", help="keeps certificate and tokens")] = None,
        new_token: Annotated[
            str | None, typer.Option(metavar="NAME", help="make a token for a client, print it, and end")
        ] = None,
        may_stage: Annotated[
            bool, typer.Option("--may-stage", help="with --new-token: the client may stage data")
        ] = False,
        staging: Annotated[
            str | None,
            typer.Option(metavar="FOLDER:SIZE", help="take data that clients stage, and keep at most SIZE of them"),
        ] = None,
        revoke: Annotated[str | None, typer.Option(metavar="NAME", help="make a token void, and end")] = None,
        status: Annotated[
            str | None, typer.Option(metavar="URL", help="print the state of the server farfield://HOST:PORT, and end")
        ] = None,
        metrics: Annotated[
            str | None, typer.Option(metavar="HOST:PORT", help="Prometheus metrics, to this machine alone")
        ] = None,
        for_parent: Annotated[
            bool, typer.Option("--for-parent", help="started over ssh: end with the standard input", hidden=True)
        ] = False,
        relay_port: Annotated[
            int | None, typer.Option("--relay", help="started over ssh: lead to this port", hidden=True)
        ] = None,
    ) -> None:
        """Serve datasets to other machines.

        Clients open farfield://HOST:PORT/NAME. Beyond this machine the server wants TLS and a token: make one with
        --new-token, and give it to the client as FARFIELD_TOKEN.
        """
        from farfield.serving import tokens

        if relay_port is not None:
            from farfield.serving.ssh import relay

            relay(relay_port)
            return
        if for_parent:
            from farfield.serving.for_parent import serve_parent

            serve_parent(names or [])
            return
        folder = state or tokens.state_folder()
        if may_stage and new_token is None:
            raise UsageError("--may-stage belongs to --new-token NAME: it is a right of a token")
        if new_token is not None:
            _print_token(common, folder, new_token, may_stage=may_stage)
            return
        if revoke is not None:
            tokens.remove(folder, revoke)
            common.show({"revoked": revoke}, [f"the token '{revoke}' is void"])
            return
        if status is not None:
            _print_status(common, status)
            return
        from farfield.runtime.sizes import parse_bytes
        from farfield.serving import ServeOptions, start
        from farfield.serving.metrics import serve_metrics
        from farfield.serving.server import parse_cache_disk, parse_listen, parse_names, parse_rate, parse_staging

        served = parse_names([*(names or []), *_addresses(origins or [])])
        if not served and staging is None:
            raise UsageError("give what is to be served: NAME=PATH, or a PATH, whose name is its last part")
        if (certificate is None) != (key is None):
            raise UsageError("--certificate and --key belong together")
        options = ServeOptions(
            names=served,
            staging=None if staging is None else parse_staging(staging),
            listen=parse_listen(listen),
            tls=tls,
            certificate=None if certificate is None or key is None else (certificate, key),
            state=state,
            rate=None if rate is None else parse_rate(rate),
            rate_per_client=None if rate_per_client is None else parse_rate(rate_per_client),
            memory_limit=parse_bytes(buffers),
            max_connections=connections,
            cache=0 if cache is None else parse_bytes(cache),
            cache_local=cache_local,
            cache_disk=None if cache_disk is None else parse_cache_disk(cache_disk),
        )
        _refuse_idle_caches(options)
        with start(options) as server:
            scrapes = None if metrics is None else serve_metrics(parse_listen(metrics), server.metrics)
            _tell_start(common, server)
            try:
                _run(common, server)
            finally:
                if scrapes is not None:
                    scrapes.shutdown()


def _addresses(given: list[str]) -> list[str]:
    from farfield.sources.addresses import is_remote, refuse_unknown

    for address in given:
        refuse_unknown(address)
        if not is_remote(address):
            raise UsageError(
                f"{address}: an origin is an address, such as s3://bucket/wing.zarr; name a path by itself"
            )
    return given


def _refuse_idle_caches(options: ServeOptions) -> None:
    """Refuses caches that would keep nothing."""
    from farfield.sources.addresses import is_remote

    if options.cache_local and not options.cache:
        raise UsageError("--cache-local keeps local files in the memory of --cache; give its size")
    if any(is_remote(path) for _, path in options.names):
        return
    if options.cache_disk is not None or (options.cache and not options.cache_local):
        raise UsageError(
            "no address is served, and local files stay in the system's page cache; name an address (--origin URL), "
            "or give --cache with --cache-local"
        )


def _print_token(common: Common, folder: Path, name: str, *, may_stage: bool) -> None:
    from farfield.serving import tokens

    secret = tokens.add(folder, name, may_stage=may_stage)
    common.show(
        {"name": name, "token": secret},
        [secret, "", "This is shown once. A client gives it as FARFIELD_TOKEN, never on a command line."],
    )


def _print_status(common: Common, url: str) -> None:
    from farfield import _core
    from farfield.runtime.sizes import format_bytes

    found = json.loads(_core.server_status(url))
    lines = [
        f"{url}: up {found['seconds']:,.0f} s, {found['connections']} connections, "
        f"{format_bytes(found['bytes_per_second'])}/s on average; {'TLS' if found['tls'] else 'no TLS'}",
        *(
            f"  {client['name']}: {client['connections']} connections, {client['requests']:,} requests answered, "
            f"{client['under_way']:,} under way, {format_bytes(client['bytes'])}, "
            f"{format_bytes(client['bytes_per_second'])}/s"
            for client in found["clients"]
        ),
        f"  buffers: {format_bytes(found['held'])} of {format_bytes(found['memory_limit'])}; each connection may have "
        f"{found['credits']} requests under way",
        f"  refused: {found['refused']:,} without a token that is taken, {found['turned_away']:,} beyond the limits, "
        f"{found['faults']:,} for a breach of the protocol, {found['slow']:,} slow or idle",
        *_cache_lines(found),
    ]
    common.show(found, lines)


def _cache_lines(found: dict[str, Any]) -> list[str]:
    from farfield.runtime.sizes import format_bytes

    if "cache" not in found:
        return []
    cache = found["cache"]
    less = f", {format_bytes(cache['allowed'])} now" if cache["allowed"] < cache["limit"] * 0.99 else ""
    damaged = f", {cache['damaged']:,} damaged blocks read again" if cache["damaged"] else ""
    return [
        f"  memory cache: {format_bytes(cache['used'])} of {format_bytes(cache['limit'])}{less}; "
        f"{found['from_memory']:,} reads from it, {found['from_origin']:,} from origins "
        f"({format_bytes(found['origin_bytes'])}); {format_bytes(cache['given_back'])} given back to the host{damaged}"
    ]


def _tell_start(common: Common, server: Serving) -> None:
    from farfield.serving.server import shown

    common.show(
        {"address": server.address, "urls": server.urls, "fingerprint": server.fingerprint},
        [
            f"serving at {server.address}, until Ctrl-C:",
            *(f"  {url}  {shown(path)}" for url, (_, path) in zip(server.urls, server.names, strict=True)),
            *_staging_lines(server),
            *([] if server.fingerprint is None else [f"clients set FARFIELD_SERVER_PIN={server.fingerprint}"]),
        ],
    )
    sys.stdout.flush()


def _staging_lines(server: Serving) -> list[str]:
    from farfield.runtime.sizes import format_bytes

    if server.staging is None:
        return []
    path, most = server.staging
    return [f"staged data, {format_bytes(most)} at most, in {path}"]


def _run(common: Common, server: Serving) -> None:
    """Until a signal: changes of tokens are taken over."""
    import signal
    import threading

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(_LOOK_EVERY_S):
        if server.read_tokens():
            common.say("the tokens have changed; those that are gone are void from now on")
        notice = server.take_notice()
        if notice is not None:
            common.say(notice)
    common.say("stopping; replies under way are finished")
