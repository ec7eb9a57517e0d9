"""Virtual nodes: this machine cut into nodes with an address, a NIC and a share of the CPUs."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from dataclasses import replace

from mooring.backends.local import netns
from mooring.model.cluster import Cpu, Node
from mooring.model.errors import BadInput, RunFailed
from mooring.record import locks_dir
from mooring.record.locks import NumberedLocks

#: Set aside for tests of network devices (RFC 2544), so that no machine has it in use.
_RANGE = ipaddress.IPv4Network("198.18.0.0/15")
_SUBNET_PREFIX = 24
#: Addresses .1 to .250 of a /24.
MOST_NODES = 250
OVERLAPPING = {"mooring.dev/cpus": "overlapping"}


def cut(machine: Node, count: int, nic_mbps: int | None, free_cpu_millis: int) -> tuple[Node, ...]:
    """`count` nodes out of one machine: neighbouring CPUs each, an equal share of the rest.

    With more nodes than CPUs the nodes share CPUs, and no member can hold one exclusively.
    """
    if not 1 <= count <= MOST_NODES:
        raise BadInput.at("moor", "--nodes", str(count), f"1 to {MOST_NODES}, or `auto`")
    ordered = sorted(machine.cpus, key=lambda cpu: (cpu.socket, cpu.cell, cpu.l3, cpu.core, cpu.id))
    shared = count > len(ordered)
    nodes = []
    for index in range(count):
        low, high = index * len(ordered) // count, (index + 1) * len(ordered) // count
        cpus: list[Cpu] = [ordered[index % len(ordered)]] if shared else ordered[low:high]
        gpu_low = index * len(machine.gpus) // count
        gpu_high = (index + 1) * len(machine.gpus) // count
        share_millis = free_cpu_millis // count
        nodes.append(
            Node(
                name=f"node-{index}",
                cpus=tuple(sorted(cpus, key=lambda cpu: cpu.id)),
                cpu_millis=share_millis if shared else min(1000 * len(cpus), free_cpu_millis),
                memory_bytes=machine.memory_bytes // count,
                gpus=machine.gpus[gpu_low:gpu_high],
                nic_mbps=nic_mbps,
                labels=OVERLAPPING if shared else {},
            )
        )
    return tuple(nodes)


class VirtualNetwork:
    """The namespaces of one run: made once, shared by all its epochs, removed at its end."""

    def __init__(self, token: str, nodes: tuple[Node, ...]) -> None:
        self._token = token
        self._locks = NumberedLocks(locks_dir() / "subnets")
        self._made = False
        subnet = self._subnet()
        hosts = subnet.hosts()
        self.nodes = tuple(replace(node, address=str(next(hosts))) for node in nodes)
        self._links = [
            netns.NodeLink(
                netns.namespace_name(token, index), node.address, _SUBNET_PREFIX, node.nic_mbps
            )
            for index, node in enumerate(self.nodes)
        ]

    def make(self) -> None:
        if not self._made:
            self._made = True
            netns.create(self._token, self._links)

    def namespace_of(self, node: str) -> str:
        index = next(i for i, candidate in enumerate(self.nodes) if candidate.name == node)
        return netns.namespace_path(self._links[index].namespace)

    def bytes_by_node(self) -> dict[str, tuple[int, int]]:
        """Node -> (received, sent) bytes on its NIC since the run began."""
        if not self._made:
            return {}
        counters = netns.interface_bytes(self._token, len(self.nodes))
        return {node.name: pair for node, pair in zip(self.nodes, counters, strict=True)}

    def close(self) -> None:
        if self._made:
            netns.remove(self._token)
            self._made = False
        self._locks.close()

    def _subnet(self) -> ipaddress.IPv4Network:
        """A /24 that neither the machine nor another run uses."""
        taken = _machine_networks()
        for number, subnet in enumerate(_RANGE.subnets(new_prefix=_SUBNET_PREFIX)):
            if any(subnet.overlaps(network) for network in taken):
                continue
            if self._locks.take(number):
                return subnet
        raise RunFailed(f"no network of {_RANGE} is free for virtual nodes")


def _machine_networks() -> list[ipaddress.IPv4Network]:
    answer = subprocess.run(
        ["ip", "-j", "-4", "route", "show", "table", "all"],
        capture_output=True,
        text=True,
        check=False,
        timeout=10,
    )
    networks = []
    for route in json.loads(answer.stdout or "[]"):
        destination = route.get("dst", "default")
        if destination != "default":
            networks.append(ipaddress.IPv4Network(destination, strict=False))
    return networks
