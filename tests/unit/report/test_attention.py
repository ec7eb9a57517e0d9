"""A small screen shows the members that somebody should look at."""

from __future__ import annotations

from mooring.model.status import MemberState
from mooring.report.attention import others, states_of, worth_showing
from mooring.report.view import MemberView
from mooring.wire.members import Step


def member(index: int, state: MemberState = MemberState.RUNNING, step: int = 100) -> MemberView:
    view = MemberView(f"worker-{index}", "worker", state=state)
    view.apply(Step(1.0, step=step))
    return view


def test_failed_and_slow_members_are_kept_in_their_order() -> None:
    members = [member(index) for index in range(20)]
    members[17] = member(17, MemberState.FAILED, 30)
    members[9] = member(9, step=40)
    members[12] = member(12, MemberState.STARTING, 0)
    shown = [one.name for one in worth_showing(members, 4)]
    assert shown == ["worker-0", "worker-9", "worker-12", "worker-17"]
    assert len(worth_showing(members, 50)) == 20


def test_the_others_are_summed_up() -> None:
    members = [member(0), member(1, step=90), member(2, MemberState.SUCCEEDED)]
    assert states_of(members) == "2 running, 1 succeeded"
    assert others(members) == "… 3 more: 2 running, 1 succeeded, 90–100 steps"
    assert others([MemberView("ps-0", "ps")]) == "… 1 more: 1 waiting"
