"""Cards that wait: for the CPU, for data, for others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from statistics import mean

from mooring.doctor.facts import MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import SAMPLES, names
from mooring.doctor.registry import RUN_CHECKS, CheckPage, DoesNotApply, Unknown, run_check

_IDLE = 40.0
_BUSY_CPU = 0.9
#: Checks whose findings do not keep a card waiting: they tell of waste, of what would come, or of a
#: job that does not run.
_NO_CAUSE = frozenset(
    {"gpu-idle", "gpu-lost", "gpu-reserved", "cpu-idle", "ps-idle", "ps-scaling", "job-pending"}
)
#: A finding that costs less than this is not what a card waits for most of the time.
_LEAST_WEIGHT = 0.2
_PAGE = CheckPage(
    why="A card that is idle half of the time trains half as fast as it could, and costs the same.",
    measured="NVML's utilisation of the member's cards in each sample while the job trained (the "
    "share of time in which any kernel ran), with bytes over PCIe, processes on the card, and "
    "the CPUs of the member. Below 40 % on average is reported. It does not say how well kernels "
    "use the card. The likely cause is the heaviest other finding of the same run; where none "
    "is heavy, the member's CPUs tell whether the CPU or something else is waited for.",
    fix="Follow the likely cause: more CPUs or loader processes where the CPU is full; "
    "prefetching, larger files or local copies where it is not; larger batches; the network "
    "where members wait for each other.",
    not_when="The job has only just begun, or evaluates and saves most of the time.",
)


@run_check("gpu-idle", "GPUs wait most of the time", _PAGE)
def idle(facts: RunFacts) -> Iterator[Found]:
    with_cards = [member for member in facts.members if member.gpus]
    if not with_cards:
        raise DoesNotApply("no GPU was seen")
    waiting = [
        (card, busy) for card in with_cards if (busy := _busy(card)) is not None and busy < _IDLE
    ]
    if not waiting:
        return
    worst, busy = min(waiting, key=lambda one: one[1])
    other = _heaviest(facts)
    cause = f"{other[1].says} ({other[0]})" if other else _cause(worst)
    yield Found(
        says=f"{worst.name}: its GPUs are busy {busy:.0f} % of the time; likely {cause}",
        evidence=(
            *(
                Figure(
                    f"GPU {card.index} busy", card.busy_percent or 0.0, "%", SAMPLES, (worst.name,)
                )
                for card in worst.gpus[:8]
            ),
            *(
                Figure(
                    f"GPU {card.index} receives",
                    card.rx_mbytes_per_s,
                    "MB/s",
                    SAMPLES,
                    (worst.name,),
                )
                for card in worst.gpus[:8]
                if card.rx_mbytes_per_s is not None
            ),
            Figure("CPUs used", worst.use.cpus if worst.use else 0.0, "", SAMPLES, (worst.name,)),
            Figure("CPUs that it may use", worst.usable_cpus, "", SAMPLES, (worst.name,)),
        ),
        remedy=Remedy(f"see to {other[0]} first" if other else "feed the card", where=cause),
        confidence=Confidence.LIKELY,
        # A symptom comes behind its cause.
        weight=min(0.5 * (1 - busy / 100), 0.9 * other[1].weight if other else 1.0),
        members=names(member for member, _ in waiting),
        gain=Gain(1.0, min(100 / max(busy, 1.0), 10.0), "if kernels ran all the time"),
    )


def _busy(member: MemberFacts) -> float | None:
    known = [card.busy_percent for card in member.gpus if card.busy_percent is not None]
    return mean(known) if known else None


def _heaviest(facts: RunFacts) -> tuple[str, Found] | None:
    """What else is wrong with the run, worst first."""
    found: list[tuple[str, Found]] = []
    for check in RUN_CHECKS.values():
        if check.id not in _NO_CAUSE:
            with suppress(Unknown):
                found += [
                    (check.id, one) for one in check.rule(facts) if one.weight >= _LEAST_WEIGHT
                ]
    return max(found, key=lambda one: one[1].weight, default=None)


def _cause(member: MemberFacts) -> str:
    use = member.use
    if use is not None and use.cpus >= _BUSY_CPU * member.usable_cpus:
        return "the CPU: all that it may use is in use"
    if use is not None and use.runnable is not None and use.runnable > 1.5 * member.usable_cpus:
        return "the CPU: more threads are ready than it has CPUs"
    return "data, the network or other members: its CPUs wait as well"
