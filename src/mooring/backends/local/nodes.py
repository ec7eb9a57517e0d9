"""The nodes of a local run: this machine as it is, or cut into virtual nodes.

Knows what the other runs of this user hold, gives members their addresses, and writes the host
names that resolve inside virtual nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mooring.backends.local.machine import this_machine
from mooring.backends.local.ports import MachinePorts, PrivatePorts
from mooring.backends.local.virtual import VirtualNetwork, cut
from mooring.model.cluster import NodeUse, Snapshot
from mooring.model.launch import Address
from mooring.model.member import Member, MemberId
from mooring.model.plan import use_with
from mooring.record import RunRecord, holding_runs
from mooring.record.plan_file import Holding, read_holdings

LOOPBACK = "127.0.0.1"


def holdings_of_others(me: str | None) -> list[Holding]:
    """What each member of the other live runs of this user holds of this machine."""
    others = [run for run in holding_runs() if run.info.id != me]
    return [holding for run in others for holding in read_holdings(run.plan_file)]


def held_by_others(me: str | None) -> NodeUse:
    """The same, summed up."""
    use = NodeUse()
    for holding in holdings_of_others(me):
        use = use_with(use, holding.slot, holding.resources)
    return use


def local_snapshot(virtual_nodes: int, nic_mbps: int | None, me: str | None = None) -> Snapshot:
    """This machine now, whole or cut; nothing is made."""
    machine, others = this_machine(), held_by_others(me)
    if not virtual_nodes:
        return Snapshot((machine,), {machine.name: others})
    # A virtual node has whole cards or none.
    taken = others.gpus | {card for card, _ in others.gpu_shares}
    free = replace(
        machine,
        cpus=tuple(cpu for cpu in machine.cpus if cpu.id not in others.cpus) or machine.cpus,
        gpus=tuple(gpu for gpu in machine.gpus if gpu.index not in taken),
        memory_bytes=max(0, machine.memory_bytes - others.resources.memory_bytes),
    )
    free_millis = max(0, machine.cpu_millis - others.resources.cpu_millis)
    return Snapshot(cut(free, virtual_nodes, nic_mbps, free_millis))


class LocalNodes:
    """Either this machine, with reserved ports on loopback, or one run's virtual nodes."""

    def __init__(self, run: RunRecord, snapshot: Snapshot, *, virtual: bool) -> None:
        self._run = run
        self._snapshot = snapshot
        self._machine_ports = MachinePorts()
        self._private_ports = PrivatePorts()
        self._network = VirtualNetwork(run.info.token, snapshot.nodes) if virtual else None

    def snapshot(self) -> Snapshot:
        """This machine as it is now; virtual nodes as they were cut, they do not change."""
        if self._network is not None:
            return self._snapshot
        return local_snapshot(0, None, self._run.info.id)

    def make(self) -> None:
        if self._network is not None:
            self._network.make()

    def release_ports(self) -> None:
        """A new epoch gets new ports: the old ones may still be closing."""
        self._machine_ports.release_all()
        self._private_ports = PrivatePorts()

    def addresses(self, members: Sequence[Member]) -> dict[MemberId, Address]:
        """A host and reserved ports for each member; fixed ports are claimed before others."""
        wishes = [(member, name, port) for member in members for name, port in member.ports.items()]
        self._private_ports.reserve(port for _, _, port in wishes)
        ports: dict[MemberId, dict[str, int]] = {member.id: {} for member in members}
        for member, name, port in sorted(wishes, key=lambda wish: wish[2] == 0):
            path = f"spec.roles.{member.id.role}.ports.{name}"
            if self._network is not None:
                # The brain has put members with the same fixed port on different nodes.
                ports[member.id][name] = port or self._private_ports.take()
            elif port:
                ports[member.id][name] = self._machine_ports.take_fixed(port, path)
            else:
                ports[member.id][name] = self._machine_ports.take()
        return {
            member.id: Address(
                member.hostname if self._network else LOOPBACK,
                {name: ports[member.id][name] for name in member.ports},
            )
            for member in members
        }

    def write_hosts(self, path: Path, hostnames: Mapping[str, str]) -> Path | None:
        """The /etc/hosts of the virtual nodes (host name -> node); None on loopback.

        Written in place: it is bound into the mount namespaces of members that already run.
        """
        if self._network is None:
            return None
        by_name = {node.name: node.address for node in self._network.nodes}
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
        lines += [f"{address} {name}" for name, address in by_name.items()]
        lines += [f"{by_name[node]} {hostname}" for hostname, node in hostnames.items()]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def namespace_of(self, node: str) -> str | None:
        return self._network.namespace_of(node) if self._network else None

    def bytes_by_node(self) -> dict[str, tuple[int, int]]:
        return self._network.bytes_by_node() if self._network else {}

    def close(self) -> None:
        if self._network is not None:
            self._network.close()
            self._network = None
        self._machine_ports.close()
