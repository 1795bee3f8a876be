"""Figures of papers beside those of today: a table, and in a note where the two agree and where they do not."""

from __future__ import annotations

from dataclasses import dataclass, field

from farfield_bench.result import Recorder

FACTOR = 1.5
"""Default factor within which two ratios agree: other machines, other data, the same lesson."""


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


@dataclass
class Paper:
    """A paper with figures beside ours. Only ratios and shares are compared, since seconds of other machines differ."""

    name: str
    rows: list[list[str | float | int]] = field(default_factory=list)
    agreed: list[str] = field(default_factory=list)
    differed: list[str] = field(default_factory=list)

    def ratio(self, what: str, ours: float, theirs: float, *, factor: float = FACTOR) -> bool:
        """Puts a ratio beside the paper's. Returns whether they agree within a factor."""
        low, high = theirs / factor, theirs * factor
        return self._judged(what, ours, number(theirs), low, high)

    def span(self, what: str, ours: float, low: float, high: float) -> bool:
        """Puts a figure beside the smallest and the largest of the paper's. Returns whether it is between them."""
        return self._judged(what, ours, f"{number(low)} to {number(high)}", low, high)

    def side(self, what: str, ours: float, theirs: float, *, of: float = 1.0) -> bool:
        """Puts a ratio beside the paper's. Returns whether both are on the same side of 1, or of another bound."""
        same = (ours >= of) == (theirs >= of)
        self._add(what, ours, number(theirs), "the same way" if same else "the other way", same)
        return same

    def missing(self, what: str, theirs: str, why: str) -> None:
        """Records that a figure of the paper has no measurement beside it."""
        self.rows.append([what, "", theirs, why])

    def _judged(self, what: str, ours: float, theirs: str, low: float, high: float) -> bool:
        agrees = low <= ours <= high
        self._add(what, ours, theirs, "agrees" if agrees else "less here" if ours < low else "more here", agrees)
        return agrees

    def _add(self, what: str, ours: float, theirs: str, verdict: str, agrees: bool) -> None:
        self.rows.append([what, float(ours), theirs, verdict])
        if agrees:
            self.agreed.append(what)
        else:
            self.differed.append(f"{what} ({number(ours)} here, {theirs} there)")

    def record(self, recorder: Recorder) -> None:
        """The table, and the note."""
        if not self.rows:
            return
        title = f"Beside {self.name} (ratios agree within a factor of {FACTOR:g})"
        recorder.table(title, ["", "here", "there", ""], self.rows)
        said = []
        if self.agreed:
            said.append(f"agrees with {self.name}: {'; '.join(self.agreed)}")
        if self.differed:
            said.append(
                f"does not: {'; '.join(self.differed)}"
                if said
                else f"not as in {self.name}: {'; '.join(self.differed)}"
            )
        if said:
            text = "; ".join(said)
            recorder.note(f"{text[0].upper()}{text[1:]}.")
