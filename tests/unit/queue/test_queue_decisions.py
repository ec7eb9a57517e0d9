"""Who starts, gives way, grows, shrinks or waits: cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shelf import Shelf, admitted, cluster, pool, queued, run, start, yielding

from mooring.brain.queue import (
    Admit,
    Grow,
    Preempt,
    QueuedGang,
    QueuePolicy,
    QueueState,
    Shrink,
    Wait,
    apply,
    decide,
    ended,
)
from mooring.model.member import Duty, Gang, Member, MemberId, Preset, Relation, Rule
from mooring.model.plan import Plan
from mooring.model.resources import Resources

PURE = QueuePolicy(ageing_per_s=0.0)


def _sentences(decisions) -> dict[str, str]:
    return {each.job: each.sentence for each in decisions if isinstance(each, Wait)}


def test_nothing_waits_nothing_happens() -> None:
    shelf, capacity = cluster(1, 4)
    assert decide(QueueState(capacity), shelf, 0.0) == ()


def test_three_of_four_jobs_run_and_one_says_what_it_waits_for() -> None:
    # 3 x 4 = 12 devices, 4 x 4 = 16 wanted.
    shelf, capacity = cluster(3, 4)
    waiting = tuple(queued(f"j{i}", 4) for i in range(4))
    decisions = decide(QueueState(capacity, waiting), shelf, 0.0)
    assert admitted(decisions) == ["j0", "j1", "j2"]
    assert _sentences(decisions) == {
        "j3": "j3 waits for 4 gpu in pool default: the cluster has 0 of its 12 gpu free."
    }


def _running(shelf: Shelf, capacity, *gangs: tuple[QueuedGang, float]) -> QueueState:
    state = QueueState(capacity, policy=PURE)
    for gang, started_s in gangs:
        state = start(state, shelf, gang, started_s)
    return state


@pytest.mark.parametrize(
    ("running", "wants", "victims"),
    [
        # (members, priority, started); the gang in question has priority 5, at 100 s.
        # One of four is enough: rather than both of two.
        ([(2, 0, 0), (2, 0, 0), (4, 0, 0)], 4, ["r2"]),
        # The same size: the lower priority.
        ([(4, 1, 90), (4, 0, 0)], 4, ["r1"]),
        # The same priority: the least work lost, 4 x 10 s < 4 x 50 s.
        ([(4, 0, 50), (4, 0, 90)], 4, ["r1"]),
        # Nobody of its own priority or above.
        ([(4, 5, 0), (4, 9, 0)], 4, []),
        # 4 lower ones of 8 would go, but 8 are wanted: then nobody goes.
        ([(4, 0, 0), (4, 5, 0)], 8, []),
        # Two are needed: the cheaper pair of three, by the work lost: 20 + 40 of 20, 40, 60.
        ([(2, 0, 90), (2, 0, 80), (2, 0, 70), (2, 7, 0)], 4, ["r0", "r1"]),
        # Three are needed.
        ([(2, 0, 0), (2, 0, 0), (2, 0, 0), (2, 7, 0)], 6, ["r0", "r1", "r2"]),
    ],
)
def test_the_fewest_and_cheapest_give_way(
    running: list[tuple[int, int, float]], wants: int, victims: list[str]
) -> None:
    shelf, capacity = cluster(2, 4)  # 8 devices, all taken
    gangs = [
        (queued(f"r{i}", members, priority=priority), float(started))
        for i, (members, priority, started) in enumerate(running)
    ]
    state = _running(shelf, capacity, *gangs)
    state = replace(state, waiting=(queued("new", wants, priority=5),))
    decisions = decide(state, shelf, 100.0)
    assert sorted(yielding(decisions)) == victims
    assert admitted(decisions) == (["new"] if victims else [])


def test_four_victims_are_found_one_by_one_and_none_is_superfluous() -> None:
    # 8 gangs of one device on 8; 4 are wanted: sets of up to three do not do.
    shelf, capacity = cluster(2, 4)
    gangs = [(queued(f"r{i}"), float(i)) for i in range(8)]
    state = replace(_running(shelf, capacity, *gangs), waiting=(queued("new", 1, 4, priority=1),))
    decisions = decide(state, shelf, 100.0)
    assert len(yielding(decisions)) == 4  # all of one node
    assert admitted(decisions) == ["new"]


def test_who_must_not_be_preempted_is_not() -> None:
    shelf, capacity = cluster(1, 4)
    state = _running(shelf, capacity, (queued("r", 4, preemptible=False), 0.0))
    state = replace(state, waiting=(queued("new", 4, priority=9),))
    assert yielding(decide(state, shelf, 1.0)) == []


def test_sums_are_not_enough_for_a_victim() -> None:
    # Two nodes of 4, one device of each taken by a gang of priority 9, three by one of 0. A member
    # that needs 4 devices fits nowhere even if all of the lower ones go: so nobody goes.
    shelf, capacity = cluster(2, 4)
    gangs = [(queued(f"p{i}", 1, 3), 0.0) for i in range(2)]
    gangs += [(queued(f"q{i}", 1, 1, priority=9), 0.0) for i in range(2)]
    state = _running(shelf, capacity, *gangs)
    state = replace(state, waiting=(queued("new", 1, 4, priority=5),))
    assert yielding(decide(state, shelf, 1.0)) == []


def test_who_was_preempted_does_not_strike_back() -> None:
    # It has waited for an hour since: that gives it its turn, not the right to preempt.
    shelf, capacity = cluster(1, 4)
    state = start(QueueState(capacity), shelf, queued("old", 4), 0.0)
    state = replace(state, waiting=(queued("new", 4, priority=1, arrived_s=10.0),))
    state = run(state, shelf, decide(state, shelf, 10.0), 10.0)
    assert [each.job for each in state.running] == ["new"]
    assert yielding(decide(state, shelf, 3600.0)) == []


def test_who_waited_long_is_safe_from_priorities_that_it_has_reached() -> None:
    # 600 s at one point a minute: 10 points. Priority 10 is not above that, 11 is.
    shelf, capacity = cluster(1, 4)
    state = start(QueueState(capacity), shelf, queued("old", 4, arrived_s=0.0), 600.0)
    for priority, victims in ((10, []), (11, ["old"])):
        new = queued("new", 4, priority=priority, arrived_s=700.0)
        assert yielding(decide(replace(state, waiting=(new,)), shelf, 700.0)) == victims


@pytest.mark.parametrize(
    ("filler", "starts"),
    [
        # 8 devices: r holds 4 until 100 s, 4 are free. The head wants 8 and so starts at 100 s.
        ({"members": 4, "expected_s": 60.0}, True),  # 40 + 60 = 100: just in time
        ({"members": 4, "expected_s": 61.0}, False),
        ({"members": 1, "expected_s": None}, False),  # nobody knows when it ends
    ],
)
def test_only_who_ends_in_time_goes_before_the_head(filler, starts: bool) -> None:
    shelf, capacity = cluster(2, 4)
    state = _running(shelf, capacity, (queued("r", 4, expected_s=100.0), 0.0))
    state = replace(state, waiting=(queued("head", 8), queued("x", arrived_s=1.0, **filler)))
    decisions = decide(state, shelf, 40.0)
    assert admitted(decisions) == (["x"] if starts else [])
    if not starts:
        assert _sentences(decisions)["x"].endswith(
            "starting now would delay head, which is expected to start in 60 s."
        )


@pytest.mark.parametrize(
    ("members", "starts"),
    [
        # 12 devices: r holds 8, 4 are free. The head wants 6: once r has ended 12 - 6 = 6 are left
        # for others, of which 4 are free now.
        (2, True),
        (4, True),
        (5, False),  # more than is free
    ],
)
def test_beside_the_head_there_is_no_need_to_end_in_time(members: int, starts: bool) -> None:
    shelf, capacity = cluster(3, 4)
    state = _running(shelf, capacity, (queued("r", 8), 0.0))
    state = replace(state, waiting=(queued("head", 6), queued("x", members, arrived_s=1.0)))
    assert admitted(decide(state, shelf, 2.0)) == (["x"] if starts else [])


def test_room_beside_the_head_is_given_away_once() -> None:
    # 8 devices: r holds 4 until it ends, 4 free. The head wants 6: 2 are left beside it. x0 and
    # x1 want 2 each; only one of them fits beside.
    shelf, capacity = cluster(2, 4)
    state = _running(shelf, capacity, (queued("r", 4), 0.0))
    fillers = tuple(queued(f"x{i}", 2, arrived_s=1.0 + i) for i in range(2))
    state = replace(state, waiting=(queued("head", 6), *fillers))
    decisions = decide(state, shelf, 3.0)
    assert admitted(decisions) == ["x0"]
    assert _sentences(decisions)["x1"] == (
        "x1 waits behind head for 2 gpu in pool default: starting now would delay head."
    )


def test_a_gang_that_can_never_start_holds_nobody_up() -> None:
    shelf, capacity = cluster(2, 4)
    waiting = (
        queued("huge", 9),
        queued("wide", 1, 5, arrived_s=1.0),  # 5 of 8 devices, but on one node of 4
        queued("ok", 8, arrived_s=2.0),
    )
    decisions = decide(QueueState(capacity, waiting), shelf, 2.0)
    assert admitted(decisions) == ["ok"]
    said = _sentences(decisions)
    assert said["huge"] == (
        "huge can never start: it asks for 9 gpu, and the cluster has 8 at most."
    )
    assert said["wide"] == "wide waits for 5 gpu in pool default: 1 members have no node."


def test_a_gang_above_its_cap_can_never_start() -> None:
    shelf, capacity = cluster(2, 4)
    state = QueueState(capacity, (queued("j", 6, pool="a"),), pools=(pool("a", 2, 5),))
    assert _sentences(decide(state, shelf, 0.0))["j"] == (
        "j can never start: it asks for 6 gpu, and pool a may hold 5 at most."
    )


def test_who_is_far_behind_is_told_so() -> None:
    shelf, capacity = cluster(1, 4)
    waiting = tuple(queued(f"j{i}", 4, arrived_s=float(i)) for i in range(5))
    state = QueueState(capacity, waiting, policy=QueuePolicy(most_tried=2))
    said = _sentences(decide(state, shelf, 9.0))
    assert said["j2"] == (
        "j2 waits behind j1 for 4 gpu in pool default: the cluster has 0 of its 4 gpu free."
    )
    assert said["j4"] == (
        "j4 waits behind j1 for 4 gpu in pool default: 3 gangs of the pool are before it."
    )


def test_an_elastic_gang_starts_small_and_grows_when_there_is_room() -> None:
    # 8 devices, 5 taken: of 6 members (2 are enough) 3 start; when the 5 are free the others do.
    shelf, capacity = cluster(2, 4)
    state = _running(shelf, capacity, (queued("r", 5), 0.0))
    state = replace(state, waiting=(queued("e", 6, least=2),))
    decisions = decide(state, shelf, 1.0)
    assert [len(each.plan.placements) for each in decisions if isinstance(each, Admit)] == [3]
    state = run(state, shelf, decisions, 1.0)
    before = state.running[1].plan
    state = ended(state, "r", shelf)
    decisions = decide(state, shelf, 2.0)
    assert [type(each) for each in decisions] == [Grow]
    state = run(state, shelf, decisions, 2.0)
    after = state.running[0].plan
    assert len(after.placements) == 6 and not after.waiting
    assert after.placements[:3] == before.placements  # nobody moved


def test_an_elastic_gang_with_too_little_room_for_its_minimum_waits() -> None:
    shelf, capacity = cluster(1, 4)
    state = _running(shelf, capacity, (queued("r", 3), 0.0))
    state = replace(state, waiting=(queued("e", 4, least=2),))
    assert _sentences(decide(state, shelf, 1.0))["e"] == (
        "e waits for 2 gpu in pool default: the cluster has 1 of its 4 gpu free."
    )


def test_it_shrinks_before_it_is_preempted_and_by_no_more_than_needed() -> None:
    # 8 devices: e runs with 8 of at least 2. 3 are wanted: it keeps 5.
    shelf, capacity = cluster(2, 4)
    state = _running(shelf, capacity, (queued("e", 8, least=2), 0.0))
    state = replace(state, waiting=(queued("new", 3, priority=1),))
    decisions = decide(state, shelf, 1.0)
    assert isinstance(decisions[0], Shrink)
    assert [str(each) for each in decisions[0].members] == ["worker-5", "worker-6", "worker-7"]
    assert decisions[0].reason == ("3 of 8 members of e give way to new: priority 1 is above 0.")
    assert admitted(decisions) == ["new"]
    after = run(state, shelf.copy(), decisions, 1.0)
    assert [each.size for each in after.running] == [5, 3]
    # 7 are wanted: the minimum of 2 leaves 6 only, so all of it goes.
    state = replace(state, waiting=(queued("new", 7, priority=1),))
    assert [type(each) for each in decide(state, shelf, 1.0)] == [Preempt, Admit]


def test_growing_does_not_delay_the_head() -> None:
    # 8 devices: r holds 4, e 2 of 4 members, 2 free. The head wants 4 and gets them when r ends;
    # then 8 - 4 = 4 are left for e. With a head of 6 e stays as it is.
    shelf, capacity = cluster(2, 4)
    state = start(QueueState(capacity), shelf, queued("r", 4, preemptible=False), 0.0)
    state = start(state, shelf, queued("e", 4, least=2), 1.0, size=2)
    for wants, types in ((4, [Grow, Wait]), (6, [Wait])):
        waiting = (queued("head", wants, arrived_s=2.0),)
        decisions = decide(replace(state, waiting=waiting), shelf, 2.0)
        assert [type(each) for each in decisions] == types


def test_servers_and_one_of_each_role_stay_when_a_gang_is_small() -> None:
    members = [Member(MemberId("ps", i), "j", Resources(gpus=1)) for i in range(2)]
    members += [Member(MemberId("worker", i), "j", Resources(gpus=1)) for i in range(4)]
    members += [Member(MemberId("evaluator", 0), "j")]
    gang = Gang("j", tuple(members), Preset.SPREAD, duties=(("ps", Duty.SERVES),))
    small, charge = QueuedGang(gang, min_available=5).sized(5)
    assert [member.name for member in small.members] == [
        "ps-0",
        "ps-1",
        "worker-0",
        "worker-1",
        "evaluator-0",
    ]
    assert charge == (0, 0, 4000)


def test_a_gang_that_may_start_in_part_needs_one_member() -> None:
    gang = replace(queued("j", 3).gang, all_or_nothing=False)
    shelf, capacity = cluster(1, 2)
    decisions = decide(QueueState(capacity, (QueuedGang(gang),)), shelf, 0.0)
    assert isinstance(decisions[0], Admit) and len(decisions[0].plan.placements) == 2


def test_it_does_not_grow_against_its_own_rules() -> None:
    # Each worker on its own node: worker-0 is on n0, and all that is free is there.
    shelf = Shelf({"n0": 3, "n1": 1})
    rule = Rule(Relation.APART, ("worker",), ("worker",), required=True)
    whole = queued("e", 2, least=1)
    gang = replace(whole, gang=replace(whole.gang, rules=(rule,)))
    state = start(QueueState(Resources(gpus=4)), shelf, queued("r"), 0.0)  # the tightest: n1
    state = start(state, shelf, gang, 0.0, size=1)
    assert shelf.free == {"n0": {1, 2}, "n1": set()}
    assert decide(state, shelf, 1.0) == ()
    state = ended(state, "r", shelf)
    assert [type(each) for each in decide(state, shelf, 1.0)] == [Grow]


def test_decisions_must_be_applied_in_order() -> None:
    shelf, capacity = cluster(1, 4)
    state = _running(shelf, capacity, (queued("old", 4), 0.0))
    state = replace(state, waiting=(queued("new", 4, priority=1),))
    preempt, admit = decide(state, shelf, 1.0)
    with pytest.raises(AssertionError, match="is not free"):
        apply(state, admit, shelf.copy(), 1.0)
    state = apply(state, preempt, shelf, 1.0)
    state = apply(state, admit, shelf, 1.0)
    assert [each.job for each in state.running] == ["new"]
    assert [each.job for each in state.waiting] == ["old"]
    assert isinstance(shelf.held["new"][1], Plan)
