"""`farfield validate`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from farfield.cli.common import Common, command, flat


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "validate", replacement=False, fields=False, volume=True)
    def validate(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset or volume")],
    ) -> int:
        """Check every page.

        Compares the checksum, if there is one, the shape and the size. Exit code 1 if a page fails.
        """
        from collections import Counter

        from farfield import storage
        from farfield.runtime.sizes import count

        settings = common.settings()
        result = storage.validate(
            source,
            plot3d=common.plot3d,
            zone_order=common.zone_order,
            volume=common.volume,
            **common.run(settings),
        )
        checked, unchecked = result["pages_checked"], result["pages_unchecked"]
        verdict = "holds" if result["ok"] else f"{result['failed']:,} failed"
        lines = [
            f"{source}: {verdict}; {checked:,} pages checked" + (f", {unchecked:,} read unchecked" if unchecked else "")
        ]
        if result.get("never_written"):
            lines.append(
                f"{count(result['never_written'], 'chunk')} never written: what is read there is the fill value"
            )
        if result.get("not_listed"):
            lines.append(
                "files that do not belong to the store were not looked for: its server does not say what its folders hold"
            )
        common.show(flat(result), lines)
        # All pages of a shard with a damaged index have the same error.
        said = Counter(f"{failure['what']}: {failure['error']}" for failure in result["failures"])
        for text, pages in said.items():
            print(f"farfield: error: {text}{f' ({pages:,} pages)' if pages > 1 else ''}", file=sys.stderr)
        return 0 if result["ok"] else 1
