"""The load on NICs that a plan leads to: who exchanges how much with whom across nodes.

With parameter servers every worker exchanges the same with each server, so a node with w of W
workers and s of S servers carries w(S - s) + s(W - w) of these exchanges. In a ring only edges
between members on different nodes are carried. Members on one node cost the NIC nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.brain.board import Board
from mooring.brain.layout import Rows, Values
from mooring.model.cluster import Node
from mooring.model.member import Duty, Gang
from mooring.model.plan import Plan
from mooring.model.traffic import Pattern, Traffic

_MEGA = 1_000_000


@dataclass(frozen=True)
class Link:
    """The busiest NIC: what it carries in each direction in one step, and how long that takes."""

    node: str
    bytes_per_step: float
    seconds_per_step: float | None

    def __str__(self) -> str:
        amount = f"{self.bytes_per_step / _MEGA:.1f} MB a step each way"
        if self.seconds_per_step is None:
            return f"predicted busiest link: {self.node}, {amount}"
        return f"predicted busiest link: {self.node}, {amount}, {self.seconds_per_step:.3f} s"


def crossing(board: Board, rows: Rows, joining: str) -> Values:
    """The load of nodes with one more member of this role, in loads of a lone server."""
    assert board.gang.traffic is not None
    if board.gang.traffic.pattern is Pattern.RING:
        # Two edges leave a run of neighbours, whatever its length; none if all are here.
        members = board.members[rows] + 1
        return np.where(members >= sum(board.sizes.values()), 0.0, 1.0)
    servers, workers = _sides(board.gang, board.sizes)
    serving = _count(board, rows, servers) + (joining in servers)
    working = _count(board, rows, workers) + (joining in workers)
    all_serving = sum(board.sizes[role] for role in servers)
    all_working = sum(board.sizes[role] for role in workers)
    pairs: Values = working * (all_serving - serving) + serving * (all_working - working)
    return pairs / max(1, all_working)


def busiest_link(gang: Gang, plan: Plan, nodes: Sequence[Node]) -> Link | None:
    """The NIC that takes longest for one step of this plan; None without traffic between nodes."""
    index = {node.name: number for number, node in enumerate(nodes)}
    roles = [placement.member.role for placement in plan.placements]
    return busiest(
        gang, roles, [index[placement.slot.node] for placement in plan.placements], nodes
    )


def busiest(
    gang: Gang, roles: Sequence[str], where: Sequence[int], nodes: Sequence[Node]
) -> Link | None:
    """The same for members of these roles on these nodes, in the order of the gang."""
    if gang.traffic is None or not where:
        return None
    loads = _loads(gang, gang.traffic, roles, np.array(where), len(nodes))
    used = np.flatnonzero(loads)
    if not len(used):
        return None
    speeds = np.array([nodes[index].nic_mbps or 0 for index in used.tolist()], dtype=np.float64)
    known = speeds[speeds > 0]
    if not len(known):
        best = int(used[np.argmax(loads[used])])
        return Link(nodes[best].name, float(loads[best]), None)
    seconds = loads[used] * 8 / (np.maximum(speeds, known.min()) * _MEGA)
    at = int(np.argmax(seconds))
    best = int(used[at])
    return Link(nodes[best].name, float(loads[best]), float(seconds[at]))


def _loads(
    gang: Gang, traffic: Traffic, roles: Sequence[str], where: NDArray[np.intp], nodes: int
) -> Values:
    """Bytes in each direction, by node."""
    if traffic.pattern is Pattern.RING:
        leaving = where != np.roll(where, -1)
        edges = np.bincount(where[leaving], minlength=nodes)
        return edges.astype(np.float64) * traffic.bytes_per_step
    servers, workers = _sides(gang, dict.fromkeys(roles))
    at_servers = where[[role in servers for role in roles]]
    working = np.bincount(where[[role in workers for role in roles]], minlength=nodes)
    if len(traffic.per_server) == len(at_servers):
        here = np.bincount(at_servers, weights=traffic.per_server, minlength=nodes)
        unequal: Values = working * (here.sum() - here) + here * (working.sum() - working)
        return unequal
    serving = np.bincount(at_servers, minlength=nodes)
    pairs = working * (serving.sum() - serving) + serving * (working.sum() - working)
    loads: Values = pairs * (traffic.bytes_per_step / max(1, int(serving.sum())))
    return loads


def _sides(gang: Gang, roles: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those that serve, and those that train."""
    duties = {role: gang.duty_of(role) for role in roles}
    servers = tuple(role for role, duty in duties.items() if duty is Duty.SERVES)
    workers = tuple(role for role, duty in duties.items() if duty is Duty.TRAINS)
    return servers, workers


def _count(board: Board, rows: Rows, roles: tuple[str, ...]) -> Values:
    count = np.zeros(len(board.members[rows]))
    for role in roles:
        count += board.role(role)[rows]
    return count
