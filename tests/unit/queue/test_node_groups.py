"""Groups of nodes that belong to pools: when they move, when they stay, what holds meanwhile."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest
from shelf import cluster, pool, queued, run
from tape import POOLS, Tape, traces

from mooring.brain.queue import (
    Admit,
    Groups,
    Move,
    MovePolicy,
    PooledNodes,
    PoolSpec,
    Preempt,
    QueuedGang,
    QueueState,
    arrive,
    check_pools,
    decide,
    ended,
)
from mooring.model.resources import Resources


def gpus(number: int) -> Resources:
    return Resources(gpus=number)


POLICY = MovePolicy(short=1.0, spare=0.7, delay_s=300, rest_s=1000)
GROUPS = Groups((PooledNodes("g0", "a", gpus(4)), PooledNodes("g1", "a", gpus(4))), POLICY)
PAIR = (pool("a", 4), pool("b", 4))


def look(
    now_s: float, a: int, b: int, groups: Groups = GROUPS, pools: tuple[PoolSpec, ...] = PAIR
) -> tuple[Groups, list[tuple[str, str, str]]]:
    """Both pools want so many devices."""
    wanted = [queued(f"w-{name}", want, pool=name) for name, want in (("a", a), ("b", b)) if want]
    after, moves = groups.look(pools, wanted, (), now_s)
    return after, [(move.group, move.source, move.target) for move in moves]


def test_a_group_moves_only_after_a_while_of_need_and_of_plenty() -> None:
    # a owns 4 + 4 + 4 = 12 and needs 5; without one group 5 / 8 = 0.63 < 0.7: can be spared.
    # b owns 4 and needs 6: 6 / 4 = 1.5 > 1: short.
    groups, moves = look(0, 5, 6)
    assert moves == []
    assert groups.since.short == {"b": 0} and groups.since.spare == {"g0": 0, "g1": 0}
    groups, moves = look(299, 5, 6, groups)
    assert moves == []
    groups, moves = look(300, 5, 6, groups)
    assert moves == [("g0", "a", "b")]
    # Now 5 / 4 > 0.7 without g1: it stays. b owns 8 and needs 6: no longer short.
    # b could spare neither: 6 / 4 > 0.7.
    assert not groups.since.short and not groups.since.spare
    assert groups.groups[0] == PooledNodes("g0", "b", gpus(4), 300)
    assert [each.guaranteed.gpus for each in groups.guarantees(PAIR)] == [8, 8]


def test_a_move_says_why() -> None:
    groups, _ = look(0, 5, 6)
    wanted = [queued("w", 6, pool="b"), queued("v", 2, pool="a")]
    _, (move,) = groups.look(PAIR, wanted, (), 300)
    assert move.reason == (
        "nodes g0 move from pool a to pool b: b has been short for 300 s "
        "(it wants 150% of its guarantee), a wants 25% of what it keeps."
    )


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (5, 4),  # 4 / 4 = 1: not above
        (6, 6),  # 6 / 8 = 0.75: a cannot spare it
    ],
)
def test_no_need_or_no_plenty_no_move(a: int, b: int) -> None:
    groups, _ = look(0, a, b)
    assert look(10_000, a, b, groups)[1] == []


def test_without_a_policy_groups_stay() -> None:
    groups, _ = look(0, 0, 99, replace(GROUPS, policy=None))
    assert look(10_000, 0, 99, groups)[1] == []


def test_a_moment_of_calm_starts_the_wait_again() -> None:
    groups, _ = look(0, 5, 6)
    groups, _ = look(200, 5, 4, groups)
    groups, moves = look(400, 5, 6, groups)
    assert moves == [] and groups.since.short == {"b": 400}


def test_a_group_rests_after_a_move() -> None:
    # g0 came to b at 300. From 400 on a is short (9 / 8) and b could spare it (2 / 4 = 0.5).
    at_b = replace(GROUPS.groups[0], pool="b", moved_s=300.0)
    groups, _ = look(400, 9, 2, replace(GROUPS, groups=(at_b, GROUPS.groups[1])))
    assert look(1299, 9, 2, groups)[1] == []
    assert look(1300, 9, 2, groups)[1] == [("g0", "b", "a")]


def test_swinging_demand_moves_a_group_at_most_once_a_rest() -> None:
    groups, moved = GROUPS, 0
    for step in range(200):  # demand swings every 400 s for 20 000 s
        high = (step // 4) % 2 == 0
        groups, moves = look(100.0 * step, 2, 9 if high else 1, groups)
        moved += len(moves)
    assert 0 < moved <= 2 * (20_000 // 1000 + 1)


@pytest.mark.parametrize(("short", "spare"), [(0.5, 0.5), (2.0, 1.1), (1.0, -0.1)])
def test_thresholds_must_leave_a_gap(short: float, spare: float) -> None:
    with pytest.raises(ValueError, match="spare"):
        MovePolicy(short=short, spare=spare)


def test_a_cap_is_never_raised_by_a_group() -> None:
    # b owns 4 and may hold 6: with a group of 4 it would own 8. It stays short.
    capped = (pool("a", 4), pool("b", 4, 6))
    groups, _ = look(0, 0, 6, pools=capped)
    assert look(1000, 0, 6, groups, capped)[1] == []
    problems = check_pools(GROUPS.guarantees((pool("a", 4, 10), pool("b", 4))), gpus(99))
    assert [problem.path for problem in problems] == ["pools.a.cap"]


def test_a_group_that_does_not_help_stays() -> None:
    # b is short of devices; the first group has CPUs only.
    groups = Groups((PooledNodes("g0", "a", Resources(8000)), *GROUPS.groups[1:]), POLICY)
    groups, _ = look(0, 0, 6, groups)
    assert look(300, 0, 6, groups)[1] == [("g1", "a", "b")]


def test_the_owner_of_more_takes_back_what_was_lent() -> None:
    # 12 devices: a owns g0 and g1 (8) and uses 2; b owns 4 and borrows 3 more, up to its cap.
    # c has nothing, wants 4, and 3 are free: it takes g0 after the delay (a keeps 2 / 4 = 50 %),
    # and b1 gives back what is now c's. b could not take g0: 4 + 4 is above 7.
    shelf, capacity = cluster(3, 4)
    pools = (pool("a", 0), pool("b", 4, 7), pool("c", 0))
    groups = Groups(GROUPS.groups, replace(POLICY, delay_s=10.0))
    arrivals = [
        queued("a0", 2, pool="a", arrived_s=0.0),
        queued("b0", 4, pool="b", arrived_s=1.0),
        queued("b1", 3, pool="b", arrived_s=2.0),
        queued("c0", 4, pool="c", arrived_s=3.0),
    ]
    outcome = arrive(arrivals, shelf, capacity, pools, groups)
    move, *_ = (each for each in outcome.story if isinstance(each, Move))
    after = outcome.story[outcome.story.index(move) :]
    assert [type(each) for each in after] == [Move, Preempt, Admit]
    assert (move.source, move.target) == ("a", "c")
    assert {each.job for each in outcome.running} == {"a0", "b0", "c0"}
    assert [each.guaranteed.gpus for each in outcome.pools] == [4, 4, 4]


def _groups(tape: Tape) -> Groups:
    """Up to three groups of four devices each."""
    groups = tuple(
        PooledNodes(f"g{number}", tape.one_of(POOLS), gpus(4)) for number in range(tape.number(4))
    )
    policy = MovePolicy(
        short=tape.one_of((1.0, 1.5)),
        spare=tape.one_of((0.7, 0.3)),
        delay_s=tape.one_of((0.0, 20.0, 100.0)),
        rest_s=tape.one_of((0.0, 50.0, 400.0)),
    )
    return Groups(groups, policy)


def _pools(tape: Tape, groups: Groups) -> tuple[PoolSpec, ...]:
    """With caps that are not below what the pool begins with."""
    found = []
    for name in POOLS:
        own = sum(each.capacity.gpus for each in groups.groups if each.pool == name)
        more = tape.one_of((None, 1, 4))
        found.append(pool(name, 0, None if more is None else own + more))
    return tuple(found)


@pytest.mark.slow
@traces(1500, 60)
def test_quota_holds_and_groups_rest_at_every_instant(tape: Tape) -> None:
    shelf, capacity = cluster(4, 4)
    groups = _groups(tape)
    pools = _pools(tape, groups)
    state = QueueState(capacity, pools=groups.guarantees(pools))
    last: dict[str, float] = {}
    numbers, now_s = count(), 0.0
    while tape.left:
        gangs = tuple(tape.gang(f"j{next(numbers)}", now_s) for _ in range(tape.number(3)))
        state = replace(state, waiting=state.waiting + gangs)
        groups, moves = groups.look(pools, state.waiting, state.running, now_s)
        state = replace(state, pools=groups.guarantees(pools))
        for move in moves:
            assert groups.policy is not None
            assert now_s - last.get(move.group, -1e9) >= groups.policy.rest_s
            last[move.group] = now_s
        _check(state)
        for decision in decide(state, shelf, now_s):
            state = run(state, shelf, (decision,), now_s)
            _check(state)
        now_s += tape.one_of((1.0, 10.0, 100.0))
        for _ in range(tape.number(3)):
            if state.running:
                state = ended(state, tape.one_of(state.running).job, shelf)


def _check(state: QueueState) -> None:
    own = {spec.name: spec.guaranteed.gpu_millis for spec in state.pools}
    use, firm = dict.fromkeys(POOLS, 0), dict.fromkeys(POOLS, 0)
    for each in state.running:
        use[each.pool] += each.charge[2]
        firm[each.pool] += 0 if each.queued.preemptible else each.charge[2]
    assert sum(own.values()) <= state.capacity.gpu_millis
    for spec in state.pools:
        if spec.cap is not None:
            assert spec.guaranteed.gpu_millis <= spec.cap.gpu_millis
            assert use[spec.name] <= spec.cap.gpu_millis
    if any(own.values()):
        assert sum(max(own[p], firm[p]) for p in POOLS) <= state.capacity.gpu_millis


@pytest.mark.slow
@traces(500, 20)
def test_steady_demand_ends_all_moves_and_none_goes_back(tape: Tape) -> None:
    """Without a rest and without a delay, so that only the thresholds are left."""
    groups = _groups(tape)
    assert groups.policy is not None
    groups = replace(groups, policy=replace(groups.policy, delay_s=0.0, rest_s=0.0))
    pools = _pools(tape, groups)
    wanted: list[QueuedGang] = [
        queued(f"w{number}", 1 + tape.number(12), pool=tape.one_of(POOLS)) for number in range(4)
    ]
    been = {each.name: [each.pool] for each in groups.groups}
    moves: tuple[Move, ...] = ()
    for second in range(20):
        groups, moves = groups.look(pools, wanted, (), float(second))
        for move in moves:
            assert move.target not in been[move.group]
            been[move.group].append(move.target)
    assert not moves
