"""Whether something got faster, or learns worse: from probes before and after, in turns. Pure.

Two probes of the same job differ by chance, on a shared machine by much. A difference is stated
only if it is unlikely to be chance, by an exact rank test, which assumes nothing about how speeds
are distributed: of three pairs, every probe after must be faster than every probe before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import mean, median

#: How likely chance may be for a difference to be stated.
_CHANCE = 0.05
#: Of fewer, every order is likely enough.
_LEAST_PAIRS = 3
#: A loss that is higher by more than this is worth a word.
WORSE_PERCENT = 1.0
#: One that is higher by more than this is another model: no speed is worth it unasked.
REFUSED_PERCENT = 5.0


class Shown(StrEnum):
    """What the probes show of the second kind against the first."""

    HIGHER = "higher"
    LOWER = "lower"
    NOTHING = "nothing"


def shown(before: Sequence[float], after: Sequence[float]) -> Shown:
    """By the Mann-Whitney test, one-sided on either side."""
    wins = sum((b > a) + 0.5 * (b == a) for a in before for b in after)
    if _chance(len(before), len(after), wins) <= _CHANCE:
        return Shown.HIGHER
    if _chance(len(before), len(after), len(before) * len(after) - wins) <= _CHANCE:
        return Shown.LOWER
    return Shown.NOTHING


def _chance(few: int, many: int, wins: float) -> float:
    """Of all orders of the probes, the part in which the second kind wins that often or more."""
    counts = [_orders(few, many, count) for count in range(few * many + 1)]
    return sum(one for count, one in enumerate(counts) if count >= wins) / max(1, sum(counts))


@cache
def _orders(first: int, second: int, wins: int) -> int:
    """Orders of `first` and `second` things in which the second kind is ahead in `wins` pairs."""
    if wins < 0:
        return 0
    if first == 0 or second == 0:
        return 1 if wins == 0 else 0
    # The largest of all is of the first kind, or of the second and ahead of all of the first.
    return _orders(first - 1, second, wins) + _orders(first, second - 1, wins - first)


@dataclass(frozen=True)
class Speeds:
    """(before, after) of each pair of probes, made one after the other."""

    pairs: tuple[tuple[float, float], ...]
    unit: str = "examples/s"

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(after / before for before, after in self.pairs)

    @property
    def shown(self) -> Shown:
        return shown([one for one, _ in self.pairs], [one for _, one in self.pairs])

    @property
    def says(self) -> str:
        """`9.8× to 14.2× the speed (818 → 9,887 examples/s, medians of 3 pairs of probes)`."""
        count = f"{len(self.pairs)} pair{'' if len(self.pairs) == 1 else 's'} of probes"
        low, high = _times(min(self.ratios)), _times(max(self.ratios))
        times = low if low == high else f"{low} to {high}"
        if len(self.pairs) < _LEAST_PAIRS:
            return f"{count} cannot show a difference ({_LEAST_PAIRS} can): {times} the speed"
        if self.shown is Shown.NOTHING:
            # A figure would be read as a gain.
            return f"no difference that {count} could show"
        before, after = (median(pair[side] for pair in self.pairs) for side in (0, 1))
        return (
            f"{times} the speed "
            f"({amount(before)} → {amount(after)} {self.unit}, medians of {count})"
        )


@dataclass(frozen=True)
class Losses:
    """Each probe's loss after the same number of examples, before and after the remedies."""

    examples: int
    before: tuple[float, ...]
    after: tuple[float, ...]

    @property
    def change_percent(self) -> float:
        return 100 * (mean(self.after) / mean(self.before) - 1)

    @property
    def spread_percent(self) -> float:
        """How far probes of the same job differ: the wider of the two ranges."""
        return max(
            100 * (max(one) - min(one)) / abs(mean(one)) for one in (self.before, self.after)
        )

    @property
    def worse(self) -> bool:
        if not self.before or not self.after:
            return False
        higher = shown(self.before, self.after) is Shown.HIGHER
        return higher and self.change_percent > WORSE_PERCENT

    @property
    def refused(self) -> bool:
        """The remedies are not worth it, however fast they are."""
        return self.worse and self.change_percent > REFUSED_PERCENT

    @property
    def says(self) -> str:
        if not self.before or not self.after:
            return f"loss: undecided, too few reports within {self.examples:,} examples"
        said = (
            f"loss after {self.examples:,} examples: {_range(self.before)} → {_range(self.after)}, "
        )
        found = shown(self.before, self.after)
        if found is Shown.NOTHING:
            return (
                said + f"undecided: probes of the same job differ by {self.spread_percent:.1f} %, "
                f"before and after by {abs(self.change_percent):.1f} %"
            )
        said += f"{abs(self.change_percent):.1f} % {found.value}"
        return said + ("; look at it before you keep the remedies" if self.worse else "")


def _times(ratio: float) -> str:
    return f"{ratio:.3g}×" if ratio < 100 else f"{ratio:,.0f}×"


def amount(value: float) -> str:
    """A speed, as many digits as it is worth."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.4f}", f"{max(values):.4f}"
    return low if low == high else f"{low} to {high}"
