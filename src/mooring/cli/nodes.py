"""Which nodes a planning command looks at, and by which profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from mooring.cli import options

if TYPE_CHECKING:
    from mooring.brain.queue import PoolSpec
    from mooring.model.cluster import Snapshot

Command = TypeVar("Command", bound=Callable[..., object])


def where(command: Command) -> Command:
    """--nodes, --nic-mbps, --cluster, --profile."""
    cluster = click.option(
        "--cluster",
        "cluster_file",
        metavar="CLUSTER.yaml",
        type=click.Path(path_type=Path),
        help="Plan on the nodes that this file describes instead of this machine.",
    )
    profile = click.option(
        "--profile",
        "profile_name",
        metavar="P",
        default="default",
        help="The rules and weights: a file, or default, packed, roomy or full.",
    )
    return options.where(cluster(profile(command)))


def snapshot_of(
    nodes: str | None, nic_mbps: int | None, cluster_file: Path | None
) -> tuple[Snapshot, tuple[PoolSpec, ...]]:
    """The nodes, and the pools that share them."""
    from mooring.app import choose_nodes
    from mooring.bodies.local.nodes import local_snapshot
    from mooring.brain.queue import PoolSpec
    from mooring.model.cluster import Snapshot
    from mooring.model.errors import BadInput
    from mooring.spec.load import load_cluster, load_pools

    if cluster_file is None:
        where = choose_nodes(nodes, nic_mbps)
        return local_snapshot(where.virtual_nodes, where.nic_mbps), ()
    if nodes is not None or nic_mbps is not None:
        raise BadInput.at("moor", "--nodes", "--cluster as well", "one of the two")
    pools = tuple(
        PoolSpec(entry.name, *entry.amounts(), float(entry.weight))
        for entry in load_pools(cluster_file)
    )
    return Snapshot(load_cluster(cluster_file)), pools
