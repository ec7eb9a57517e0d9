"""Why a gang waits or gives way: one sentence each, with the amounts that decide it."""

from __future__ import annotations

from mooring.brain.queue.order import standing
from mooring.brain.queue.round_state import Block, Cause, RoundState
from mooring.brain.queue.types import Amount, QueuedGang, RunningGang, resources_of
from mooring.model.resources import format_cpu, format_gpus, format_memory

_NAMES = ("cpu", "memory", "gpu")
#: Devices are named before memory and CPUs: they are what is scarce.
_KINDS = (2, 1, 0)


def _one(kind: int, amount: int) -> str:
    amount = max(0, amount)
    return (format_cpu(amount), format_memory(amount), format_gpus(amount))[kind]


def waits(
    round_state: RoundState, queued: QueuedGang, block: Block, before: QueuedGang | None
) -> str:
    """`before` is the first gang of its pool that waits."""
    ledger = round_state.ledger
    _, ask = queued.sized(queued.least)
    use, cap = ledger.use(queued.pool), ledger.cap(queued.pool)
    behind = f" behind {before.job}" if before is not None and before.job != queued.job else ""
    start = f"{queued.job} waits{behind} for {resources_of(ask)} in pool {queued.pool}"
    match block.cause:
        case Cause.NEVER:
            room, where = ledger.capacity, f"{round_state.place} has"
            kinds = [k for k in _KINDS if ask[k] > room[k]]
            if not kinds and cap is not None:
                room, where = cap, f"pool {queued.pool} may hold"
                kinds = [k for k in _KINDS if k in ledger.divided and ask[k] > room[k]]
            kind = kinds[0]
            return (
                f"{queued.job} can never start: it asks for {_one(kind, ask[kind])} "
                f"{_NAMES[kind]}, and {where} {_one(kind, room[kind])} at most."
            )
        case Cause.CAP:
            assert cap is not None
            left: Amount = (cap[0] - use[0], cap[1] - use[1], cap[2] - use[2])
            kind = next(k for k in _KINDS if k in ledger.divided and ask[k] > left[k])
            return (
                f"{start}: the pool has {_one(kind, left[kind])} of its "
                f"{_one(kind, cap[kind])} {_NAMES[kind]} left."
            )
        case Cause.FIRM:
            return (
                f"{start}: it must not be preempted, and more of what its pool can borrow "
                f"is guaranteed to others."
            )
        case Cause.AMOUNT:
            free: Amount = (round_state.free[0], round_state.free[1], round_state.free[2])
            kind = next(k for k in _KINDS if ask[k] > free[k])
            return (
                f"{start}: {round_state.place} has {_one(kind, free[kind])} of its "
                f"{_one(kind, ledger.capacity[kind])} {_NAMES[kind]} free."
            )
        case Cause.PLACE:
            return f"{start}: {block.detail or 'no node has room for all of it'}".rstrip(".") + "."
        case Cause.HEAD:
            when = ""
            if block.start_s is not None:
                when = f", which is expected to start in {block.start_s - round_state.now_s:.0f} s"
            return f"{start}: starting now would delay {block.detail}{when}."
        case Cause.EQUALS:
            return f"{start}: {block.detail}, which arrived with it, start in its place."


def stands_in_line(queued: QueuedGang, before: QueuedGang, ahead: int) -> str:
    _, ask = queued.sized(queued.least)
    return (
        f"{queued.job} waits behind {before.job} for {resources_of(ask)} in pool {queued.pool}: "
        f"{ahead} gangs of the pool are before it."
    )


def gives_way(round_state: RoundState, victim: RunningGang, queued: QueuedGang, what: str) -> str:
    """`what` is the whole gang or some members of it."""
    if victim.pool != queued.pool and round_state.ledger.divided:
        return (
            f"{what} of {victim.job} give back to {queued.job} what pool {victim.pool} "
            f"has borrowed from pool {queued.pool}."
        )
    return (
        f"{what} of {victim.job} give way to {queued.job}: priority {queued.priority} "
        f"is above {standing(victim, round_state.policy):g}."
    )
