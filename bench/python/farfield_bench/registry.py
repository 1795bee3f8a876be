"""The table of experiments."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from farfield.errors import UnknownName
from farfield_bench.result import Recorder

Measure = Callable[[Recorder], None]


@dataclass(frozen=True)
class Experiment:
    """One experiment."""

    name: str
    title: str
    about: str
    """Purpose and method, as a paragraph for the report: the docstring of its function."""
    measure: Measure


_FOUND: dict[str, Experiment] = {}


def experiment(name: str, title: str) -> Callable[[Measure], Measure]:
    """Registers a function that measures. It writes arms, claims and tables to its `Recorder`."""

    def register(measure: Measure) -> Measure:
        if name in _FOUND:
            raise ValueError(f"two experiments are named '{name}'")
        about = " ".join((measure.__doc__ or "").split())
        _FOUND[name] = Experiment(name, title, about, measure)
        return measure

    return register


def load() -> dict[str, Experiment]:
    """All experiments by name, in the order of their modules."""
    from farfield_bench import suites

    for module in sorted(pkgutil.iter_modules(suites.__path__), key=lambda m: m.name):
        importlib.import_module(f"{suites.__name__}.{module.name}")
    return dict(_FOUND)


def find(name: str) -> Experiment:
    """The experiment of that name.

    Raises:
        UnknownName: with the list of experiments.
    """
    known = load()
    if name not in known:
        raise UnknownName(f"no experiment named '{name}'; there are: {', '.join(known) or 'none'}")
    return known[name]
