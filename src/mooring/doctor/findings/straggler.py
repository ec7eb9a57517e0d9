"""One worker is slower than its peers, or makes them wait.

Where the trainers were looked at, their accounts say who waits for whom and what that one does
meanwhile (straggler_account.py); rates and CPU time tell the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from mooring.doctor.facts import MemberFacts, RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import PLAN, SAMPLES, used
from mooring.doctor.findings.straggler_account import IDLE, LATE_BECAUSE, waited_for
from mooring.doctor.registry import CheckPage, Unknown, run_check

#: Workers of healthy runs on a busy machine were seen within 20 % of each other.
_SLOW = 0.65
#: Rates this close mean that workers wait for each other in every step.
_TOGETHER = 0.9
#: A worker that wants less of a CPU than this is waiting for something else.
_IDLE = 0.3
#: In step: the one that computes this much longer is the one that is waited for.
_MORE_WORK = 1.6
_FULL = 0.8
_WAITS = "it waits for data or the network"
_FOR_CPU = "it waits for a CPU"
_PAGE = CheckPage(
    why="Where workers wait for each other in every step, the slowest sets the pace of all; "
    "where they do not, its part of the data is seen less often.",
    measured="Looks at each trainer: who waits for others while no bytes move, and who does not. "
    "Reported when the others surely wait more than 15 % of the time for a few that hardly wait "
    "themselves, with what these do and at which line. Without looks: examples a second of each "
    "worker (bytes to and from the servers where workers report none) against the median of the "
    "others, below 65 %; and of workers in step with each other the one that wants 1.6 times the "
    "CPU time of the others while they are idle.",
    fix="The evidence says whether it sleeps, loads data, writes files, waits for a CPU (its node "
    "is crowded) or computes more for each example (its data differs), and where.",
    not_when="Workers are meant to differ: other hardware, other work.",
)


@run_check("straggler", "A worker is slower than the others", _PAGE, LATE_BECAUSE)
def straggler(facts: RunFacts) -> Iterator[Found]:
    if facts.stall is not None:
        raise Unknown("nobody makes a step any more: there are no rates to compare")
    late = waited_for(facts)
    if late is not None:
        if late.reason not in IDLE:
            yield late.found
        return
    measured = used(facts.workers)
    if len(measured) < 2:
        raise Unknown("fewer than two workers with samples")
    if facts.steps_per_s is None and facts.servers:
        # Without steps the bytes are those of the start, which differ by chance.
        raise Unknown("fewer than two steps were reported")
    looked_at = {trainer.member for trainer in facts.account.trainers}
    all_seen = all(member.name in looked_at for member, _ in measured)
    try:
        rates = _rates(measured, served=bool(facts.servers))
    except Unknown:
        if not all_seen:
            raise
        return
    if min(rates) >= _TOGETHER * max(rates):
        # Looks at all of them tell who waits; CPU time alone only lets guess.
        if not all_seen:
            yield from _in_step(measured)
        return
    for place, (member, use) in enumerate(measured):
        others = median(rate for at, rate in enumerate(rates) if at != place)
        if rates[place] >= _SLOW * others:
            continue
        reason = _reason(measured, place, rates)
        if reason == _WAITS and any((card.busy or 0.0) >= _FULL for card in facts.nics):
            # Who gets how much of a full card is chance; the card is the cause.
            continue
        if reason == _FOR_CPU and any(
            other.node == member.node for other, _ in measured if other is not member
        ):
            # So it is with CPUs that members of a node share.
            continue
        yield Found(
            says=f"{member.name} on {member.node} does {100 * rates[place] / others:.0f} % of what "
            f"the others do: {reason}",
            evidence=(
                Figure(
                    "its rate ÷ the others'", rates[place] / others, "", SAMPLES, (member.name,)
                ),
                *_evidence(member, use),
            ),
            remedy=Remedy("follow the reason", where=f"{member.name} on {member.node}: {reason}"),
            confidence=Confidence.LIKELY,
            weight=min(0.9, (1 - rates[place] / others) * 0.6),
            members=(member.name,),
            gain=Gain(
                1.0,
                (sum(rates) - rates[place] + others) / sum(rates),
                "if it did as much as the others",
            ),
        )


def _rates(measured: list[tuple[MemberFacts, Use]], *, served: bool) -> list[float]:
    examples = [member.examples_per_s for member, _ in measured]
    known = [rate for rate in examples if rate is not None]
    if len(known) == len(measured):
        return known
    steps = [member.steps_per_s for member, _ in measured]
    counted = [rate for rate in steps if rate is not None]
    if len(counted) == len(measured):
        return counted
    if not served:
        # Without servers bytes are of the exchange, and of whoever serves the others.
        raise Unknown("workers report neither examples nor steps")
    moved = [use.moved_bytes / use.span_s for _, use in measured]
    if min(moved) <= 0:
        raise Unknown("workers report no examples and move no bytes")
    return moved


def _in_step(measured: list[tuple[MemberFacts, Use]]) -> Iterator[Found]:
    wanted = [use.runnable if use.runnable is not None else use.cpus for _, use in measured]
    for place, (member, use) in enumerate(measured):
        others = median(load for at, load in enumerate(wanted) if at != place)
        if others > 0.6 or wanted[place] < max(0.3, _MORE_WORK * others):
            continue
        yield Found(
            says=f"the others wait for {member.name} on {member.node}",
            evidence=(
                Figure("CPUs that it wanted", wanted[place], "", SAMPLES, (member.name,)),
                Figure("CPUs that the others wanted", others, "", SAMPLES),
                *_evidence(member, use),
            ),
            remedy=Remedy("give it less work or more CPU", where=f"{member.name} on {member.node}"),
            confidence=Confidence.POSSIBLE,
            weight=0.3,
            members=(member.name,),
            gain=Gain(
                1.0,
                _in_step_gain(wanted[place], others),
                "if it computed no longer than the others, who wait for so much of a step",
            ),
        )


def _in_step_gain(wanted: float, others: float) -> float:
    """A step gets shorter by what the others wait for it: the time that it computes longer.

    More than one CPU at a time is not more than all of the time.
    """
    waited = min(1.0, wanted) - min(1.0, others)
    return 1 / (1 - min(waited, 0.9))


def _evidence(member: MemberFacts, use: Use) -> tuple[Figure, ...]:
    return (
        Figure("node", member.node or "–", "", PLAN, (member.name,)),
        Figure("CPUs used", use.cpus, "", SAMPLES, (member.name,)),
        Figure(
            "waited for a CPU", (use.wait_s or 0.0) / use.span_s, "s/s", SAMPLES, (member.name,)
        ),
    )


def _reason(measured: list[tuple[MemberFacts, Use]], place: int, rates: list[float]) -> str:
    def waited(use: Use) -> float:
        return (use.wait_s or 0.0) / use.span_s

    use = measured[place][1]
    if (use.runnable if use.runnable is not None else use.cpus) < _IDLE:
        return _WAITS
    others = [(other, rates[at]) for at, (_, other) in enumerate(measured) if at != place]
    if waited(use) > 0.2 and waited(use) > 2 * median(waited(other) for other, _ in others):
        return _FOR_CPU
    cost = use.cpus / max(rates[place], 1e-9)
    if cost > 1.5 * median(other.cpus / max(rate, 1e-9) for other, rate in others):
        return "each of its examples costs more CPU time"
    return _WAITS
