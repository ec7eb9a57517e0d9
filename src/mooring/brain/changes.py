"""What would have to change for a refused gang to fit: each change is tried, none is guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mooring.brain.profile import DEFAULT, Profile
from mooring.brain.state import ClusterState
from mooring.model.cluster import Snapshot, Toleration
from mooring.model.member import Gang, Member, Pinning, Preset
from mooring.model.plan import Plan
from mooring.model.resources import Resources, counts, format_cpu, format_gpus, format_memory

#: Amounts are sought in these steps: fine enough to be advice, few enough to be quick.
_CPU_STEP_MILLIS = 100
_MEMORY_STEP_BYTES = 1 << 28
_GPU_STEP_MILLIS = 50
_MOST_NEW_NODES = 64


#: Has this gang a place on these nodes?
Fits = Callable[[Gang, Snapshot], bool]


def changes(
    gang: Gang, snapshot: Snapshot, profile: Profile = DEFAULT, fits: Fits | None = None
) -> tuple[str, ...]:
    """Sentences, each a single change after which the whole gang has a place.

    `fits` may ask for more than a place: that the queue lets it start, for instance.
    """
    state = ClusterState(snapshot, profile)

    def has_a_place(candidate: Gang, nodes: Snapshot) -> bool:
        there = state if nodes is snapshot else ClusterState(nodes, profile)
        return isinstance(there.place(candidate), Plan)

    return tuple(_changes(gang, snapshot, fits or has_a_place))


def _changes(gang: Gang, snapshot: Snapshot, fits_on: Fits) -> Iterator[str]:
    def fits(candidate: Gang) -> bool:
        return fits_on(candidate, snapshot)

    for role in gang.roles:
        yield from _fewer(gang, role, fits)
        yield from _less_cpu(gang, role, fits)
        yield from _less_memory(gang, role, fits)
        yield from _fewer_gpus(gang, role, fits)
        yield from _smaller_share(gang, role, fits)
        yield from _less_extended(gang, role, fits)
    if any(member.pinning is Pinning.EXCLUSIVE for member in gang.members):
        shared = _each(gang, lambda member: replace(member, pinning=Pinning.SHARED))
        if fits(shared):
            yield "pinning: shared instead of exclusive"
    elif all(member.resources.cpu_millis % 1000 == 0 for member in gang.members):
        exclusive = _each(gang, lambda member: replace(member, pinning=Pinning.EXCLUSIVE))
        if all(member.resources.cpu_millis for member in gang.members) and fits(exclusive):
            yield "pinning: exclusive"
    strict = gang.preset in (Preset.ISOLATE, Preset.COLOCATE)
    if strict and fits(replace(gang, preset=Preset.SPREAD)):
        yield f"placement.preset: spread instead of {gang.preset.value}"
    for rule in gang.rules:
        if rule.required:
            softer = tuple(
                replace(each, required=False) if each is rule else each for each in gang.rules
            )
            if fits(replace(gang, rules=softer)):
                names = f"{', '.join(rule.roles)} {rule.relation.value} {', '.join(rule.others)}"
                yield f"the rule {names} as a preference (required: false)"
    for spread in gang.spreads:
        softer_spreads = tuple(
            replace(each, required=False) if each is spread else each for each in gang.spreads
        )
        if spread.required and fits(replace(gang, spreads=softer_spreads)):
            yield f"topologySpread by {spread.key} with whenUnsatisfiable: ScheduleAnyway"
    yield from _tolerated(gang, snapshot, fits)
    yield from _freer(gang, fits)
    yield from _more_nodes(gang, snapshot, fits_on)


def _fewer(gang: Gang, role: str, fits: Callable[[Gang], bool]) -> Iterator[str]:
    count = sum(member.id.role == role for member in gang.members)

    def keep(most: int) -> Gang:
        kept = [m for m in gang.members if m.id.role != role or m.id.index < most]
        return replace(gang, members=tuple(kept))

    best = largest(1, count - 1, lambda most: fits(keep(most)))
    if best is not None:
        yield f"roles.{role}.replicas: {best} instead of {count}"


def _less_cpu(gang: Gang, role: str, fits: Callable[[Gang], bool]) -> Iterator[str]:
    exclusive = any(m.pinning is Pinning.EXCLUSIVE for m in gang.members if m.id.role == role)
    step = 1000 if exclusive else _CPU_STEP_MILLIS
    asked = max(m.resources.cpu_millis for m in gang.members if m.id.role == role)
    return _less(gang, role, fits, _CPU, asked, step)


def _less_memory(gang: Gang, role: str, fits: Callable[[Gang], bool]) -> Iterator[str]:
    asked = max(m.resources.memory_bytes for m in gang.members if m.id.role == role)
    return _less(gang, role, fits, _MEMORY, asked, _MEMORY_STEP_BYTES)


def _fewer_gpus(gang: Gang, role: str, fits: Callable[[Gang], bool]) -> Iterator[str]:
    asked = max(m.resources.gpus for m in gang.members if m.id.role == role)
    return _less(gang, role, fits, _GPUS, asked, 1)


def _smaller_share(gang: Gang, role: str, fits: Callable[[Gang], bool]) -> Iterator[str]:
    asked = max(m.resources.gpu_share_millis for m in gang.members if m.id.role == role)
    return _less(gang, role, fits, _SHARE, asked, _GPU_STEP_MILLIS)


@dataclass(frozen=True)
class _Amount:
    """A resource as a job file names it, how much of it is written, and asking for so much."""

    written: str
    form: Callable[[int], str]
    ask: Callable[[Resources, int], Resources]


_CPU = _Amount("cpu", format_cpu, lambda asked, amount: replace(asked, cpu_millis=amount))
_MEMORY = _Amount(
    "memory", format_memory, lambda asked, amount: replace(asked, memory_bytes=amount)
)
_GPUS = _Amount("gpu", str, lambda asked, amount: replace(asked, gpus=amount))
_SHARE = _Amount("gpu", format_gpus, lambda asked, amount: replace(asked, gpu_share_millis=amount))


def _less(
    gang: Gang,
    role: str,
    fits: Callable[[Gang], bool],
    amount: _Amount,
    asked: int,
    step: int,
) -> Iterator[str]:
    """The most of it, in steps below what is asked for, with which the gang would fit."""

    def ask(steps: int) -> Gang:
        return _of_role(gang, role, lambda r: amount.ask(r, steps * step))

    best = largest(1, (asked - 1) // step, lambda steps: fits(ask(steps)))
    if best is not None:
        instead = f"{amount.form(best * step)} instead of {amount.form(asked)}"
        yield f"roles.{role}.resources.{amount.written}: {instead}"


def _less_extended(gang: Gang, role: str, fits: Callable[[Gang], bool]) -> Iterator[str]:
    asked = next(m.resources for m in gang.members if m.id.role == role)
    for name, most in asked.extended:

        def ask(count: int, name: str = name) -> Gang:
            return _of_role(
                gang, role, lambda r: replace(r, extended=counts({**dict(r.extended), name: count}))
            )

        best = largest(1, most - 1, lambda count, ask=ask: fits(ask(count)))  # type: ignore[misc]
        if best is not None:
            yield f"roles.{role}.resources.{name}: {best} instead of {most}"


def _tolerated(gang: Gang, snapshot: Snapshot, fits: Callable[[Gang], bool]) -> Iterator[str]:
    for taint in dict.fromkeys(taint for node in snapshot.nodes for taint in node.taints):
        toleration = Toleration(taint.key, "Equal", taint.value, taint.effect)
        tolerant = _each(
            gang,
            lambda member, one=toleration: replace(  # type: ignore[misc]
                member, tolerations=(*member.tolerations, one)
            ),
        )
        if fits(tolerant):
            yield f"a toleration of {taint}"


def _freer(gang: Gang, fits: Callable[[Gang], bool]) -> Iterator[str]:
    """Without what it says about nodes."""
    members = gang.members
    said: tuple[tuple[str, bool, Callable[[Member], Member]], ...] = (
        (
            "no nodeName",
            any(member.wish.node for member in members),
            lambda member: replace(member, wish=replace(member.wish, node="")),
        ),
        (
            "no required nodeAffinity",
            any(member.wish.required for member in members),
            lambda member: replace(member, wish=replace(member.wish, required=())),
        ),
        (
            "no nodeSelector",
            any(member.node_selector for member in members),
            lambda member: replace(member, node_selector={}),
        ),
    )
    for words, asked, change in said:
        if asked and fits(_each(gang, change)):
            yield words


def _more_nodes(gang: Gang, snapshot: Snapshot, fits_on: Fits) -> Iterator[str]:
    """Of the kind with the most room, how many more would do."""
    if not snapshot.nodes:
        return
    pattern = max(snapshot.nodes, key=lambda node: (len(node.gpus), node.cpu_millis))
    pattern = replace(pattern, taints=())

    def with_more(count: int) -> bool:
        extra = tuple(replace(pattern, name=f"new-{number}") for number in range(count))
        wider = replace(snapshot, nodes=(*snapshot.nodes, *extra))
        return fits_on(gang, wider)

    fewest = smallest(1, _MOST_NEW_NODES, with_more)
    if fewest is not None:
        nodes = "1 more node" if fewest == 1 else f"{fewest} more nodes"
        yield f"{nodes} like {pattern.name} ({pattern.capacity})"


def _each(gang: Gang, change: Callable[[Member], Member]) -> Gang:
    return replace(gang, members=tuple(change(member) for member in gang.members))


def _of_role(gang: Gang, role: str, change: Callable[[Resources], Resources]) -> Gang:
    def changed(member: Member) -> Member:
        if member.id.role != role:
            return member
        return replace(member, resources=change(member.resources))

    return _each(gang, changed)


def largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The largest number for which it holds, given that what holds for more holds for less."""
    if high < low or not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    if high < low or not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
