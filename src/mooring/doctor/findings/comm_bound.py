"""The exchange between members fills a network card."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.account import Activity
from mooring.doctor.facts import MemberFacts, NicFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.accounts import ACCOUNT
from mooring.doctor.findings.hubs import hubs
from mooring.doctor.findings.measured import EVENTS, names
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, DoesNotApply, Unknown, run_check

#: Of the time: gradients that are exchanged while the way back still computes fill a card for a
#: third of a step without costing much.
_FULL = 0.45
#: Of a rank's time, where it was looked at: less is hidden behind computing.
_LEAST_WAITING = 0.15
#: Of the fullest worker's card: a server's that is as full is what limits.
_SAME_BYTES = 0.8
_PAGE = CheckPage(
    why="In every step all members exchange their gradients, and the slowest card sets the pace: "
    "CPUs and GPUs wait while the bytes of a step go through it.",
    measured="Bytes through each node's card in short intervals while the job trained, by the "
    "fuller direction, against its limit; and, where the trainers were looked at, the share of "
    "their time in which they wait while bytes move. Reported when a card is in use for 45 % of "
    "the time. Cards in front of parameter servers have findings of their own.",
    fix="Fewer bytes for each example (a larger batch, gradient accumulation, 16 bits instead of "
    "32), a faster card, or fewer members. The finding says what each would bring.",
    not_when="The exchange is hidden behind computing: then the trainers do not wait for it.",
)
EXCHANGE_SNIPPET = """# 16 bits on the wire; the sums are then of 16 bits, too: compare the loss
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
model.register_comm_hook(None, default_hooks.fp16_compress_hook)

# or exchange after every fourth batch only
from contextlib import nullcontext
for number, (inputs, targets) in enumerate(loader):
    last = (number + 1) % 4 == 0
    with nullcontext() if last else model.no_sync():
        (loss_function(model(inputs), targets) / 4).backward()
    if last:
        optimizer.step()
        optimizer.zero_grad()
"""


@run_check(
    "comm-bound",
    "The exchange between members fills a network card",
    _PAGE,
    Causes(anywhere=frozenset({"ps-hot", "ps-nic", "ps-one-nic", "ps-whole-table"})),
)
def comm_bound(facts: RunFacts) -> Iterator[Found]:
    serving = {member.node for member in hubs(facts)}
    cards = [nic for nic in facts.nics if nic.busy is not None and nic.node not in serving]
    if len(facts.members) < 2:
        raise DoesNotApply("the job has one member only")
    if not cards:
        raise Unknown("no limit of a network card is known")
    full = [card for card in cards if (card.busy or 0.0) >= _FULL]
    if not full:
        return
    worst = max(full, key=lambda card: card.busy or 0.0)
    at_servers = [nic.busy or 0.0 for nic in facts.nics if nic.node in serving]
    if max(at_servers, default=0.0) >= _SAME_BYTES * (worst.busy or 0.0):
        # The same bytes fill the card of the server that they come from: see ps-nic.
        return
    behind = [member for member in facts.members if member.node in {card.node for card in full}]
    waiting = _waiting(facts)
    if waiting is not None and waiting < _LEAST_WAITING:
        return
    busy = min(1.0, worst.busy or 0.0)
    most = min(0.95, max(busy, waiting or 0.0))
    least = _least(facts, busy, waiting)
    turns = " (in turns: in, then out)" if worst.alternates else ""
    yield Found(
        says=f"the card of {worst.node} is in use {100 * busy:.0f} % of the time{turns}: members "
        "wait for bytes",
        evidence=tuple(_evidence(facts, cards, waiting)),
        remedy=_remedy(facts, least, most),
        confidence=Confidence.CERTAIN if waiting is not None else Confidence.LIKELY,
        weight=most,
        members=names(behind),
        gain=Gain.of_freed(least * 0.8, most, "a card of ten times the speed"),
    )


def _waiting(facts: RunFacts) -> float | None:
    """What the trainers' time has of waiting for bytes, or for those who wait for bytes."""
    if not facts.account.trainers or facts.servers:
        return None
    return facts.account.mean(Activity.NETWORK, Activity.OTHERS)


def _least(facts: RunFacts, busy: float, waiting: float | None) -> float:
    """What a free card frees at least: the rest may be hidden behind computing."""
    if waiting is not None:
        return min(busy, waiting)
    return max(
        0.0, min(busy, 1 - max((_computes(worker) for worker in facts.workers), default=0.0))
    )


def _computes(member: MemberFacts) -> float:
    """The part of the time for which it surely computes."""
    return min(1.0, (member.use.runnable or member.use.cpus) if member.use is not None else 0.0)


def _evidence(facts: RunFacts, cards: list[NicFacts], waiting: float | None) -> Iterator[Figure]:
    for one in sorted(cards, key=lambda card: -(card.busy or 0.0))[:4]:
        yield Figure(
            f"card of {one.node} in use",
            100 * (one.busy or 0.0),
            f"% of the time (in {one.received_mbps:.0f}, out {one.sent_mbps:.0f} of "
            f"{one.limit_mbps} Mbit/s)",
            EVENTS,
            tuple(member.name for member in facts.members if member.node == one.node),
        )
    if waiting is not None:
        yield Figure("trainers wait for bytes or others", 100 * waiting, "%", ACCOUNT)
    if facts.steps_per_s:
        yield Figure("a step takes", 1000 / facts.steps_per_s, "ms", EVENTS)


def _remedy(facts: RunFacts, least: float, most: float) -> Remedy:
    """What each of the ways would bring, from the share of a step that the exchange takes."""

    def times(part_left: float) -> str:
        low, high = (1 / (1 - share * (1 - part_left)) for share in (least * 0.8, most))
        return f"{low:.1f} to {high:.1f}×" if high - low >= 0.1 else f"{high:.1f}×"

    ways = [
        f"twice the batch or accumulating two batches {times(1 / 2)} the examples a second",
        f"four times {times(1 / 4)}",
        f"16 bits instead of 32 on the wire {times(1 / 2)}",
        f"a card of twice the speed {times(1 / 2)}",
    ]
    ranks = sum(member.processes for member in facts.workers)
    if ranks >= 2 and not facts.servers:
        # One process exchanges nothing and does a rank's part of the work.
        alone = 1 / ranks / max(0.05, 1 - least)
        word = "faster" if alone > 1 else "slower"
        ways.append(f"one process alone {alone:.1f}× ({word} than {ranks} ranks)")
    pytorch = facts.job.spec.framework == "pytorch"
    return Remedy(
        "move fewer bytes for each example, or take a faster card: " + "; ".join(ways),
        code=EXCHANGE_SNIPPET if pytorch else "",
        where="where the program wraps its model in DistributedDataParallel" if pytorch else "",
    )
