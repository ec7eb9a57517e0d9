"""Who holds what a refused job misses: the other runs of this user, by name and member.

Runs of other users are not known here: their state homes are their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mooring.backends.local.machine import this_machine
from mooring.brain.explain import NOT_EVEN_EMPTY
from mooring.model.cluster import Node, format_cpus
from mooring.model.plan import Refusal
from mooring.model.resources import format_cpu, format_memory
from mooring.record import holding_runs
from mooring.record.plan_file import Holding, read_holdings

_MOST_RUNS = 5
#: What sentences of the queue call the nodes together.
THIS_MACHINE = "this machine"


@dataclass(frozen=True)
class RunHoldings:
    """One run and what its members hold."""

    run: str
    holdings: tuple[Holding, ...]


def with_holders(refusal: Refusal) -> Refusal:
    """The refusal of a job on this machine, with who holds what it misses in its sentence."""
    holders = [
        RunHoldings(run.info.id, tuple(read_holdings(run.plan_file))) for run in holding_runs()
    ]
    said = list(held_sentences(refusal, this_machine(), holders))
    return replace(refusal, sentence="; ".join([of_machine(refusal.sentence), *said]))


def of_machine(sentence: str) -> str:
    """A planner's sentence in the words of somebody who has one machine."""
    return sentence.replace(NOT_EVEN_EMPTY, "it would not fit even on the empty machine")


def held_sentences(
    refusal: Refusal, machine: Node, holders: Sequence[RunHoldings]
) -> Iterator[str]:
    """Of each amount that nodes had too little of: how much of it which members hold."""
    reasons = {reason for verdict in refusal.verdicts for reason in verdict.reasons}
    missing = {reason.partition(" (")[0] for reason in reasons}
    if "insufficient cpu" in missing:
        exclusive = _of(holders, lambda one: one.slot.exclusive)
        held = {cpu for _, holdings in exclusive for one in holdings for cpu in one.slot.cpus}
        if held:
            amount = f"CPUs {format_cpus(held)} of {format_cpus({c.id for c in machine.cpus})}"
            yield f"{amount} held by {_names(exclusive)}, exclusively"
        shared = _of(holders, lambda one: not one.slot.exclusive and one.resources.cpu_millis > 0)
        millis = sum(one.resources.cpu_millis for _, holdings in shared for one in holdings)
        if millis:
            whole = format_cpu(machine.cpu_millis)
            yield f"{format_cpu(millis)} of {whole} cpu held by {_names(shared)}"
    if "insufficient memory" in missing:
        takers = _of(holders, lambda one: one.resources.memory_bytes > 0)
        held_bytes = sum(one.resources.memory_bytes for _, holdings in takers for one in holdings)
        if held_bytes:
            whole = _about(machine.memory_bytes)
            yield f"{_about(held_bytes)} of {whole} memory held by {_names(takers)}"
    if "insufficient gpu" in missing:
        takers = _of(holders, lambda one: bool(one.slot.gpus))
        cards = {card for _, holdings in takers for one in holdings for card in one.slot.gpus}
        if cards:
            every = format_cpus({gpu.index for gpu in machine.gpus})
            yield f"GPUs {format_cpus(cards)} of {every} held by {_names(takers)}"


def _about(memory_bytes: int) -> str:
    """A machine's memory is no round number."""
    mebibytes = round(memory_bytes / (1 << 20))
    if mebibytes < 1024 or mebibytes % 1024 == 0:
        return format_memory(mebibytes << 20)
    return f"{mebibytes / 1024:.1f}Gi"


def _of(
    holders: Iterable[RunHoldings], wanted: Callable[[Holding], bool]
) -> list[tuple[str, list[Holding]]]:
    found = ((each.run, [one for one in each.holdings if wanted(one)]) for each in holders)
    return [(run, holdings) for run, holdings in found if holdings]


def _names(takers: Sequence[tuple[str, Sequence[Holding]]]) -> str:
    said = [
        f"run {run} ({', '.join(one.member.name for one in holdings)})"
        for run, holdings in takers[:_MOST_RUNS]
    ]
    if len(takers) > _MOST_RUNS:
        said.append(f"{len(takers) - _MOST_RUNS} more runs")
    return " and ".join(said)
