"""Which live runs hold what of this machine, and the machine as nodes with all that on them.

A queue plans on the same nodes for weeks, so the machine is cut once, whole, whatever is held on
it. What runs of that queue hold is on the node that their plan names. What other runs hold counts
by the CPUs and devices themselves, because a run outside may have cut the machine otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mooring.backends.local.machine import this_machine
from mooring.backends.local.virtual import cut
from mooring.brain.state import ClusterState
from mooring.model.cluster import Node, NodeUse, Snapshot
from mooring.model.errors import BadInput
from mooring.model.member import Gang, MemberId
from mooring.model.plan import Plan, Slot, use_with
from mooring.model.resources import Resources
from mooring.record import RunRecord, holding_runs
from mooring.record.plan_file import Holding, read_holdings


@dataclass(frozen=True)
class LiveRun:
    """A run that holds something now."""

    run: RunRecord
    holdings: tuple[Holding, ...]

    @property
    def id(self) -> str:
        return self.run.info.id


def live_runs() -> list[LiveRun]:
    """The runs of this user that hold something now, each with what its members hold.

    A run of a newer Mooring, whose plan cannot be read, holds the whole machine as far as is known.
    """
    return [LiveRun(run, _holdings(run)) for run in holding_runs()]


def _holdings(run: RunRecord) -> tuple[Holding, ...]:
    try:
        return tuple(read_holdings(run.plan_file))
    except BadInput:
        machine = this_machine()
        slot = Slot(
            machine.name,
            tuple(cpu.id for cpu in machine.cpus),
            gpus=tuple(gpu.index for gpu in machine.gpus if gpu.healthy),
            exclusive=True,
        )
        return (Holding(MemberId("unknown", 0), machine.capacity, slot),)


@dataclass(frozen=True)
class NodeCut:
    """How a queue sees a machine: as it is (`virtual_nodes` 0), or as so many virtual nodes."""

    machine: Node
    virtual_nodes: int = 0
    nic_mbps: int | None = None

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        if not self.virtual_nodes:
            return (self.machine,)
        machine = self.machine
        return cut(machine, self.virtual_nodes, self.nic_mbps, machine.cpu_millis)

    def snapshot(self, runs: Iterable[LiveRun]) -> Snapshot:
        """The nodes with what these runs hold on them."""
        nodes = self.nodes
        use = {node.name: NodeUse() for node in nodes}
        for live in runs:
            info = live.run.info
            ours = info.queue_job and info.virtual_nodes == self.virtual_nodes
            for holding in live.holdings:
                if ours and holding.slot.node in use:
                    name = holding.slot.node
                    use[name] = use_with(use[name], holding.slot, holding.resources)
                else:
                    _count_outside(use, nodes, holding)
        return Snapshot(nodes, use)


def _count_outside(use: dict[str, NodeUse], nodes: Sequence[Node], holding: Holding) -> None:
    """What a member of another run holds: CPUs and devices of its own on the nodes that have
    them, amounts on all nodes alike."""
    slot, count = holding.slot, len(nodes)
    cpus = frozenset(slot.cpus) if slot.exclusive else frozenset()
    shared = holding.resources
    if slot.exclusive:
        shared = replace(shared, cpu_millis=max(0, shared.cpu_millis - 1000 * len(cpus)))
    part = Resources(-(-shared.cpu_millis // count), -(-shared.memory_bytes // count))
    for node in nodes:
        own_cpus = cpus & {cpu.id for cpu in node.cpus}
        own_gpus = set(slot.gpus) & {gpu.index for gpu in node.gpus}
        amount = part + Resources(cpu_millis=1000 * len(own_cpus))
        shares = dict(use[node.name].gpu_shares)
        if slot.gpu_share_millis:
            for card in own_gpus:
                shares[card] = shares.get(card, 0) + slot.gpu_share_millis
        elif own_gpus:
            amount = amount + Resources(gpus=len(own_gpus))
        before = use[node.name]
        use[node.name] = replace(
            before,
            resources=before.resources + amount,
            cpus=before.cpus | own_cpus,
            gpus=before.gpus if slot.gpu_share_millis else before.gpus | own_gpus,
            gpu_shares=tuple(sorted(shares.items())),
            # Somewhere a CPU must be left to those who share: one node is enough.
            sharers=before.sharers + (not slot.exclusive and node is nodes[-1]),
        )


def sized_to(gang: Gang, plan: Plan) -> Gang:
    """The members of a gang that have a place in the plan, to be started whole."""
    there = {placement.member for placement in plan.placements}
    members = tuple(member for member in gang.members if member.id in there)
    return replace(gang, members=members, all_or_nothing=True)


def fits(gang: Gang, plan: Plan, snapshot: Snapshot) -> bool:
    """Whether all that the plan gives these members is free on the nodes."""
    try:
        ClusterState(snapshot).assume(gang, plan)
    except ValueError:
        return False
    return True
