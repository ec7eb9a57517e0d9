"""Cards that are full in turns, and what the machine as a whole uses."""

from __future__ import annotations

import pytest

from mooring.backends.local.metering import CardMeter, machine_use

#: 8 Mbit/s let 100,000 bytes through in a tenth of a second.
LIMIT_MBPS, STEP_S, FULL = 8, 0.1, 100_000


@pytest.mark.parametrize(
    ("moved", "busy_s"),
    [
        # In and then out: each direction is half full, the card all of the time.
        ([(FULL, 0), (0, FULL)] * 5, 1.0),
        # Both at once, half of the time.
        ([(FULL, FULL), (0, 0)] * 5, 0.5),
        ([(FULL // 10, 0)] * 10, 0.1),
        ([(0, 0)] * 10, 0.0),
    ],
)
def test_a_card_is_in_use_by_its_fuller_direction(
    moved: list[tuple[int, int]], busy_s: float
) -> None:
    now_s, received, sent = 0.0, 0, 0
    meter = CardMeter(
        lambda: {"node-0": (received, sent), "node-1": (received, sent)},
        {"node-0": LIMIT_MBPS, "node-1": None},
        clock=lambda: now_s,
    )
    meter.look()
    for more_in, more_out in moved:
        now_s, received, sent = now_s + STEP_S, received + more_in, sent + more_out
        meter.look()
    assert meter.busy_s() == {"node-0": pytest.approx(busy_s)}


def test_a_run_without_limits_has_no_thread() -> None:
    meter = CardMeter(dict, {"node-0": None})
    meter.start()
    meter.close()
    assert meter.busy_s() == {}


def test_the_machine_tells_what_it_uses() -> None:
    before = machine_use()
    sum(number * number for number in range(2_000_000))
    after = machine_use()
    assert before is not None
    assert after is not None
    assert after.cpu_s > before.cpu_s
    assert 0 < after.available_bytes <= after.memory_bytes
