"""Steps so small that what each of them costs anyway outweighs their work."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.account import Activity, RankAccount
from mooring.account.types import COMPUTING
from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import ACCOUNT, trained
from mooring.doctor.findings.exchanging import Exchange, exchange_of
from mooring.doctor.findings.measured import SAMPLES
from mooring.doctor.findings.trainers import at_least
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, Unknown, run_check

#: A step that is over sooner is mostly calls: a thousand of Python's take a millisecond or two.
_SHORT_S = 0.03
#: Examples of one process in a step.
_FEW = 4.0
_TIMES = 8
#: The optimizer's part of a step: with batches of some dozen examples it is a tenth or less.
_FIXED = 0.17
#: As the frameworks call them.
_OF_OPTIMIZERS = frozenset({"step", "zero_grad", "clip_grad_norm_", "clip_grad_value_"})
_PAGE = CheckPage(
    why="Every step costs the same calls of Python, the same round trips between members and the "
    "same small operations, however few examples are in it.",
    measured="Three signs. A process that takes at most four examples a step and is done with them "
    "within 30 ms, computing most of that time. Or members that spend most of a short step waiting "
    "for each other although no card is full, nobody is late and CPUs are free. Or, where the "
    "examples are not reported, an optimizer that surely takes a sixth of a step: its work is "
    "the same for any batch.",
    fix="A larger batch (and a learning rate that goes with it), or several steps in one call "
    "(`steps_per_execution`, `tf.function` around a loop).",
    not_when="The batch is part of the method: online learning, reinforcement learning.",
)


@run_check(
    "batch-small",
    "Steps are too small for what each of them costs",
    _PAGE,
    Causes(
        anywhere=frozenset({"cpu-threads", "comm-bound"}),
        same_member=frozenset({"input-bound", "own-code", "program-waits", "straggler"}),
    ),
)
def batch_small(facts: RunFacts) -> Iterator[Found]:
    ranks = trained(facts)
    known = [rank.step_s for rank in ranks if rank.step_s]
    if not known:
        raise Unknown("fewer than two steps were reported")
    step_s = min(known)
    exchange = exchange_of(facts)
    examples = _examples(facts, step_s)
    computing = min(rank.share(*COMPUTING, Activity.CPU_WAIT) for rank in ranks)
    fixed = min(_fixed(rank) for rank in ranks)
    few = examples is not None and examples <= _FEW and step_s <= _SHORT_S
    if few and computing >= 0.5:
        yield _found(facts, exchange, step_s, examples, computing)
    elif exchange is not None and step_s <= _SHORT_S:
        yield _found(facts, exchange, step_s, examples, exchange.waiting)
    elif examples is None and fixed >= _FIXED:
        yield _found(facts, exchange, step_s, None, min(1.0, 3 * fixed), fixed)


def _found(
    facts: RunFacts,
    exchange: Exchange | None,
    step_s: float,
    examples: float | None,
    share: float,
    fixed: float | None = None,
) -> Found:
    count = f" of {examples:.0f} examples" if examples is not None else ""
    # Of a small step nobody knows which part grows with the batch: half at least stays.
    waiting = exchange.waiting if exchange is not None else 0.0
    least, most = max(0.2, waiting * (1 - 1 / _TIMES) / 2), share * (1 - 1 / _TIMES)
    evidence = [Figure("a step takes", 1000 * step_s, "ms", SAMPLES)]
    if examples is not None:
        evidence.append(Figure("examples a step and process", examples, "", SAMPLES))
    if fixed is not None:
        evidence.append(Figure("of it the optimizer", 100 * fixed, "%", ACCOUNT))
    if exchange is not None:
        evidence.append(Figure("waits for others in it", 100 * waiting, "%", ACCOUNT))
    return Found(
        says=f"a step{count} takes {1000 * step_s:.1f} ms: most of it would be the same with a "
        "larger batch",
        evidence=tuple(evidence),
        remedy=Remedy(
            f"make the batch {_TIMES} times as large, with a learning rate that goes with it; "
            "compare the loss after the same number of examples",
            where="where the program makes its batches",
        ),
        confidence=Confidence.LIKELY,
        weight=min(0.9, most),
        members=tuple(dict.fromkeys(trainer.member for trainer in facts.account.trainers)),
        gain=Gain.of_freed(least, most, f"examples a second with a batch {_TIMES} times as large"),
    )


def _fixed(rank: RankAccount) -> float:
    """What the optimizer takes: the same for one example as for a thousand."""
    share = sum(line.share for line in rank.lines if _OF_OPTIMIZERS.intersection(line.calls))
    return at_least(min(1.0, share), rank.looks)


def _examples(facts: RunFacts, step_s: float) -> float | None:
    """Of one process in one step; None where they are not reported."""
    rates = [
        member.examples_per_s / max(1, member.processes)
        for member in facts.members
        if member.examples_per_s
    ]
    # A member that reports for all is the only one that reports.
    if not rates or len(rates) < len(facts.workers):
        return None
    return min(rates) * step_s
