"""Two results of one experiment side by side: `farfield-bench compare A.json B.json`."""

from __future__ import annotations

from dataclasses import dataclass

from farfield.runtime.sizes import format_bytes
from farfield_bench.result import Arm, Result


@dataclass(frozen=True)
class Pair:
    """A quantity of an arm that both results have."""

    arm: str
    quantity: str
    first: float
    second: float
    """Medians."""
    first_spread: float
    second_spread: float
    """Largest less smallest value as a share of the median."""

    @property
    def ratio(self) -> float | None:
        """The second over the first; None if undefined."""
        return self.second / self.first if self.first else None

    @property
    def apart(self) -> bool:
        """Whether the medians differ by more than the larger half of the spreads. A smaller difference may be chance."""
        half = max(self.first_spread * abs(self.first), self.second_spread * abs(self.second)) / 2
        return abs(self.second - self.first) > half


@dataclass(frozen=True)
class Comparison:
    """Common arms of two results, and reasons against their comparison."""

    pairs: list[Pair]
    warnings: list[str]
    only_first: list[str]
    only_second: list[str]
    """Arms without figures in the other result."""


def compare(first: Result, second: Result) -> Comparison:
    """Medians of arms of the same name, quantity by quantity, in the first one's order."""
    of_second = {arm.name: arm for arm in second.arms}
    pairs = []
    for arm in first.arms:
        other = of_second.get(arm.name)
        for key in arm.median if other else ():
            if other and key in other.median:
                pairs.append(
                    Pair(arm.name, key, arm.median[key], other.median[key], arm.spread[key], other.spread[key])
                )
    both = {pair.arm for pair in pairs}
    return Comparison(
        pairs,
        [*_warnings(first, second), *_stops(first, second)],
        [_named(arm) for arm in first.arms if arm.name not in both],
        [_named(arm) for arm in second.arms if arm.name not in both],
    )


def _named(arm: Arm) -> str:
    return f"{arm.name} ({arm.stop.text})" if arm.stop else arm.name


def _warnings(first: Result, second: Result) -> list[str]:
    """Differences between the two results that may affect medians."""
    found = []
    if first.name != second.name:
        found.append(f"two experiments: {first.name} and {second.name}")
    if first.quick != second.quick:
        found.append("one is a quick run on small data, the other is not")
    elif first.quick:
        found.append("both are quick runs on small data: not figures to quote")
    a, b = first.machine.model_dump(), second.machine.model_dump()
    # Versions are compared separately.
    for key in (key for key in a if key not in ("python", "farfield", "kernel")):
        if a[key] != b[key]:
            values = [format_bytes(v) if key.endswith("_bytes") else str(v) for v in (a[key], b[key])]
            found.append(f"the machine's {key.removesuffix('_bytes')} differs: {values[0]}, {values[1]}")
    versions = (_versions(first), _versions(second))
    for key in dict.fromkeys([*versions[0], *versions[1]]):
        ours, theirs = (v.get(key, "not said") for v in versions)
        if ours != theirs:
            found.append(f"the version of {key} differs: {ours}, {theirs}")
    conditions = [{c.what: c for c in result.conditions} for result in (first, second)]
    for what in dict.fromkeys([*conditions[0], *conditions[1]]):
        said = [
            ("not said" if c is None else "here" if c.here else "not here") for c in (d.get(what) for d in conditions)
        ]
        whys = [c.why for c in (d.get(what) for d in conditions) if c is not None]
        if said[0] != said[1]:
            found.append(f"a condition differs: {what}: {said[0]}, {said[1]}")
        elif len(set(whys)) > 1:
            found.append(f"a condition differs: {what}: {', '.join(why or 'nothing more said' for why in whys)}")
    return found


def _versions(result: Result) -> dict[str, str]:
    """Also for results without a list of versions."""
    if result.versions:
        return result.versions
    m = result.machine
    return {"farfield": f"{m.farfield} at {result.commit or 'no commit'}", "python": m.python, "linux": m.kernel}


def _stops(first: Result, second: Result) -> list[str]:
    """Arms that finished in one result only."""
    stops = [{arm.name: arm.stop for arm in result.arms} for result in (first, second)]
    found = []
    for name in (name for name in stops[0] if name in stops[1]):
        said = ["to its end" if stop is None else stop.text for stop in (of[name] for of in stops)]
        if said[0] != said[1]:
            found.append(f"{name} came further in one of them: {said[0]}, {said[1]}")
    return found


def lines(comparison: Comparison, names: tuple[str, str]) -> list[str]:
    """Text for people: warnings first, then a row for each quantity, arm by arm. A ratio is the second over the first;
    `~` marks one within the spreads.
    """
    found = [f"warning: {text}" for text in comparison.warnings]
    width = max([len(pair.quantity) for pair in comparison.pairs], default=8)
    found.append(f"{'':<{width}}  {names[0]:>24}  {names[1]:>24}  ratio")
    last = None
    for pair in comparison.pairs:
        if pair.arm != last:
            found.append(pair.arm)
        last = pair.arm
        cells = [
            f"{_value(pair.quantity, value)} ± {50 * spread:.0f} %"
            for value, spread in ((pair.first, pair.first_spread), (pair.second, pair.second_spread))
        ]
        ratio = "" if pair.ratio is None else f"{'' if pair.apart else '~'}{pair.ratio:.3g}"
        found.append(f"  {pair.quantity:<{width}}  {cells[0]:>22}  {cells[1]:>24}  {ratio}")
    for name, only in zip(names, (comparison.only_first, comparison.only_second), strict=True):
        found += [f"only in {name}: {arm}" for arm in only]
    return found


def _value(quantity: str, value: float) -> str:
    return format_bytes(value) if quantity.endswith("_bytes") else f"{value:.4g}"
