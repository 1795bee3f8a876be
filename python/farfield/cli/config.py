"""`farfield config`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command


def register(app: typer.Typer) -> None:
    """Adds the group and its commands."""
    group = typer.Typer(rich_markup_mode=None)
    app.add_typer(group, name="config", help="Settings and their origins.")

    @command(group, "list", source=False, run=False)
    def list_(common: Common) -> None:
        """List all settings with their values and origins."""
        from farfield.runtime.settings import DEFINE, PROJECT_FILE, SETTINGS, user_file

        settings = common.settings()
        rows = {name: (_text(settings[name]), settings.origin(name), SETTINGS[name].help) for name in SETTINGS}
        about = "a field made of others, as --define has it"
        rows |= {f"{DEFINE}.{name}": (text, origin, about) for name, text, origin in settings.definitions()}
        lines = [f"{name:<14} {value:<24} {origin:<28} {about}" for name, (value, origin, about) in rows.items()]
        lines.append(f"A flag wins over FARFIELD_NAME, that over ./{PROJECT_FILE}, that over {user_file()}.")
        common.show(
            {
                name: {"value": value or None, "origin": origin, "help": about}
                for name, (value, origin, about) in rows.items()
            },
            lines,
        )

    @command(group, "get", source=False, run=False)
    def get(common: Common, name: Annotated[str, typer.Argument(metavar="NAME", help="the setting")]) -> None:
        """Print the value of a setting."""
        settings = common.settings()
        value = _text(settings[name.replace("-", "_")])
        common.show({"name": name, "value": value or None, "origin": settings.origin(name)}, [value])

    @command(group, "set", source=False, run=False)
    def set_(
        common: Common,
        name: Annotated[str, typer.Argument(metavar="NAME", help="the setting")],
        value: Annotated[str, typer.Argument(metavar="VALUE", help="its value")],
        project: Annotated[
            bool, typer.Option("--project", help="in ./farfield.toml instead of the user's file")
        ] = False,
    ) -> None:
        """Set a value in the user's file."""
        from farfield.runtime.settings import PROJECT_FILE, user_file, write_setting

        path = PROJECT_FILE if project else user_file()
        write_setting(path, name, value)
        common.show({"name": name, "value": value, "file": str(path)}, [f"{name} = {value} in {path}"])


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return "x".join(str(v) for v in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
