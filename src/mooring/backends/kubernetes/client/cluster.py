"""The cluster as it is now, read once: what the operator's caches would hold.

But for what kubelets are set to: whether the operator may ask them is its installation's choice.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from mooring.backends.kubernetes.api.client import Client
from mooring.backends.kubernetes.api.document import Object
from mooring.backends.kubernetes.api.errors import Forbidden, NotFound
from mooring.backends.kubernetes.api.resources import (
    CLAIM,
    CSI_NODE,
    NODE,
    NODE_TOPOLOGY,
    POD,
    POOL,
    STORAGE_CLASS,
    TRAINING_JOB,
    VOLUME,
    ResourceKind,
)
from mooring.backends.kubernetes.jobs.admission import JobCandidate, candidate
from mooring.backends.kubernetes.jobs.pools import PoolView, access_rules, parse_pool
from mooring.backends.kubernetes.jobs.training_job import (
    JobView,
    parse_training_job,
    parse_view,
    record_of,
)
from mooring.backends.kubernetes.objects.nodes import (
    NodeView,
    parse_node,
    with_hardware,
    with_limits,
)
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from mooring.backends.kubernetes.objects.storage import (
    parse_claim,
    parse_class,
    parse_limits,
    parse_volume,
    storage_of,
)
from mooring.backends.kubernetes.objects.topology import parse_topology
from mooring.model.errors import BadInput
from mooring.model.volumes import Storage
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
    storage: Storage | None = None

    def candidates(self) -> list[JobCandidate]:
        """Those that wait for a place or hold one; jobs with mistakes are nobody's rivals."""
        found, rules = [], access_rules(self.pools)
        for view in self.jobs:
            if view.deleting:
                continue
            try:
                parsed = parse_training_job(view.object)
            except BadInput:
                continue
            job_candidate = candidate(view, parsed, record_of(view, parsed), rules)
            if job_candidate is not None:
                found.append(job_candidate)
        return found


async def read_cluster(client: Client) -> ClusterNow:
    always = asyncio.gather(client.list(NODE), client.list(POD), client.list(TRAINING_JOB))
    maybe = asyncio.gather(
        _optional(client, POOL), _optional(client, NODE_TOPOLOGY), _optional(client, CSI_NODE)
    )
    there, also, storage = await asyncio.gather(always, maybe, _storage(client))
    (nodes, pods, jobs), (pools, topologies, limits) = there, also
    cells = {one.name: one for one in map(parse_topology, topologies or ())}
    attachable = {one.node: one.limits for one in map(parse_limits, limits or ())}
    views = [
        with_limits(with_hardware(view, cells.get(view.name), None), attachable.get(view.name, ()))
        for view in map(parse_node, nodes)
    ]
    return ClusterNow(
        tuple(views),
        tuple(map(parse_pod, pods)),
        tuple(map(parse_view, jobs)),
        tuple(map(parse_pool, pools or ())),
        storage,
    )


async def _storage(client: Client) -> Storage | None:
    claims, volumes, classes = await asyncio.gather(
        *(_optional(client, kind) for kind in (CLAIM, VOLUME, STORAGE_CLASS))
    )
    if claims is None or volumes is None or classes is None:
        return None
    return storage_of(
        map(parse_claim, claims), map(parse_volume, volumes), map(parse_class, classes)
    )


def described_cluster(cluster_file: Path) -> ClusterNow:
    """An empty cluster of the nodes and pools of a cluster file."""
    file = load_cluster_file(cluster_file)
    return ClusterNow(
        tuple(NodeView(node, True, _MOST_PODS) for node in file.to_nodes()),
        pools=tuple(PoolView(entry) for entry, _, _ in file.shares()),
    )


async def _optional(client: Client, kind: ResourceKind) -> tuple[Object, ...] | None:
    """None where the kind does not exist, or is not for this user to see."""
    try:
        return await client.list(kind)
    except (NotFound, Forbidden):
        return None
