"""`farfield cache`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command

_NETWORK = "network"
"""The part with pages of servers, which the extension keeps."""


def register(app: typer.Typer) -> None:
    """Adds the group and its commands."""
    group = typer.Typer(rich_markup_mode=None)
    app.add_typer(group, name="cache", help="Data kept between runs.")

    @command(group, "info", source=False, run=False)
    def info(common: Common) -> None:
        """Print the folder of the cache and the sizes of its parts."""
        from farfield import _core
        from farfield.runtime import cache
        from farfield.runtime.sizes import format_bytes

        settings = common.settings()
        folder, limit = settings["cache_dir"], settings.cache_limit()
        found = cache.entries(folder)
        total = sum(e.bytes for e in found)
        pages, records = _core.disk_cache_info(str(folder / "network"))
        lines = [f"{folder}: {format_bytes(total)} of {format_bytes(limit)} at most (cache_size)"]
        lines += [
            f"  {e.part}/{e.name}  {format_bytes(e.bytes)}" + (", its source has changed" if e.stale else "")
            for e in found
        ]
        most = settings.network_cache()
        lines.append(
            f"  network  {format_bytes(pages)} of {format_bytes(most)} at most (network_cache), {records:,} reads"
        )
        common.show(
            {
                "cache_dir": str(folder),
                "bytes": total,
                "limit_bytes": limit,
                "network": {"bytes": pages, "records": records, "limit_bytes": most},
                "entries": [{"part": e.part, "name": e.name, "bytes": e.bytes, "stale": e.stale} for e in found],
            },
            lines,
        )

    @command(group, "clear", source=False, run=False)
    def clear(
        common: Common,
        part: Annotated[
            list[str] | None, typer.Argument(metavar="[demo|data|network]...", help="only these parts")
        ] = None,
    ) -> None:
        """Empty the cache; its content is made again when needed."""
        from farfield import _core
        from farfield.runtime import cache
        from farfield.runtime.sizes import format_bytes

        folder = common.settings()["cache_dir"]
        parts = part or [*cache.PARTS, _NETWORK]
        freed = cache.clear(folder, named) if (named := [name for name in parts if name != _NETWORK]) else 0
        if _NETWORK in parts:
            freed += _core.disk_cache_clear(str(folder / _NETWORK))
        common.show({"bytes": freed}, [f"freed {format_bytes(freed)}"])
