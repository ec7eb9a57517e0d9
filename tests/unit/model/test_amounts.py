"""Durations and sizes as people read them."""

from __future__ import annotations

import pytest

from mooring.model.amounts import duration, rough_duration, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (0.25, "0.2 s"),
        (45, "45 s"),
        (12.0, "12.0 s"),
        (59.96, "60.0 s"),
        (60, "1 min"),
        (100.2, "1 min 40 s"),
        (7200, "2 h"),
        (7290, "2 h 1 min"),
        (93_784, "1 d 2 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "5 s"),
        (33, "35 s"),
        (61, "1 min"),
        (1000, "17 min"),
        (3599, "60 min"),
        (3700, "1 h"),
        (12_345, "3 h 30 min"),
        (86_399, "1 d"),
        (100_000, "1 d 4 h"),
    ],
)
def test_estimates_are_told_no_finer_than_they_can_be_known(seconds: float, text: str) -> None:
    assert rough_duration(seconds) == text


@pytest.mark.parametrize(
    ("amount_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 << 30, "3.0 GiB"),
        (1 << 52, "4096.0 TiB"),
    ],
)
def test_sizes(amount_bytes: float, text: str) -> None:
    assert size(amount_bytes) == text
