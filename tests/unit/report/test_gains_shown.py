"""When a difference is stated, and when it may be chance; the arithmetic beside each case."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.report.gains import Losses, Shown, Speeds, shown


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        # 1 of the C(6, 3) = 20 orders: 0.05
        ([1, 2, 3], [4, 5, 6], Shown.HIGHER),
        ([4, 5, 6], [1, 2, 3], Shown.LOWER),
        # 2 of 20 are as good as this one: 0.1
        ([1, 2, 4], [3, 5, 6], Shown.NOTHING),
        # 1 of C(4, 2) = 6
        ([1, 2], [300, 400], Shown.NOTHING),
        ([1], [100], Shown.NOTHING),
        # Of C(10, 5) = 252, 1 + 1 + 2 + 3 + 5 = 12 lose four comparisons or fewer: 0.048
        ([1, 2, 3, 4, 8.5], [5, 6, 7, 8, 9], Shown.HIGHER),
        ([1, 1, 1], [1, 1, 1], Shown.NOTHING),
    ],
)
def test_what_probes_can_show(before: list[float], after: list[float], found: Shown) -> None:
    assert shown(before, after) is found


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_without_a_difference_one_is_stated_one_time_in_ten_at_most(size: int) -> None:
    """Every order of the same probes, each as likely: a twentieth on either side."""
    everything = set(range(2 * size))
    stated = [
        shown(sorted(everything - set(after)), after) is not Shown.NOTHING
        for after in combinations(range(2 * size), size)
    ]
    assert sum(stated) <= 0.1 * len(stated)


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=6), st.data())
def test_the_two_sides_are_treated_alike(before: list[float], data: st.DataObject) -> None:
    after = data.draw(st.lists(st.floats(0.1, 1e6), min_size=len(before), max_size=len(before)))
    other = {Shown.HIGHER: Shown.LOWER, Shown.LOWER: Shown.HIGHER, Shown.NOTHING: Shown.NOTHING}
    assert shown(after, before) is other[shown(before, after)]


def test_a_gain_is_stated_with_its_range() -> None:
    speeds = Speeds(((800.0, 20_000.0), (1000.0, 21_000.0), (900.0, 19_000.0)))
    assert speeds.says == (
        "21× to 25× the speed (900 → 20,000 examples/s, medians of 3 pairs of probes)"
    )


def test_two_equal_runs_show_nothing() -> None:
    """One pair may be 2.4 times as fast by chance."""
    speeds = Speeds(((100.0, 240.0), (200.0, 150.0), (180.0, 185.0)))
    assert speeds.says == ("no difference that 3 pairs of probes could show")
    assert Speeds(((1.0, 9.0),)).says == (
        "1 pair of probes cannot show a difference (3 can): 9× the speed"
    )


def test_a_loss_within_its_own_spread_is_undecided() -> None:
    losses = Losses(14_336, (0.60, 0.62, 0.64), (0.58, 0.61, 0.63))
    # 0.04 / 0.62 and 0.05 / 0.6067; (0.6067 - 0.62) / 0.62
    assert losses.says == (
        "loss after 14,336 examples: 0.6000 to 0.6400 → 0.5800 to 0.6300, undecided: probes of the "
        "same job differ by 8.2 %, before and after by 2.2 %"
    )
    assert not losses.worse


def test_a_loss_that_is_higher_in_every_probe_is_said() -> None:
    losses = Losses(1000, (0.50, 0.51, 0.52), (0.60, 0.61, 0.62))
    assert losses.worse
    assert losses.says.endswith("19.6 % higher; look at it before you keep the remedies")
    assert losses.refused
    assert not Losses(1000, (0.50, 0.501, 0.502), (0.515, 0.516, 0.517)).refused
    # 0.5 % higher in every probe is a difference, and no reason to worry.
    assert not Losses(1000, (0.500, 0.5001, 0.5002), (0.5026, 0.5027, 0.5028)).worse
