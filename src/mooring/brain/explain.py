"""The sentences: why a gang has no plan, and what is worth knowing about the one it has."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.model.cluster import format_cpus
from mooring.model.member import Member
from mooring.model.plan import Slot
from mooring.model.resources import Resources

NO_NODE_LARGE_ENOUGH = "no node is large enough"
NOT_EVEN_EMPTY = "it would not fit even on an empty cluster"


def refusal(
    member: Member,
    counts: Mapping[str, int],
    nodes: int,
    placed: int,
    size: int,
    remark: str = "",
) -> str:
    """One sentence; `counts` says how many nodes gave each class of reason."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    reasons = ", ".join(f"{count} {_of_several(name)}" for name, count in ranked)
    head = f"0/{nodes} nodes can take {member.name} (needs {_needs(member)})"
    tail = f"{placed} of {size} members placed"
    sentence = f"{head}: {reasons}; {tail}" if reasons else f"{head}; {tail}"
    return f"{sentence}; {remark}" if remark else sentence


def _needs(member: Member) -> str:
    parts = [str(member.resources)] if member.resources != Resources() else []
    parts += [f"port {port}" for port in sorted(set(member.ports.values()) - {0})]
    return ", ".join(parts) or str(member.resources)


def _of_several(reason: str) -> str:
    return f"whose {reason.removeprefix('its ')}" if reason.startswith("its ") else reason


def spans_cells(member: Member, slot: Slot) -> str:
    return (
        f"{member.name} spans the NUMA cells {format_cpus(slot.cells)} of {slot.node}: "
        f"no single cell had {len(slot.cpus)} free CPUs"
    )
