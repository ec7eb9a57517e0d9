"""Two sets of measures side by side: what differs, by how much, and what pattern that has. Pure.

The pattern says more than the sizes. A device that is slower is slower by the same factor
everywhere; a host that costs a little in every step shows most where steps are short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import mean, median

from mooring.record.journal import JsonValue

#: Below this a ratio is noise even of a quiet machine; a virtual machine's speed alone changes by
#: more (docs/benchmarks.md), which the spread then shows.
_NOISE = 0.03
#: So many measures make a pattern, and so strong a rank correlation: with four, 0.8 is the first
#: below perfect order.
_LEAST_FOR_A_PATTERN = 4
_CORRELATED = 0.6


_ALONE = "measure"
_NOT_SET = "not set"
#: How the names of a job file's fields begin.
SPEC = "spec."
#: How the names of a program's own files begin.
PROGRAM = "program "


class Better(StrEnum):
    """Which way is better."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"


@dataclass(frozen=True)
class Measure:
    """One thing that was measured, once or several times."""

    name: str
    unit: str
    values: tuple[float, ...]
    better: Better = Better.LOWER

    @property
    def middle(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Side:
    """One of the two: its measures, and what it says of itself."""

    name: str
    measures: tuple[Measure, ...]
    context: Mapping[str, str]
    whole: bool = False
    """The context is all that there is: what it does not name is not set."""


@dataclass(frozen=True)
class Row:
    """A measure that both sides have. `ratio` is B ÷ A of the medians; `low` and `high` that of the
    nearest and farthest repetitions, equal to it where nothing was repeated."""

    name: str
    unit: str
    a: float
    b: float
    ratio: float
    low: float
    high: float
    better: Better

    @property
    def differs(self) -> bool:
        """Beyond noise, and beyond the spread of the repetitions."""
        return abs(self.ratio - 1) > _NOISE and (self.low > 1 or self.high < 1)


class GapPattern(StrEnum):
    """How a gap changes with the size of the work."""

    SAME = "same"
    PER_STEP = "per-step"
    PROPORTIONAL = "proportional"
    GROWING = "growing"
    MIXED = "mixed"
    FEW = "few"


_MEANS = {
    GapPattern.SAME: "No difference beyond noise.",
    GapPattern.PER_STEP: "The smaller the work, the larger the gap: every step pays a cost that "
    "does not grow with its size, and that long steps hide behind the device's work. That is the "
    "host side (CPU scheduling, pinning, thread counts, starting kernels, loading data), not the "
    "GPU: a slower device would cost the same factor everywhere. Look at both hosts with `moor "
    "doctor --node`.",
    GapPattern.PROPORTIONAL: "The same factor everywhere, whatever the size of the work: the "
    "device or its clock, memory or bus is slower, or the precision differs; not a cost of "
    "each step.",
    GapPattern.GROWING: "The larger the work, the larger the gap: bandwidth or memory runs out "
    "with size (caches, NUMA cells, PCIe, network); small work does not feel it.",
    GapPattern.MIXED: "The gap follows no order of size.",
    GapPattern.FEW: "Too few measures for a pattern.",
}


@dataclass(frozen=True)
class FamilyVerdict:
    """The pattern of one family of measures (`train time`, `inference time`)."""

    family: str
    rows: tuple[Row, ...]
    pattern: GapPattern
    correlation: float | None
    middle: float
    says: str


@dataclass(frozen=True)
class RunComparison:
    a: str
    b: str
    verdicts: tuple[FamilyVerdict, ...]
    differences: tuple[tuple[str, str, str], ...]
    """What the sides say of themselves and do not agree on: (what, A, B)."""
    alike: tuple[tuple[str, str], ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    def document(self) -> dict[str, JsonValue]:
        return {
            "a": self.a,
            "b": self.b,
            "families": [
                {
                    "family": one.family,
                    "pattern": one.pattern.value,
                    "says": one.says,
                    "ratio": round(one.middle, 4),
                    "correlation": None if one.correlation is None else round(one.correlation, 4),
                    "measures": [
                        {
                            "name": row.name,
                            "unit": row.unit,
                            "a": row.a,
                            "b": row.b,
                            "ratio": round(row.ratio, 4),
                            "low": round(row.low, 4),
                            "high": round(row.high, 4),
                        }
                        for row in one.rows
                    ],
                }
                for one in self.verdicts
            ],
            "differences": [{"what": what, "a": a, "b": b} for what, a, b in self.differences],
            "alike": dict(self.alike),
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
        }


def compare(a: Side, b: Side) -> RunComparison:
    ours = {measure.name: measure for measure in a.measures}
    theirs = {measure.name: measure for measure in b.measures}
    families: dict[str, list[Row]] = {}
    sizes = Counter(name.partition(" ")[2] for name in ours)
    for name in ours:
        if name in theirs and ours[name].unit == theirs[name].unit:
            families.setdefault(_family(name, sizes), []).append(_row(ours[name], theirs[name]))
    alone = families.pop(_ALONE, [])
    shared = [key for key in a.context if key in b.context]
    if a.whole and b.whole:
        named = dict.fromkeys([*a.context, *b.context])
        differing = [key for key in named if a.context.get(key) != b.context.get(key)]
    else:
        differing = [key for key in shared if a.context[key] != b.context[key]]
    # What somebody has set or written comes before what followed from it.
    differing.sort(key=lambda key: not key.startswith((SPEC, PROGRAM)))
    return RunComparison(
        a.name,
        b.name,
        (
            *((_apart(alone),) if alone else ()),
            *(_verdict(family, rows) for family, rows in families.items()),
        ),
        tuple((k, a.context.get(k, _NOT_SET), b.context.get(k, _NOT_SET)) for k in differing),
        tuple((key, a.context[key]) for key in shared if a.context[key] == b.context[key]),
        tuple(name for name in ours if name not in theirs),
        tuple(name for name in theirs if name not in ours),
    )


def _family(name: str, sizes: Mapping[str, int]) -> str:
    """Measures whose names differ in the first word alone are sizes of the same work.

    sizes: how many names end alike after their first word.
    """
    _, _, rest = name.partition(" ")
    return rest if rest and sizes[rest] > 1 else _ALONE


def _apart(rows: Sequence[Row]) -> FamilyVerdict:
    """Measures of different things: each by itself, no pattern among them."""
    said = [_said(row) for row in rows if row.differs]
    says = "; ".join(said) if said else _MEANS[GapPattern.SAME]
    pattern = GapPattern.FEW if said else GapPattern.SAME
    return FamilyVerdict(
        _ALONE, tuple(rows), pattern, None, median(row.ratio for row in rows), says
    )


def _row(a: Measure, b: Measure) -> Row:
    nearest = min(b.values) / max(a.values)
    farthest = max(b.values) / min(a.values)
    ratio = b.middle / a.middle
    single = len(a.values) == len(b.values) == 1
    return Row(
        a.name,
        a.unit,
        a.middle,
        b.middle,
        ratio,
        ratio if single else nearest,
        ratio if single else farthest,
        a.better,
    )


def _verdict(family: str, rows: Sequence[Row]) -> FamilyVerdict:
    ordered = tuple(sorted(rows, key=lambda row: row.a))
    pattern, correlation = _pattern(ordered)
    says = _MEANS[pattern]
    if pattern in (GapPattern.PER_STEP, GapPattern.GROWING):
        first, last = ordered[0], ordered[-1]
        says = (
            f"{first.ratio:.2f}× at {first.a:.3g} {first.unit} ({first.name.split(' ')[0]}), "
            f"{last.ratio:.2f}× at {last.a:.3g} {last.unit} ({last.name.split(' ')[0]}). {says}"
        )
    elif pattern is GapPattern.FEW and any(row.differs for row in ordered):
        says = "; ".join(_said(row) for row in ordered if row.differs)
    return FamilyVerdict(
        family, ordered, pattern, correlation, median(row.ratio for row in ordered), says
    )


def _said(row: Row) -> str:
    word = "higher" if row.ratio > 1 else "lower"
    good = {Better.LOWER: row.ratio < 1, Better.HIGHER: row.ratio > 1}.get(row.better)
    opinion = "" if good is None else ", better" if good else ", worse"
    return f"{row.name} is {times(row.ratio)}× ({word}{opinion})"


def times(ratio: float) -> str:
    """`1.83`, `0.0042`, `25.6`, `1,204`: three digits that count."""
    if ratio >= 100:
        return f"{ratio:,.0f}"
    return f"{ratio:.2f}" if 0.1 <= ratio < 10 else f"{ratio:.3g}"


_UNITS = {
    "ms": ((1e-3, "µs"), (1.0, "ms"), (1e3, "s"), (6e4, "min"), (3.6e6, "h")),
    "B": ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")),
}


def readable(row: Row) -> tuple[str, str]:
    """Both figures of a row in the unit that suits the larger one."""
    sizes = _UNITS.get(row.unit, ((1.0, row.unit),))
    largest = max(abs(row.a), abs(row.b))
    size, unit = max((one for one in sizes if one[0] <= largest), default=sizes[0])
    first, second = (f"{_digits(value / size)} {unit}".strip() for value in (row.a, row.b))
    return first, second


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _pattern(rows: Sequence[Row]) -> tuple[GapPattern, float | None]:
    """By the order of ratios along the size of the work (A's own figure)."""
    if not any(row.differs for row in rows):
        return GapPattern.SAME, None
    if len(rows) < _LEAST_FOR_A_PATTERN:
        return GapPattern.FEW, None
    ratios = [row.ratio for row in rows]
    correlation = _rank_correlation([row.a for row in rows], ratios)
    # Ratios that hardly differ have no order worth the name.
    if max(ratios) - min(ratios) <= 2 * _NOISE * mean(ratios):
        return GapPattern.PROPORTIONAL, correlation
    gap = median(ratios)
    if correlation <= -_CORRELATED:
        return (GapPattern.PER_STEP if gap > 1 else GapPattern.GROWING), correlation
    if correlation >= _CORRELATED:
        return (GapPattern.GROWING if gap > 1 else GapPattern.PER_STEP), correlation
    return GapPattern.MIXED, correlation


def _rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: 1 in the same order, -1 in the opposite one."""
    a, b = _ranks(first), _ranks(second)
    centre_a, centre_b = mean(a), mean(b)
    top = sum((x - centre_a) * (y - centre_b) for x, y in zip(a, b, strict=True))
    below = sum((x - centre_a) ** 2 for x in a) * sum((y - centre_b) ** 2 for y in b)
    return top / below**0.5 if below > 0 else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """Equal values share the mean of their ranks."""
    ranks: dict[float, float] = {}
    first = 0
    for value, count in sorted(Counter(values).items()):
        ranks[value] = first + (count - 1) / 2
        first += count
    return [ranks[value] for value in values]
