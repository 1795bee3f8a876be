"""Generator of docs/command-line.md from the parser: `python -m farfield.cli.page docs/command-line.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farfield.cli.app import build
from farfield.cli.common import PLOT3D, RUN, VOLUME
from farfield.cli.table import COMMANDS, help_text

WRITE = "python -m farfield.cli.page docs/command-line.md"
"""The command that writes the page."""
SHARED = {RUN: "Runs", PLOT3D: "PLOT3D files", VOLUME: "Volumes"}
"""Options of several commands, by the panel of their declaration, and the titles of their tables."""


def page() -> str:
    """The whole page.

    >>> page().splitlines()[0], "### `farfield extract slice`" in page()
    ('# Command line', True)
    """
    commands = dict(_commands(_parser(), "farfield"))
    shared: dict[str, dict[str, Any]] = {title: {} for title in SHARED.values()}
    for command in commands.values():
        for option in _options(command):
            if (title := _title(option)) is not None:
                shared[title].setdefault(_flag(option), option)
    lines = [
        "# Command line",
        "",
        f"This page lists every command and option of `farfield`; it is made from the parser by `{WRITE}`.",
        "",
        "```sh",
        "farfield --help",
        "farfield trace --help",
        "```",
        "",
        "## Commands",
        "",
        "| command | purpose |",
        "|---|---|",
        *(f"| [`farfield {name}`](#{_anchor(commands, name)}) | {_cell(about)} |" for name, about in COMMANDS.items()),
        "",
        "## Exit codes",
        "",
        "| code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in _exit_codes()),
        "",
        "## Options that commands share",
    ]
    for title, options in shared.items():
        lines += ["", f"### {title}", "", *_table(options.values())]
    for path, command in commands.items():
        lines += ["", f"### `{path}`", "", *_about(command), "", f"`{_usage(path, command)}`"]
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        if arguments:
            lines += ["", "| argument | meaning |", "|---|---|"]
            lines += [f"| `{_cell(_metavar(p))}` | {_cell(_help(p))} |" for p in arguments]
        own = [option for option in _options(command) if _title(option) is None]
        if own:
            lines += ["", *_table(own)]
        lines += ["", *_also(command, shared)]
    return "\n".join(lines).rstrip() + "\n"


def _parser() -> Any:
    import typer

    return typer.main.get_command(build(list(COMMANDS)))


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands with an action, by their full name."""
    children = getattr(command, "commands", {})
    for name, child in children.items():
        yield from _commands(child, f"{path} {name}")
    if not children:
        yield path, command


def _anchor(commands: dict[str, Any], name: str) -> str:
    """The anchor of a command's section; for a group, that of its first command."""
    path = next(path for path in commands if path.split()[1] == name)
    return path.replace(" ", "-")


def _exit_codes() -> list[tuple[str, str]]:
    """The exit codes from the text of `farfield --help`, their only list.

    >>> _exit_codes()[0], _exit_codes()[-1]
    (('0', 'done'), ('130', 'interrupted'))
    """
    text = help_text().partition("Exit codes: ")[2].partition(".\n")[0]
    return [(code, " ".join(words)) for code, *words in (part.split() for part in text.split(","))]


def _options(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "option" and not p.hidden]


def _title(option: Any) -> str | None:
    """The table of shared options that contains an option."""
    if option.opts[0] == "--help":
        return SHARED[RUN]
    return SHARED.get(getattr(option, "rich_help_panel", None) or "")


def _flag(option: Any) -> str:
    """The longest name of an option.

    >>> import types
    >>> _flag(types.SimpleNamespace(opts=["-o", "--output"]))
    '--output'
    """
    return str(max(option.opts, key=len))


def _metavar(parameter: Any) -> str:
    """The placeholder of a parameter's value."""
    if parameter.metavar:
        return str(parameter.metavar)
    # Releases of typer keep the type in different places.
    descriptor = getattr(parameter, "type_descriptor", None)
    kind = str(getattr(descriptor, "annotation", None) or parameter.type.name)
    return "N" if "int" in kind else "X" if "float" in kind else "TEXT"


def _spelling(option: Any) -> str:
    names = ", ".join([*sorted(option.opts, key=len)])
    if option.secondary_opts:
        names += " / " + ", ".join(option.secondary_opts)
    takes_none = option.is_flag or getattr(option, "count", False)
    return names if takes_none else f"{names} {_metavar(option)}"


def _help(parameter: Any) -> str:
    """The parser's help of a parameter, with its default."""
    text = str(parameter.help or "")
    default, said = parameter.default, getattr(parameter, "show_default", None)
    if parameter.required:
        return f"{text} (required)"
    if isinstance(said, str):
        return f"{text} [default: {said}]"
    if said and default is not None and default is not False and "default" not in text:
        if parameter.param_type_name == "option" and parameter.secondary_opts:
            default = _flag(parameter)
        return f"{text} [default: {default}]" if default not in ("", (), True) else text
    return text


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(options: Any) -> list[str]:
    rows = [f"| `{_cell(_spelling(o))}` | {_cell(_help(o))} |" for o in options]
    return ["| option | meaning |", "|---|---|", *rows]


def _about(command: Any) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    lines = [line for paragraph in paragraphs for line in ("", " ".join(paragraph.split()))]
    return lines[1:]


def _usage(path: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = [_metavar(p) if p.required or _metavar(p).startswith("[") else f"[{_metavar(p)}]" for p in arguments]
    return " ".join([path, *words, "[OPTIONS]"])


def _also(command: Any, shared: dict[str, dict[str, Any]]) -> list[str]:
    """The shared options of a command."""
    has = {_flag(option) for option in _options(command) if _title(option) is not None}
    parts = []
    for title, options in shared.items():
        mine = [flag for flag in options if flag in has]
        if not mine:
            continue
        lacks = [flag for flag in options if flag not in has]
        link = f"[{title}](#{title.lower().replace(' ', '-')})"
        if len(mine) < len(lacks):
            parts.append(f"{', '.join(f'`{flag}`' for flag in mine)} of {link}")
        else:
            parts.append(link + (f" without {', '.join(f'`{flag}`' for flag in lacks)}" if lacks else ""))
    return [f"Shared options: {'; '.join(parts)}."]


def main(arguments: list[str]) -> None:
    """Writes the page to a file or to stdout."""
    if arguments:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
