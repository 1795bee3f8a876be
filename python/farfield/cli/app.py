"""The commands, put together. Everything a command needs beyond its options is imported when it runs."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from farfield._version import __version__
from farfield.cli import bench, cache, config, convert, demo, extract, info, probe, render, trace, validate
from farfield.errors import UsageError

app = typer.Typer(
    name="farfield",
    help="Show any part of a dataset that is far larger than memory.",
    epilog="A source is a grid file, 'grid.xyz+q=sol_*.q', a store, a .p3d file or demo:NAME. Try: farfield demo",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"farfield {__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


for _module in (info, convert, validate, probe, trace, extract, render, demo, cache, config, bench):
    _module.register(app)


def invoke(arguments: Sequence[str]) -> int:
    """Runs one command line; the exit code.

    Raises:
        UsageError: if the command line makes no sense.
    """
    command = typer.main.get_command(app)
    try:
        result = command.main(list(arguments), prog_name="farfield", standalone_mode=False)
    except Exception as error:
        usage = _usage(error)
        if usage is None:
            raise
        raise usage from error
    return result if isinstance(result, int) else 0


def _usage(error: Exception) -> UsageError | None:
    """A parser's complaint as ours. The parser's classes are typer's private affair: they are known by what they can do."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "farfield"
    text = " ".join(str(format_message()).split()).rstrip(".")
    return UsageError(f"{text[:1].lower() + text[1:]}; see '{path} --help'")
