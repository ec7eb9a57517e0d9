"""What the simulated runtime does beyond the contract that all backends share."""

from __future__ import annotations

import math

import pytest
from first_come import node

from mooring.backends.base import Order
from mooring.backends.simulated.runtime import Script, SimulatedRuntime
from mooring.lifecycle import MemberExited, MemberReady, MemberRunning
from mooring.model.cluster import Snapshot
from mooring.model.errors import RunFailed
from mooring.model.launch import Launch
from mooring.model.member import Member, MemberId
from mooring.model.plan import Slot
from mooring.model.resources import Resources

ONE = MemberId("worker", 0)
TWO = MemberId("worker", 1)


def started(script: dict[MemberId, Script]) -> SimulatedRuntime:
    runtime = SimulatedRuntime(Snapshot((node("n0"),)), lambda order: script[order.member.id])
    runtime.start(
        [
            Order(Member(id_, "j", Resources(1000)), Slot("n0", (0, 1)), Launch((), {}, ()), 0, 0)
            for id_ in script
        ]
    )
    return runtime


def test_a_year_takes_no_time_and_events_come_in_their_order() -> None:
    year_s = 365 * 86_400.0
    runtime = started({ONE: Script(year_s, start_s=2.0), TWO: Script(10.0, 3)})
    assert runtime.poll(0.0, 5.0) == [MemberReady(TWO, 0, 0)]
    assert runtime.poll(runtime.clock.now_s(), 5.0) == [MemberReady(ONE, 0, 0)]
    runtime.open_gate([ONE, TWO])
    assert len([e for e in runtime.poll(2.0, 0.0) if isinstance(e, MemberRunning)]) == 2
    assert runtime.poll(runtime.clock.now_s(), math.inf) == [MemberExited(TWO, 0, 0, 3)]
    assert runtime.clock.now_s() == 12.0
    assert runtime.held()["n0"].resources == Resources(1000)
    assert runtime.poll(runtime.clock.now_s(), math.inf) == [MemberExited(ONE, 0, 0, 0)]
    assert runtime.clock.now_s() == 2.0 + year_s
    assert not runtime.held()


def test_waiting_for_nothing_moves_the_clock_by_the_timeout() -> None:
    runtime = started({ONE: Script()})
    runtime.poll(0.0, 1.0)
    assert runtime.poll(0.0, 7.0) == []
    assert runtime.clock.now_s() == 7.0


@pytest.mark.parametrize(
    ("stop_s", "grace_s", "end_s", "code"),
    [(0.0, 5.0, 100.0, 143), (3.0, 5.0, 103.0, 143), (30.0, 5.0, 105.0, 137)],
)
def test_the_grace_is_kept(stop_s: float, grace_s: float, end_s: float, code: int) -> None:
    runtime = started({ONE: Script(stop_s=stop_s)})
    runtime.open_gate([ONE])
    runtime.poll(0.0, 0.0)
    runtime.stop([ONE], grace_s, 100.0)
    assert runtime.poll(100.0, 60.0) == [MemberExited(ONE, 0, 0, code)]
    assert runtime.clock.now_s() == end_s


def test_a_member_that_refuses_leaves_nothing_started() -> None:
    with pytest.raises(RunFailed, match="disk full"):
        started({ONE: Script(), TWO: Script(refuses="disk full")})
