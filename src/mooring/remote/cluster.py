"""The cluster as it is now, read once: what the operator's caches would hold.

But for what kubelets are set to: whether the operator may ask them is its installation's choice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from mooring.bodies.kubernetes.nodes import NodeView, parse_node, with_hardware
from mooring.bodies.kubernetes.pods import PodView, parse_pod
from mooring.bodies.kubernetes.topology import parse_topology
from mooring.kubeapi.client import Client
from mooring.kubeapi.document import Object
from mooring.kubeapi.errors import Forbidden, NotFound
from mooring.kubeapi.resources import NODE, NODE_TOPOLOGY, POD, POOL, TRAINING_JOB, Kind
from mooring.model.errors import BadInput
from mooring.operator.admission import Candidate, candidate
from mooring.operator.jobs import JobView, meaning_of, parse_view
from mooring.operator.pools import PoolView, parse_pool
from mooring.spec.load import load_cluster_file

#: A node of a cluster file takes as many pods as a kubelet does by default.
_MOST_PODS = 110


@dataclass(frozen=True)
class ClusterNow:
    """Nodes, every pod on them, all jobs and pools."""

    nodes: tuple[NodeView, ...]
    pods: tuple[PodView, ...] = ()
    jobs: tuple[JobView, ...] = ()
    pools: tuple[PoolView, ...] = ()

    def candidates(self) -> list[Candidate]:
        """Those that wait for a place or hold one; jobs with mistakes are nobody's rivals."""
        found = []
        for view in self.jobs:
            try:
                one = None if view.deleting else candidate(view, meaning_of(view.object))
            except BadInput:
                continue
            if one is not None:
                found.append(one)
        return found


async def read_cluster(client: Client) -> ClusterNow:
    nodes, pods, jobs, pools, topologies = await asyncio.gather(
        client.list(NODE),
        client.list(POD),
        client.list(TRAINING_JOB),
        _optional(client, POOL),
        _optional(client, NODE_TOPOLOGY),
    )
    cells = {one.name: one for one in map(parse_topology, topologies)}
    views = map(parse_node, nodes)
    return ClusterNow(
        tuple(with_hardware(view, cells.get(view.name), None) for view in views),
        tuple(map(parse_pod, pods)),
        tuple(map(parse_view, jobs)),
        tuple(map(parse_pool, pools)),
    )


def described_cluster(cluster_file: Path) -> ClusterNow:
    """An empty cluster of the nodes and pools of a cluster file."""
    file = load_cluster_file(cluster_file)
    return ClusterNow(
        tuple(NodeView(node, True, _MOST_PODS) for node in file.to_nodes()),
        pools=tuple(PoolView(entry) for entry, _, _ in file.shares()),
    )


async def _optional(client: Client, kind: Kind) -> tuple[Object, ...]:
    """Nothing where the kind does not exist, or is not for this user to see."""
    try:
        return await client.list(kind)
    except (NotFound, Forbidden):
        return ()
