"""One node, and members that share its CPUs: nothing is to be chosen, so nothing has to be weighed.

Most runs on a machine are of this kind. The planner gives the same slots, but importing all that it
weighs with takes longer than starting the members. Whatever is out of the ordinary is left to it:
a field that is not named here must have its default.
"""

from __future__ import annotations

from mooring.model.cluster import Node, Snapshot
from mooring.model.member import Gang, Member, Pinning, Preset
from mooring.model.plan import NodeVerdict, Placement, Plan, Slot
from mooring.model.resources import Resources


def plan_on_only_node(gang: Gang, snapshot: Snapshot) -> Plan | None:
    """The planner's plan, without scores in its verdicts; None: it has to be asked."""
    if len(snapshot.nodes) != 1 or snapshot.storage is not None:
        return None
    node = snapshot.nodes[0]
    if not (_is_plain_node(node) and _is_plain_gang(gang) and _has_room(gang, node, snapshot)):
        return None
    exclusive = snapshot.use_of(node.name).cpus
    everything = tuple(cpu.id for cpu in node.cpus)
    shared = tuple(cpu for cpu in everything if cpu not in exclusive)
    slots = {
        Pinning.NONE: Slot(node.name, everything, _cells(node, everything)),
        Pinning.SHARED: Slot(node.name, shared, _cells(node, shared)),
    }
    verdicts = (NodeVerdict(node.name),)
    placements = (Placement(each.id, slots[each.pinning], verdicts) for each in gang.members)
    return Plan(gang.job, tuple(placements))


def _cells(node: Node, cpus: tuple[int, ...]) -> tuple[int, ...]:
    held = set(cpus)
    return tuple(sorted({cpu.cell for cpu in node.cpus if cpu.id in held}))


def _is_plain_node(node: Node) -> bool:
    return node == Node(
        node.name,
        node.cpus,
        node.cpu_millis,
        node.memory_bytes,
        node.gpus,
        node.nic_mbps,
        node.labels,
        address=node.address,
    )


def _is_plain_gang(gang: Gang) -> bool:
    plain = gang == Gang(
        gang.job,
        gang.members,
        gang.preset,
        gang.duties,
        all_or_nothing=gang.all_or_nothing,
        preset_is_open=gang.preset_is_open,
    )
    keeps_apart = gang.preset is Preset.ISOLATE and bool(gang.server_roles)
    return plain and not keeps_apart and all(_is_plain_member(each) for each in gang.members)


def _is_plain_member(member: Member) -> bool:
    asked = member.resources
    return (
        member.pinning is not Pinning.EXCLUSIVE
        and not any(member.ports.values())
        and asked == Resources(asked.cpu_millis, asked.memory_bytes)
        and member
        == Member(
            member.id,
            member.job,
            asked,
            member.pinning,
            member.processes,
            computes=member.computes,
            argv=member.argv,
            env=member.env,
            ports=member.ports,
            tolerations=member.tolerations,
            restart=member.restart,
            image=member.image,
            labels=member.labels,
        )
    )


def _has_room(gang: Gang, node: Node, snapshot: Snapshot) -> bool:
    """Shared CPUs can be given away up to what is not held exclusively; one must be left."""
    use = snapshot.use_of(node.name)
    free_cpus = sum(cpu.id not in use.cpus for cpu in node.cpus)
    if not free_cpus:
        return False
    shared_millis = max(0, use.resources.cpu_millis - 1000 * len(use.cpus))
    free_millis = min(node.cpu_millis - use.resources.cpu_millis, 1000 * free_cpus - shared_millis)
    free_bytes = node.memory_bytes - use.resources.memory_bytes
    asked_millis = sum(member.resources.cpu_millis for member in gang.members)
    asked_bytes = sum(member.resources.memory_bytes for member in gang.members)
    return (not asked_millis or asked_millis <= free_millis) and (
        not asked_bytes or asked_bytes <= free_bytes
    )
