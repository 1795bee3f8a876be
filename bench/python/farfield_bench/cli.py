"""The command line: `farfield-bench list | run | compare | report`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from farfield.cli import end_with, guarded
from farfield.cli.app import invoke, parser
from farfield.cli.common import Common, command

RESULTS = "docs/benchmarks"
REPORT = "docs/benchmarks.md"
QUICK = "quick-results"
RUNS, QUICK_RUNS = 5, 1


app = parser("farfield-bench")
"""The parser."""


def main() -> NoReturn:
    """Runs `farfield-bench` and exits."""
    end_with(run, sys.argv[1:])


def run(arguments: Sequence[str]) -> int:
    """Runs one command line; the exit code."""
    return guarded(lambda words: invoke(app, words or ["--help"]), arguments)


@command(app, "list", source=False, run=False)
def list_(common: Common) -> None:
    """List the experiments."""
    from farfield_bench import load

    found = load()
    lines = [f"{name:<14} {e.title}" for name, e in found.items()] or ["there are no experiments in this build"]
    common.show({name: {"title": e.title, "about": e.about} for name, e in found.items()}, lines)


@command(app, "run", source=False, run=False)
def run_(
    common: Common,
    names: Annotated[list[str], typer.Argument(metavar="NAME... | all", help="experiments of 'farfield-bench list'")],
    runs: Annotated[
        int | None,
        typer.Option(
            "--runs",
            min=1,
            help=f"how often each arm is run; {RUNS} if nothing is said, {QUICK_RUNS} in quick runs",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="small data, to see that it works")] = False,
    work: Annotated[
        str, typer.Option("--work", metavar="DIR", help="folder for data, kept between runs")
    ] = "bench-data",
    results: Annotated[
        str | None,
        typer.Option(
            "--results",
            metavar="DIR",
            help=f"folder for NAME.json; {RESULTS} if nothing is said, of quick runs WORK/{QUICK}",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Run experiments one after the other, despite failures, and write their results. The exit code is 1 if one fails
    or a figure that must hold does not. Quick runs have too little data for bounds: 1 if one fails or its results are
    wrong. If a single experiment fails, the exit code is that of its error.
    """
    import traceback
    from pathlib import Path

    from farfield.errors import FarfieldError, Interrupted
    from farfield_bench import Recorder, arms, find, load
    from farfield_bench.result import write_result

    # Stored results have figures to quote; a quick run has none.
    target = Path(results) if results is not None else Path(work, QUICK) if quick else Path(RESULTS)
    chosen = list(load().values()) if names == ["all"] else [find(name) for name in names]
    arms.quickly(quick)
    often = runs if runs is not None else QUICK_RUNS if quick else RUNS
    documents: dict[str, dict[str, Any]] = {}
    wrong: list[str] = []
    code = 1

    def sum_up() -> None:
        if wrong:
            print(f"farfield: of {len(chosen)} experiments not all is well:", file=sys.stderr)
            print(*(f"  {what}" for what in wrong), sep="\n", file=sys.stderr, flush=True)

    for e in chosen:
        if not common.quiet:
            print(f"farfield: running {e.name}: {e.title}", file=sys.stderr, flush=True)
        folder = Path(work)
        folder.mkdir(parents=True, exist_ok=True)
        recorder = Recorder(e.name, e.title, about=e.about, runs=often, quick=quick, work=folder)
        try:
            e.measure(recorder)
            result = recorder.result()
            path = write_result(result, target)
        except (Interrupted, KeyboardInterrupt):
            sum_up()
            raise
        except Exception as error:  # the other experiments still run
            known = isinstance(error, FarfieldError | OSError)
            if not known:
                traceback.print_exc()
            said = str(error) if known else repr(error)
            old = target / f"{e.name}.json"
            wrong.append(f"{e.name} failed: {said}{f'; {old} is of an earlier run' if old.exists() else ''}")
            print(f"farfield: {wrong[-1]}", file=sys.stderr, flush=True)
            documents[e.name] = {"name": e.name, "title": e.title, "error": said}
            code = _exit_code(error) if len(chosen) == 1 else 1
            continue
        documents[e.name] = result.model_dump(mode="json")
        wrong += [f"{e.name}: missed: {claim.text}" for claim in result.missed]
        lines = [f"{e.name}: {path}"]
        for claim in result.claims:
            verdict = "holds " if claim.holds else "MISSED" if claim in result.missed else "missed"
            lines.append(f"  {verdict} {claim.text}: {claim.value:.4g} {claim.relation} {claim.bound:.4g} {claim.unit}")
        if not common.json:
            common.show({}, lines)
    if common.json:
        common.show(documents, [])
    sum_up()
    return code if wrong else 0


@command(app, "compare", source=False, run=False)
def compare(
    common: Common,
    first: Annotated[str, typer.Argument(metavar="A.json", help="a result, which ratios are taken of")],
    second: Annotated[str, typer.Argument(metavar="B.json", help="another of the same experiment")],
) -> None:
    """Two results side by side: medians, spreads and ratios (B over A) of the arms that both have."""
    from dataclasses import asdict
    from pathlib import Path

    from farfield_bench.compare import compare as side_by_side
    from farfield_bench.compare import lines
    from farfield_bench.result import read_result

    found = side_by_side(read_result(Path(first)), read_result(Path(second)))
    names = (Path(first).name, Path(second).name)
    if names[0] == names[1]:  # as of two folders of results
        names = ("A", "B")
    pairs = [{**asdict(pair), "ratio": pair.ratio, "apart": pair.apart} for pair in found.pairs]
    common.show({**asdict(found), "pairs": pairs}, lines(found, names))


@command(app, "report", source=False, run=False)
def report(
    common: Common,
    results: Annotated[str, typer.Option("--results", metavar="DIR", help="folder of NAME.json")] = RESULTS,
    output: Annotated[str, typer.Option("--output", "-o", metavar="OUT", help="the page")] = REPORT,
) -> None:
    """Make docs/benchmarks.md from the results, and its plots in the folder docs/benchmarks/plots."""
    from pathlib import Path

    from farfield_bench import plots
    from farfield_bench.report import report as page
    from farfield_bench.result import read_results

    found = read_results(Path(results))
    images = plots.write(found, Path(output))
    Path(output).write_text(page(found, images), encoding="utf-8")
    # Only now: without a new page, the old one still shows them.
    plots.clear(images, Path(output))
    drawn = [image.path for several in images.values() for image in several]
    common.show(
        {"output": output, "results": [r.name for r in found], "plots": drawn},
        [f"wrote {output} from {len(found)} results, and {len(drawn)} plots beside it"],
    )


def _exit_code(error: Exception) -> int:
    """Exit code of the command line for an error."""
    from farfield.errors import FarfieldError

    if isinstance(error, FarfieldError):
        return error.exit_code
    return 4 if isinstance(error, MemoryError) else 5 if isinstance(error, PermissionError) else 1
