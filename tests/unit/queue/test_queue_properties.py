"""What holds at every instant of every trace of arrivals, ends, preemptions and sizes."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, count

import pytest
from shelf import Shelf, admitted, cluster, pool, queued, run, start, yielding
from tape import POOLS, Tape, traces

from mooring.brain.queue import (
    Admit,
    Decision,
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
from mooring.brain.queue.order import standing
from mooring.brain.queue.pools import PoolLedger
from mooring.model.plan import Plan

pytestmark = pytest.mark.slow


def _check(state: QueueState, shelf: Shelf) -> None:
    assert set(shelf.held) == {each.job for each in state.running}
    jobs = [each.job for each in (*state.waiting, *state.running)]
    assert len(jobs) == len(set(jobs))
    for each in state.running:
        gang, plan = shelf.held[each.job]
        assert each.queued.least <= len(plan.placements) == len(gang.members)
        if each.queued.min_available is None:
            assert gang.members == each.queued.gang.members
    use: dict[str, int] = {}
    for each in state.running:
        use[each.pool] = use.get(each.pool, 0) + each.charge[2]
    for spec in state.pools:
        if spec.cap is not None:
            assert use.get(spec.name, 0) <= spec.cap.gpu_millis
    # What is held for good leaves everybody else's guarantee possible.
    if any(spec.guaranteed.gpus for spec in state.pools):
        own = {spec.name: spec.guaranteed.gpu_millis for spec in state.pools}
        firm = dict.fromkeys(POOLS, 0)
        for each in state.running:
            firm[each.pool] += 0 if each.queued.preemptible else each.charge[2]
        assert sum(max(own.get(p, 0), firm[p]) for p in POOLS) <= state.capacity.gpu_millis


def _check_lists(state: QueueState, decisions: tuple[Decision, ...]) -> None:
    """Everybody is answered once; who gives way does so for somebody who starts right after."""
    starts = admitted(decisions)
    waits = [each.job for each in decisions if isinstance(each, Wait)]
    assert sorted(starts + waits) == sorted(each.job for each in state.waiting)
    for position, each in enumerate(decisions):
        if isinstance(each, Preempt | Shrink):
            after = decisions[position:]
            nearest = next(later for later in after if not isinstance(later, Preempt | Shrink))
            assert isinstance(nearest, Admit)
            assert nearest.job == each.for_job
        if isinstance(each, Wait):
            assert each.sentence.endswith(".") and "\n" not in each.sentence
    running = {each.job: each for each in state.running}
    waiting = {each.job: each for each in state.waiting}
    for each in decisions:
        if isinstance(each, Preempt | Shrink):
            victim, winner = running[each.job], waiting[each.for_job]
            assert victim.queued.preemptible
            same = victim.pool == winner.pool or not state.pools
            if same and any(spec.guaranteed.gpus or spec.cap for spec in state.pools):
                assert winner.priority > standing(victim, state.policy)


def _step(state: QueueState, shelf: Shelf, now_s: float) -> QueueState:
    decisions = decide(state, shelf, now_s)
    _check_lists(state, decisions)
    for decision in decisions:
        state = apply(state, decision, shelf, now_s)
        _check(state, shelf)
    return state


@traces(5000, 56)
def test_capacity_quota_and_gangs_hold_at_every_instant(tape: Tape) -> None:
    shelf, state = tape.cluster()
    now_s = 0.0
    numbers = count()
    while tape.left:
        for _ in range(tape.number(4)):
            gang = tape.gang(f"j{next(numbers)}", now_s)
            state = replace(state, waiting=(*state.waiting, gang))
        state = _step(state, shelf, now_s)
        now_s += tape.one_of((0.0, 1.0, 10.0, 100.0))
        for _ in range(tape.number(3)):
            if state.running:
                state = ended(state, tape.one_of(state.running).job, shelf)


@traces(500, 64)
def test_the_same_input_gives_the_same_decisions_and_is_left_alone(tape: Tape) -> None:
    shelf, state = tape.cluster()
    numbers = count()
    decisions: tuple[Decision, ...] = ()
    while tape.left:
        gangs = tuple(tape.gang(f"j{next(numbers)}", 0.0) for _ in range(4))
        state = run(replace(state, waiting=state.waiting + gangs), shelf, decisions, 0.0)
        kept = shelf.copy()
        decisions = decide(state, shelf, 0.0)
        assert shelf.same(kept)
        assert decide(state, shelf.copy(), 0.0) == decisions
        # In which order the gangs are listed means nothing either.
        listed = replace(state, waiting=state.waiting[::-1], running=state.running[::-1])
        assert decide(listed, shelf, 0.0) == decisions
        silent = tuple(each for each in decisions if not isinstance(each, Wait))
        assert decide(state, shelf, 0.0, explain=False) == silent


@traces(700, 60)
def test_decisions_settle_without_anything_else_happening(tape: Tape) -> None:
    """Nobody takes turns in preempting: after a few rounds there is nothing more to do."""
    shelf, state = tape.cluster()
    number = 0
    while tape.left:
        gang = tape.gang(f"j{number}", 0.0)
        number += 1
        state = replace(state, waiting=(*state.waiting, gang))
        state = run(state, shelf, decide(state, shelf, 0.0), 0.0)
    for _ in range(2 * number + 2):
        decisions = decide(state, shelf, 0.0)
        if all(isinstance(each, Wait) for each in decisions):
            return
        state = run(state, shelf, decisions, 0.0)
    raise AssertionError(decisions)


@traces(1200, 28)
def test_a_pool_gets_its_guarantee_back_in_one_round(tape: Tape) -> None:
    """Members of one device each: whatever the sums allow can be placed.

    Guarantees are at most 3 x 5 = 15 of the 4 x 4 = 16 devices.
    """
    shelf, capacity = cluster(4, 4)
    pools = []
    for name in POOLS[: 2 + tape.number(2)]:
        own = tape.number(6)
        pools.append(pool(name, own, own + tape.number(12)))
    owner, asks = tape.one_of(POOLS), 1 + tape.number(5)
    state = QueueState(capacity, pools=tuple(pools))
    now_s = 0.0
    while tape.left:
        members, priority, in_pool = 1 + tape.number(6), tape.one_of((0, 10)), tape.one_of(POOLS)
        gang = queued(f"o{now_s:.0f}", members, 1, priority, in_pool, now_s)
        state = replace(state, waiting=(*state.waiting, gang))
        state = run(state, shelf, decide(state, shelf, now_s), now_s)
        now_s += 1.0
    head = queued("owner", asks, 1, 10_000, owner, now_s)
    state = replace(state, waiting=(*state.waiting, head))
    own = next((spec.guaranteed.gpu_millis for spec in pools if spec.name == owner), 0)
    used = sum(each.charge[2] for each in state.running if each.pool == owner)
    decisions = decide(state, shelf, now_s)
    if used + 1000 * asks <= own:
        assert "owner" in admitted(decisions)
    after = run(state, shelf, decisions, now_s)
    lost = {each.job for each in decisions if isinstance(each, Preempt)}
    for spec in pools:  # a pool that gives back owed something until its last victim went
        sizes = [e.charge[2] for e in state.running if e.job in lost and e.pool == spec.name]
        held = sum(each.charge[2] for each in after.running if each.pool == spec.name)
        if sizes and spec.name != owner:
            assert held + max(sizes) > spec.guaranteed.gpu_millis


@traces(1000, 24)
def test_the_fewest_give_way_and_only_for_a_gang_that_then_fits(tape: Tape) -> None:
    shelf, state = tape.cluster()
    capped = (pool("default", 0, state.capacity.gpus),)
    state = replace(state, pools=tape.one_of(((), capped)), policy=QueuePolicy(ageing_per_s=0.0))
    winner = queued("head", *tape.size(), priority=3)
    while tape.left and len(state.running) < 7:
        number = len(state.running)
        gang = queued(f"j{number}", *tape.size(), priority=tape.one_of((0, 5)))
        if isinstance(shelf.place(gang.gang), Plan):
            state = start(state, shelf, gang, float(number))
    state = replace(state, waiting=(winner,))
    decisions = decide(state, shelf, 10.0)
    victims = yielding(decisions)
    fewest = _fewest(shelf, winner, [e.job for e in state.running if e.queued.priority < 3])
    if fewest is None:
        assert not victims and not admitted(decisions)
    else:
        assert admitted(decisions) == ["head"]
        assert len(victims) == fewest


def _fewest(shelf: Shelf, winner: QueuedGang, lower: list[str]) -> int | None:
    for number in range(len(lower) + 1):
        for chosen in combinations(lower, number):
            trial = shelf.copy()
            for job in chosen:
                trial.release(job)
            if isinstance(trial.place(winner.gang), Plan):
                return number
    return None


@traces(500, 60)
def test_everybody_who_can_run_does_so_in_the_end(tape: Tape) -> None:
    """A finite workload: in each round one gang ends. Preempted gangs start again."""
    shelf, state = tape.cluster()
    ledger = PoolLedger(state.pools, state.capacity)
    ends = tape.number(256)
    possible = set()
    while tape.left:
        gang = tape.gang(f"j{len(state.waiting)}", 0.0)
        least, ask = gang.sized(gang.least)
        alone = isinstance(shelf.place(least), Plan) and not ledger.never(gang.pool, ask)
        if alone and (gang.preemptible or not ledger.binds_guarantees(gang.pool, ask)):
            possible.add(gang.job)
        state = replace(state, waiting=(*state.waiting, gang))
    done: set[str] = set()
    for now in range(3 * len(state.waiting) + 3):
        state = run(state, shelf, decide(state, shelf, 10.0 * now), 10.0 * now)
        if state.running:
            job = state.running[ends * (now + 1) % len(state.running)].job
            done.add(job)
            state = ended(state, job, shelf)
    assert done == possible


@traces(50, 3)
def test_a_stream_of_better_gangs_delays_nobody_for_ever(tape: Tape) -> None:
    """One point each second; the others are `better` points above it.

    Who arrives more than `better` seconds later comes after it. Those before it run for 5 s
    each: there are at most burst x (better + 1) of them on 4 devices.
    """
    members, better, burst = 1 + tape.number(4), tape.number(9), 1 + tape.number(2)
    shelf, capacity = cluster(1, 4)
    state = QueueState(capacity, policy=QueuePolicy(ageing_per_s=1.0))
    state = replace(state, waiting=(queued("low", members, preemptible=False),))
    numbers = count()
    bound_s = better + 1 + 5 * burst * (better + 1) + 5
    for now in range(bound_s + 1):
        for each in state.running:
            if each.started_s + 5 <= now:
                state = ended(state, each.job, shelf)
        new = tuple(
            queued(f"j{next(numbers)}", 2, 1, better, arrived_s=float(now), expected_s=5.0)
            for _ in range(burst)
        )
        state = replace(state, waiting=state.waiting + new)
        state = run(state, shelf, decide(state, shelf, float(now), explain=False), float(now))
        if any(each.job == "low" for each in state.running):
            return
    raise AssertionError(f"not started within {bound_s} s")


@traces(1000, 30)
def test_backfill_never_delays_the_head(tape: Tape) -> None:
    """The head starts at the same moment with and without the others, when estimates hold."""
    shelf, state = tape.cluster()
    state = replace(state, pools=())
    head = queued("head", *tape.size(), priority=1, preemptible=False)
    fillers = []
    while tape.left:
        expected_s = tape.one_of((7.0, 3.0, 12.0, 30.0))
        gang = queued("x", *tape.size(), preemptible=False, expected_s=expected_s)
        name = f"j{len(fillers)}{len(state.running)}"
        gang = replace(gang, gang=replace(gang.gang, job=name))
        if tape.number(2) and isinstance(shelf.place(gang.gang), Plan):
            state = start(state, shelf, gang, 0.0)
        else:
            fillers.append(gang)

    alone = _head_starts(replace(state, waiting=(head,)), shelf.copy())
    among = _head_starts(replace(state, waiting=(head, *fillers)), shelf.copy())
    assert among == alone


def _head_starts(state: QueueState, shelf: Shelf) -> float | None:
    now_s = 0.0
    while True:
        state = run(state, shelf, decide(state, shelf, now_s), now_s)
        if any(each.job == "head" for each in state.running):
            return now_s
        ends = [end for each in state.running if (end := each.end_s(now_s)) is not None]
        if not ends:
            return None
        now_s = min(ends)
        for each in state.running:
            if each.end_s(now_s) == now_s:
                state = ended(state, each.job, shelf)


@traces(600, 40)
def test_a_head_of_unknown_start_waits_for_no_newcomer(tape: Tape) -> None:
    """Nothing is known of the ends. Once all that ran before have ended the head runs."""
    shelf, state = tape.cluster()
    state = replace(state, pools=())
    head = queued("head", *tape.size(), arrived_s=-200.0)
    if not isinstance(shelf.place(head.gang), Plan):
        return
    others = []
    while tape.left:
        gang = queued(f"j{len(others)}-{len(state.running)}", *tape.size())
        if tape.number(2) and isinstance(shelf.place(gang.gang), Plan):
            state = start(state, shelf, gang, -100.0 + len(state.running))
        else:
            others.append(gang)
    before = [each.job for each in state.running]
    state = replace(state, waiting=(head, *others))
    for now in range(len(before) + 1):
        state = run(state, shelf, decide(state, shelf, float(now)), float(now))
        if any(each.job == "head" for each in state.running):
            return
        job = before.pop(tape.number(len(before)) if now % 2 else 0)
        state = ended(state, job, shelf)
    raise AssertionError("the head has not started")


@traces(200, 9)
def test_four_jobs_on_three_nodes_never_lock_each_other_out(tape: Tape) -> None:
    """3 nodes x 4 devices = 12; 4 jobs x 4 workers = 16: three run, one waits, then it runs.

    They arrive in any order, together or one by one, with rounds in between or not.
    """
    shelf, capacity = cluster(3, 4)
    state = QueueState(capacity)
    names = ["j0", "j1", "j2", "j3"]
    for now in range(4):
        gang = queued(names.pop(tape.number(len(names))), 4, arrived_s=float(now))
        state = replace(state, waiting=(*state.waiting, gang))
        if tape.number(2):
            state = _step(state, shelf, float(now))
            assert len(state.running) == min(3, now + 1)
    state = _step(state, shelf, 4.0)
    assert len(state.running) == 3 and len(state.waiting) == 1
    assert all(not free for free in shelf.free.values())
    state = ended(state, tape.one_of(state.running).job, shelf)
    state = _step(state, shelf, 5.0)
    assert len(state.running) == 3 and not state.waiting


def test_there_are_ten_thousand_traces() -> None:
    assert sum(getattr(test, "number_of_traces", 0) for test in globals().values()) >= 10_000
