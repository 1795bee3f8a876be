"""`farfield doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from farfield.cli.common import Common, command


def register(app: typer.Typer) -> None:
    """Adds the command."""

    @command(app, "doctor", source=False, run=False)
    def doctor(
        common: Common,
        urls: Annotated[list[str], typer.Argument(metavar="URL...", help="datasets at servers")],
        seconds: Annotated[
            float, typer.Option(min=0.1, max=60.0, metavar="S", help="duration of each measurement")
        ] = 2.0,
    ) -> int:
        """Say what is wrong between here and a dataset at a server.

        Goes from the resolution of its name to the rate of the line, and stops at the first failure (exit code 5).
        """
        from farfield.doctor import examine
        from farfield.doctor.steps import Step

        found = []
        for url in urls:
            common.note(f"examining {url}")

            def told(step: Step) -> None:
                if not common.json:
                    print(f"{'ok  ' if step.ok else 'FAIL'}  {step.name:<11}  {step.said}", flush=True)

            if not common.json and len(urls) > 1:
                print(url)
            examination = examine(url, seconds=seconds, told=told)
            found.append(examination)
            if not common.json:
                print(examination.verdict)
        if common.json:
            common.show({"examinations": [examination.json() for examination in found]}, [])
        return 0 if all(examination.ok for examination in found) else 5
