"""The parser of a command, built from its module on demand. A command imports further modules when it runs."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence

import typer

from farfield.errors import UsageError


def parser(name: str) -> typer.Typer:
    """A parser without commands, of a command line of that name."""
    app = typer.Typer(
        name=name,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
        rich_markup_mode=None,
    )
    app.callback()(_top)
    return app


def build(names: Sequence[str]) -> typer.Typer:
    """The parser of some commands."""
    app = parser("farfield")
    for name in names:
        importlib.import_module(f"farfield.cli.{name}").register(app)
    return app


def _top() -> None:
    """A callback makes a group of an app with a single command."""


def invoke(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Runs a command line that begins with a command of a parser; returns the exit code.

    Raises:
        UsageError: if the command line is invalid.
    """
    command = typer.main.get_command(app)
    try:
        # `command.main` would turn Ctrl-C and closed pipes into exits of its own.
        with command.make_context(app.info.name, list(arguments)) as context:
            result = command.invoke(context)
    except typer.Exit as done:
        return done.exit_code
    except Exception as error:
        usage = _usage(error)
        if usage is None:
            raise
        raise usage from error
    return result if isinstance(result, int) else 0


_INSTEAD = {
    ("render", "--missing"): "--raw missing=N",
    ("render", "--shape"): "--raw 'shape=XxYxZ dtype=TYPE'",
    ("render", "--dtype"): "--raw 'shape=XxYxZ dtype=TYPE'",
    ("render", "--spacing"): "--raw spacing=X,Y,Z",
    ("render", "--origin"): "--raw origin=X,Y,Z",
    ("render", "--byte-order"): "--raw byte-order=little|big",
    ("render", "--header-bytes"): "--raw header-bytes=N",
    ("render", "--length-unit"): "--raw length-unit=UNIT",
    ("render", "--components"): "--raw components=N",
    ("render", "--mip"): "--projection maximum",
    ("render", "--maximum"): "--projection maximum",
    ("render", "--mean"): "--projection mean",
    ("render", "--isosurface"): "--contour FIELD=VALUE",
    ("render", "--iso"): "--contour FIELD=VALUE",
    ("render", "--isovalue"): "--contour FIELD=VALUE",
    ("render", "--field"): "--color FIELD",
    ("render", "--scalars"): "--color FIELD",
    ("render", "--colormap"): "--cmap NAME",
    ("render", "--clim"): "--range A:B",
    ("render", "--camera"): "--view DIR",
    ("render", "--normal"): "--slice z=0.1",
    ("render", "--plane"): "--slice z=0.1",
    ("render", "--streamlines"): "--seeds SPEC",
    ("render", "--vortex-cores"): "--cores",
    ("render", "--steps"): "--frames A:B:S (one picture: --step N)",
    ("extract slice", "--color"): "--field FIELD",
    ("extract slice", "--scalars"): "--field FIELD",
    ("extract slice", "--colormap"): "--cmap NAME",
    ("extract slice", "--clim"): "--range A:B",
    ("extract isosurface", "--contour"): "--field FIELD --value V",
    ("extract isosurface", "--isovalue"): "--value V",
    ("extract isosurface", "--level"): "--value V",
    ("trace", "--color"): "--scalars FIELD, and then 'farfield render SRC --lines FILE --color FIELD'",
    ("trace", "--fields"): "--scalars FIELD",
    ("info", "--stats"): "--ranges",
    ("info", "--range"): "--ranges",
}
"""Likely guesses at options, by command, and the right options."""


def instead_of(path: str, option: str) -> str | None:
    """The right option for one that a command lacks; None if there is none.

    >>> instead_of("farfield render", "--missing"), instead_of("farfield render", "--colour")
    ('--raw missing=N', '--color')
    """
    command = path.partition(" ")[2]
    found = _INSTEAD.get((command, option.lower().replace("_", "-")))
    if found is None and "colour" in option:
        found = option.replace("colour", "color")
    return found


def _usage(error: Exception) -> UsageError | None:
    """Converts a parser error. Its classes are private to typer, so their attributes identify them."""
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "farfield"
    text = " ".join(str(format_message()).split()).rstrip(".")
    if (extra := re.search(r"unexpected extra argument\(s\) \((.*)\)$", text)) and os.path.exists(extra[1].split()[0]):
        kind = os.path.splitext(extra[1].split()[0])[1]
        text = (
            f"{text}: a pattern of files goes in quotes, such as 'name_*{kind}', so that the shell leaves it as it is"
        )
    name = getattr(error, "option_name", None)
    if name is not None and (instead := instead_of(path, str(name))) is not None:
        text = f"no such option: {name}; it is: {instead}"
    return UsageError(f"{text[:1].lower() + text[1:]}; see '{path} --help'")
