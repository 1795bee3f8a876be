"""`farfield convert`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from farfield.cli.common import Common, command, fill_lines, flat, names


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "convert", replacement=False, volume=True)
    def convert(
        common: Common,
        source: Annotated[str, typer.Argument(metavar="SRC", help="the dataset or volume")],
        destination: Annotated[str, typer.Argument(metavar="DST", help="the folder of the store, e.g. flow.zarr")],
        page: Annotated[
            int | None, typer.Option("--page", help="page edge in points: 4, 8, 16 (default), 32 (of volumes) or 64")
        ] = None,
        layout: Annotated[str | None, typer.Option("--layout", metavar="KIND", help="cubed (default) or flat")] = None,
        codec: Annotated[
            str | None, typer.Option("--codec", metavar="NAME", help="none (default), zstd or lz4")
        ] = None,
        resume: Annotated[bool, typer.Option("--resume", help="complete an interrupted conversion")] = False,
        overwrite: Annotated[bool, typer.Option("--overwrite", help="replace an existing store")] = False,
        append: Annotated[bool, typer.Option("--append", help="add the time steps that the store lacks")] = False,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="print the estimated cost only")] = False,
        levels: Annotated[
            int | None,
            typer.Option(
                "--levels",
                metavar="N",
                help="largest number of levels of a volume  [default: until the longest side has 64 voxels]",
            ),
        ] = None,
        downsample: Annotated[
            str | None,
            typer.Option(
                "--downsample",
                metavar="HOW",
                help="for levels of a volume: mean, majority (default for labels) or nearest",
            ),
        ] = None,
        fields: Annotated[
            str | None,
            typer.Option(
                "--fields",
                metavar="A,B,...",
                help="the fields to store, derived ones too  [default: those of the source]",
            ),
        ] = None,
    ) -> None:
        """Stream a dataset into a store of pages (Zarr v3).

        A volume becomes a pyramid of all its channels and time steps (OME-Zarr 0.5). Memory stays within the limit however large
        the dataset is.
        """
        from farfield import storage
        from farfield.results.outputs import is_begun
        from farfield.runtime.sizes import count, format_bytes

        settings = common.settings(page=page, layout=layout, codec=codec)
        try:
            result = storage.convert(
                source,
                destination,
                page=page,
                layout=layout,
                codec=codec,
                resume=resume,
                overwrite=overwrite,
                append=append,
                dry_run=dry_run,
                fields=names(fields),
                levels=levels,
                downsample=downsample,
                volume=common.volume,
                plot3d=common.plot3d,
                zone_order=common.zone_order,
                **common.run(settings),
            )
        except KeyboardInterrupt:
            left = f"{destination.rstrip(os.sep)}.partial"
            if append or not is_begun(left):
                raise
            raise KeyboardInterrupt(
                f"{left} keeps what was written: the same command with --resume completes it"
            ) from None
        if result.get("what") == "volume":
            common.show(flat(result), volume_lines(result))
            return
        common.tell_assumed(result["order_assumed"])
        if append and not result["appended"]["steps"]:
            held = result["appended"]["steps_in_all"]
            common.show(
                flat(result), [f"nothing to append: {destination} has all {count(held, 'time step')} of {source}"]
            )
            return
        lines = [
            f"{'would be ' if dry_run else ''}{format_bytes(result['bytes_out'])} of {format_bytes(result['bytes_in'])} "
            f"in {count(result['pages_written'], 'page')} and {count(result['shards'], 'shard')}; "
            f"page {result['page']}, {result['layout']}, codec {result['codec']}",
            f"padding  {result['padding_disk']:.3f} on disk, {result['padding_memory']:.3f} in memory",
        ]
        if fields:
            lines.append(f"fields   {', '.join(result['fields'])}")
        stats = result["stats"]
        if dry_run:
            if result.get("seconds_estimated") is not None:
                lines.append(f"time     about {result['seconds_estimated']:.0f} s")
        else:
            lines.append(
                f"memory   peak {format_bytes(stats['peak_bytes'])} of a limit of {format_bytes(stats['limit_bytes'])}"
            )
            lines.append(f"time     {stats['wall_s']:.2f} s{' (resumed)' if result.get('resumed') else ''}")
            lines.append(f"wrote    {destination}")
            if append:
                lines += _appended(result["appended"])
        common.show(flat(result), lines)


def volume_lines(result: Mapping[str, Any]) -> list[str]:
    """Lines about a converted volume, or about a dry run."""
    from farfield.runtime.sizes import count, format_bytes

    dry = result["dry_run"]
    usual = "the default for labels" if result["kind"] == "labels" else "the default where voxels are no labels"
    why = "asked for" if result["downsample_asked"] else usual
    lines = [
        f"{'would be ' if dry else ''}{format_bytes(result['bytes_out'])} of {format_bytes(result['bytes_in'])} "
        f"in {count(result['pages_written'], 'page')} and {count(result['shards'], 'shard')}; "
        f"page {result['page']}, {result['layout']}, codec {result['codec']}",
        f"voxels   {result['dtype']}, {count(len(result['channels']), 'channel')}, {count(result['steps'], 'time step')}",
        f"levels   {', '.join(' x '.join(map(str, level['dims'])) for level in result['levels'])}",
        f"made by  {result['downsample']} ({why})",
        f"padding  {result['padding_disk']:.3f} on disk",
    ]
    if dry:
        if result["scratch_bytes"]:
            lines.append(f"scratch  up to {format_bytes(result['scratch_bytes'])} beside it meanwhile")
        lines.append(f"time     about {result['seconds_estimated']:.0f} s")
        return lines
    stats = result["stats"]
    return [
        *lines,
        *fill_lines(stats),
        f"memory   peak {format_bytes(stats['peak_bytes'])} of a limit of {format_bytes(stats['limit_bytes'])}",
        f"time     {stats['wall_s']:.2f} s{' (resumed)' if result['resumed'] else ''}",
        f"wrote    {result['destination']}",
    ]


def _appended(added: Mapping[str, Any]) -> list[str]:
    """Lines about appended steps."""
    from farfield.runtime.sizes import count

    times = added["times"] or []
    unit = f" [{added['time_units']}]" if added.get("time_units") and not added["times_counted"] else ""
    span = f", times {times[0]:g} to {times[-1]:g}{unit}" if times else ""
    lines = [f"appended {count(added['steps'], 'time step')} to {added['first']}{span}"]
    if added["times_gaps"]:
        gaps = ", ".join(str(step) for step in added["times_gaps"][:5])
        more = len(added["times_gaps"]) - 5
        lines.append(f"note     more time than usual passes after step {gaps}{f' and {more} more' if more > 0 else ''}")
    return lines
