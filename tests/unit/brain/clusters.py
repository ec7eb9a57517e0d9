"""Small clusters and gangs for the tests of the brain, and an independent judge of plans."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mooring.model.cluster import Cpu, Gpu, Node, Snapshot
from mooring.model.member import Duty, Gang, Member, MemberId, Pinning, Preset, Relation, Rule
from mooring.model.plan import Plan, Refusal
from mooring.model.resources import Resources

GIB = 1 << 30


def cpu_list(count: int, cells: int = 1, smt: int = 1, l3_per_cell: int = 1) -> tuple[Cpu, ...]:
    """Siblings have adjacent ids; cells and L3 groups are contiguous."""
    per_cell = count // cells
    per_l3 = max(1, per_cell // l3_per_cell)
    return tuple(
        Cpu(
            id=i,
            core=i // smt,
            l3=min(i // per_l3, cells * l3_per_cell - 1),
            cell=min(i // per_cell, cells - 1),
            socket=min(i // per_cell, cells - 1),
        )
        for i in range(count)
    )


def node(name: str, cpus: int = 8, cells: int = 1, smt: int = 1, **more: Any) -> Node:
    more.setdefault("cpu_millis", cpus * 1000)
    more.setdefault("memory_bytes", 64 * GIB)
    l3_per_cell = more.pop("l3_per_cell", 1)
    gpus = more.pop("gpus", 0)
    if isinstance(gpus, int):
        gpus = tuple(Gpu(i, i * cells // gpus) for i in range(gpus))
    return Node(name, cpu_list(cpus, cells, smt, l3_per_cell), gpus=gpus, **more)


def nodes(count: int, cpus: int = 8, **more: Any) -> tuple[Node, ...]:
    return tuple(node(f"n{i}", cpus, **more) for i in range(count))


def members(role: str, count: int, cpu: float = 1, **more: Any) -> tuple[Member, ...]:
    memory_gib = more.pop("memory_gib", 0)
    gpus = more.pop("gpus", 0)
    resources = Resources(round(cpu * 1000), memory_gib * GIB, gpus)
    return tuple(Member(MemberId(role, i), "job", resources, **more) for i in range(count))


def gang(preset: str | Preset, *groups: Sequence[Member], **more: Any) -> Gang:
    more.setdefault("duties", (("ps", Duty.SERVES), ("chief", Duty.LEADS)))
    return Gang("job", tuple(itertools.chain(*groups)), Preset(preset), **more)


def by_node(plan: Plan | Refusal) -> dict[str, list[str]]:
    """Node -> names of the members there, of nodes that have any."""
    assert isinstance(plan, Plan), plan
    found: dict[str, list[str]] = {}
    for placement in plan.placements:
        found.setdefault(placement.slot.node, []).append(placement.member.name)
    return dict(sorted(found.items()))


def role_counts(plan: Plan | Refusal, role: str) -> dict[str, int]:
    """Node -> how many of this role are there."""
    counts = Counter(
        name for name, there in by_node(plan).items() for m in there if m.startswith(f"{role}-")
    )
    return dict(sorted(counts.items()))


def preset_rules(gang: Gang) -> tuple[Rule, ...]:
    """What the presets promise, said independently of the brain."""
    servers = tuple(role for role in gang.roles if role in gang.server_roles)
    rest = tuple(role for role in gang.roles if role not in servers)
    if not servers or not rest:
        return ()
    if gang.preset is Preset.ISOLATE:
        return (Rule(Relation.APART, servers, rest, required=True),)
    if gang.preset is Preset.COLOCATE and "worker" in rest:
        return (Rule(Relation.TOGETHER, ("worker",), servers, required=True),)
    return ()


def objections(gang: Gang, snapshot: Snapshot, where: Mapping[MemberId, str]) -> Iterator[str]:
    """All that is wrong with these members on these nodes. Knows nothing of CPU sets."""
    by_id = {member.id: member for member in gang.members}
    for each in snapshot.nodes:
        here = [by_id[member] for member, name in where.items() if name == each.name]
        if here:
            yield from _node_objections(each, snapshot, here)
    for rule in (*preset_rules(gang), *gang.rules):
        if rule.required:
            yield from _rule_objections(rule, where)


def _node_objections(each: Node, snapshot: Snapshot, here: Sequence[Member]) -> Iterator[str]:
    use = snapshot.use_of(each.name)
    exclusive = [m for m in here if m.pinning is Pinning.EXCLUSIVE]
    sharing = [m for m in here if m.pinning is not Pinning.EXCLUSIVE]
    whole = sum(max(1, -(-m.resources.cpu_millis // 1000)) for m in exclusive)
    shared_millis = sum(m.resources.cpu_millis for m in sharing)
    others_shared_millis = use.resources.cpu_millis - 1000 * len(use.cpus)
    left_cpus = len(each.cpus) - len(use.cpus) - whole
    asked_millis = 1000 * whole + shared_millis
    if asked_millis and asked_millis + use.resources.cpu_millis > each.cpu_millis:
        yield f"{each.name}: over its cpu"
    if whole and each.labels.get("mooring.dev/cpus") == "overlapping":
        yield f"{each.name}: exclusive on overlapping CPUs"
    if left_cpus < 0 or (left_cpus == 0 and (sharing or others_shared_millis > 0)):
        yield f"{each.name}: no CPU left"
    if shared_millis + max(0, others_shared_millis) > 1000 * left_cpus:
        yield f"{each.name}: sharers over what is left"
    memory = sum(m.resources.memory_bytes for m in here)
    if memory and memory + use.resources.memory_bytes > each.memory_bytes:
        yield f"{each.name}: over its memory"
    if sum(m.resources.gpus for m in here) > len(each.gpus) - len(use.gpus):
        yield f"{each.name}: over its gpus"
    ports = Counter(port for m in here for port in set(m.ports.values()) if port)
    ports.update(use.ports)
    if any(
        count > 1 and any(port in m.ports.values() for m in here) for port, count in ports.items()
    ):
        yield f"{each.name}: port twice"
    for m in here:
        if any(each.labels.get(key) != value for key, value in m.node_selector.items()):
            yield f"{m.name}: labels"
        for taint in each.taints:
            if taint.effect != "PreferNoSchedule" and not any(
                toleration.tolerates(taint) for toleration in m.tolerations
            ):
                yield f"{m.name}: taint"


def _rule_objections(rule: Rule, where: Mapping[MemberId, str]) -> Iterator[str]:
    for member, name in where.items():
        if member.role not in rule.roles:
            continue
        mates = [m for m in where if m.role in rule.others and m != member]
        if rule.relation is Relation.APART:
            if any(where[mate] == name for mate in mates):
                yield f"{member}: not apart"
        elif member.role in rule.others:
            both = [m for m in mates if m.role in rule.roles]
            if any(where[mate] != name for mate in both):
                yield f"{member}: not with its own"
        elif not any(where[mate] == name for mate in mates):
            yield f"{member}: alone"


def can_be_placed(gang: Gang, snapshot: Snapshot) -> bool:
    """Every assignment, one after the other."""
    ids = [member.id for member in gang.members]
    names = [each.name for each in snapshot.nodes]
    return any(
        not any(objections(gang, snapshot, dict(zip(ids, choice, strict=True))))
        for choice in itertools.product(names, repeat=len(ids))
    )
