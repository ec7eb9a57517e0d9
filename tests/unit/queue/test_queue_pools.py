"""Guarantees, borrowing, caps, weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shelf import admitted, cluster, gpus, pool, queued, run, start, yielding

from mooring.brain.queue import Admit, PoolSpec, QueueState, Wait, decide
from mooring.brain.queue.pools import PoolLedger, check_pools, demand
from mooring.model.resources import Resources


def test_a_pool_borrows_up_to_its_cap_and_not_beyond() -> None:
    # 12 devices; ads owns 4 and may hold 8: the first two fours start, the third waits although
    # 12 - 8 = 4 devices are free.
    shelf, capacity = cluster(3, 4)
    waiting = tuple(queued(f"j{i}", 4, pool="ads", arrived_s=float(i)) for i in range(3))
    state = QueueState(capacity, waiting, pools=(pool("ads", 4, 8), pool("nlp", 4)))
    decisions = decide(state, shelf, 10.0)
    assert decisions[0] == Admit("j0", decisions[0].plan, None)
    assert decisions[1] == Admit("j1", decisions[1].plan, gpus(4))
    assert isinstance(decisions[2], Wait)
    assert decisions[2].sentence == (
        "j2 waits for 4 gpu in pool ads: the pool has 0 of its 8 gpu left."
    )


def test_the_owner_takes_back_what_was_borrowed_in_the_same_round() -> None:
    # 12 devices: nlp owns 4, holds 12, so 8 are borrowed. ads owns 4 and wants 4: one gang of nlp
    # goes, the one that started last. Its own 4 are not touched: it still holds 8.
    shelf, capacity = cluster(3, 4)
    state = QueueState(capacity, pools=(pool("ads", 4), pool("nlp", 4)))
    for i in range(3):
        state = start(state, shelf, queued(f"n{i}", 4, pool="nlp", priority=50), float(i))
    state = replace(state, waiting=(queued("a", 4, pool="ads"),))
    decisions = decide(state, shelf, 3.0)
    assert yielding(decisions) == ["n2"]
    assert admitted(decisions) == ["a"]
    assert decisions[0].reason == (
        "all members of n2 give back to a what pool nlp has borrowed from pool ads."
    )


def test_nobody_gives_back_what_is_its_own() -> None:
    # nlp owns 8 and holds 8; ads owns 4 and holds 4; a second gang of ads would borrow.
    shelf, capacity = cluster(3, 4)
    state = QueueState(capacity, pools=(pool("ads", 4), pool("nlp", 8)))
    for i, name in enumerate(["nlp", "nlp", "ads"]):
        state = start(state, shelf, queued(f"r{i}", 4, pool=name), 0.0)
    state = replace(state, waiting=(queued("a", 4, pool="ads"),))
    assert admitted(decide(state, shelf, 1.0)) == []
    # Not even with a higher priority: that counts in its own pool, and there it does.
    urgent = replace(state, waiting=(queued("a", 4, pool="ads", priority=99),))
    assert yielding(decide(urgent, shelf, 1.0)) == ["r2"]


def test_a_claim_to_a_guarantee_goes_before_those_who_borrow() -> None:
    # 4 devices are free; the older gang of nlp (owns 0) would borrow them, ads owns them.
    shelf, capacity = cluster(1, 4)
    waiting = (
        queued("n", 4, pool="nlp", priority=100),
        queued("a", 4, pool="ads", arrived_s=5.0),
    )
    state = QueueState(capacity, waiting, pools=(pool("ads", 4), pool("nlp")))
    assert admitted(decide(state, shelf, 5.0)) == ["a"]


def test_what_is_left_is_shared_by_weight() -> None:
    # 12 devices that nobody owns, weights 2 and 1: borrowed ÷ weight decides whose turn it is.
    #   a 0/2 b 0/1 -> a (name)    a 1/2 b 0/1 -> b    a 1/2 b 1/1 -> a    a 2/2 b 1/1 -> a (name)
    #   a 3/2 b 1/1 -> b           and so on: 8 for a, 4 for b.
    shelf, capacity = cluster(3, 4)
    names = [(name, i) for name in "ab" for i in range(12)]
    waiting = tuple(queued(f"{name}{i:02}", pool=name) for name, i in names)
    pools = (pool("a", 0, 12, weight=2), pool("b", 0, 12, weight=1))
    state = QueueState(capacity, waiting, pools=pools)
    started = admitted(decide(state, shelf, 0.0))
    assert "".join(job[0] for job in started) == "abaabaabaaba"


def test_a_gang_that_must_not_be_preempted_borrows_only_what_nobody_owns() -> None:
    # 12 devices, 4 + 4 owned: 4 are nobody's. Pool c may take these for good, but not more.
    shelf, capacity = cluster(3, 4)
    pools = (pool("a", 4), pool("b", 4))
    waiting = (
        queued("first", 4, pool="c", preemptible=False),
        queued("second", 4, pool="c", preemptible=False, arrived_s=1.0),
        queued("third", 4, pool="c", arrived_s=2.0),
    )
    decisions = decide(QueueState(capacity, waiting, pools=pools), shelf, 2.0)
    # The third may be preempted, and the second waits for the end of the first, not for it.
    assert admitted(decisions) == ["first", "third"]
    waits = [each.sentence for each in decisions if isinstance(each, Wait)]
    assert waits[0] == (
        "second waits for 4 gpu in pool c: it must not be preempted, and more of what its pool "
        "can borrow is guaranteed to others."
    )


def test_what_was_borrowed_returns_with_the_end_of_the_job() -> None:
    ledger = PoolLedger((pool("a", 4, 8),), gpus(12))
    shelf, capacity = cluster(3, 4)
    state = start(QueueState(capacity), shelf, queued("j", 6, pool="a"), 0.0)
    ledger.add(state.running[0])
    assert ledger.share("a") == pytest.approx(2 / 12)  # 6 - 4 of 12
    assert ledger.borrows("a", (0, 0, 1))
    ledger.remove(state.running[0])
    assert ledger.use("a") == (0, 0, 0)
    assert ledger.share("a") == 0


@pytest.mark.parametrize(
    ("use", "ask", "within", "over", "borrowed"),
    [
        # owns 4 gpu, may hold 8
        (0, 4, True, False, None),
        (1, 4, False, False, 1),  # 1 + 4 = 5, one beyond 4
        (4, 4, False, False, 4),
        (6, 2, False, False, 2),  # 8, just the cap
        (6, 3, False, True, 3),  # 9
    ],
)
def test_arithmetic(use: int, ask: int, within: bool, over: bool, borrowed: int | None) -> None:
    ledger = PoolLedger((pool("a", 4, 8),), gpus(100))
    if use:
        shelf, capacity = cluster(1, use)
        ledger.add(start(QueueState(capacity), shelf, queued("j", use, pool="a"), 0).running[0])
    # CPUs and memory are in no pool's guarantee or cap: nobody counts them.
    amount = (16_000, 1 << 40, 1000 * ask)
    assert ledger.within_guarantee("a", amount) is within
    assert ledger.over_cap("a", amount) is over
    assert ledger.borrowed_for("a", amount) == (None if borrowed is None else gpus(borrowed))


def test_promises_that_cannot_be_kept_are_named() -> None:
    pools = (pool("a", 8, 4), pool("b", 8), pool("b", 0))
    assert [str(each) for each in check_pools(pools, gpus(12))] == [
        "pools.b: found the name twice; accepted: one pool of each name",
        "pools.a.cap: found 4 gpu; accepted: at least the guarantee (8 gpu)",
        "pools: found guarantees of 16 gpu in all; accepted: guarantees of 12 gpu in all, "
        "which is what the cluster has",
    ]
    assert check_pools((pool("a", 8, 12), pool("b", 4)), gpus(12)) == ()
    with pytest.raises(ValueError, match="weight"):
        PoolSpec("a", weight=0)


def test_demand_counts_what_is_held_and_what_is_wanted() -> None:
    shelf, capacity = cluster(3, 4)
    state = start(QueueState(capacity), shelf, queued("r", 4, pool="a", least=2), 0.0, 2)
    waiting = (queued("w", 3, pool="a"), queued("x", 3, pool="b"))
    assert demand("a", waiting, state.running) == gpus(7)


def test_cpu_is_divided_too_when_a_pool_says_so() -> None:
    ledger = PoolLedger((PoolSpec("a", Resources(8000), Resources(8000)),), Resources(16_000, 0, 4))
    assert ledger.divided == (0,)
    assert ledger.over_cap("a", (9000, 0, 1))
    assert not ledger.over_cap("a", (8000, 0, 99))


def test_run_helper_applies_in_order() -> None:
    shelf, capacity = cluster(1, 4)
    state = QueueState(capacity, (queued("j", 4),))
    state = run(state, shelf, decide(state, shelf, 0.0), 0.0)
    assert [each.job for each in state.running] == ["j"] and not state.waiting
