"""Which nodes a planning command looks at, and by which profile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from mooring.cli import options
from mooring.cli.say import say

if TYPE_CHECKING:
    from mooring.brain.profile import Profile
    from mooring.planning import Cluster

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


def cluster_of(nodes: str | None, nic_mbps: int | None, cluster_file: Path | None) -> Cluster:
    """The nodes, and how jobs share them."""
    from mooring.app import choose_nodes
    from mooring.backends.local.nodes import local_snapshot
    from mooring.model.errors import BadInput
    from mooring.planning import Cluster

    if cluster_file is None:
        where = choose_nodes(nodes, nic_mbps)
        return Cluster(local_snapshot(where.virtual_nodes, where.nic_mbps))
    if nodes is not None or nic_mbps is not None:
        raise BadInput.at("moor", "--nodes", "--cluster as well", "one of the two")
    return described(cluster_file)


def described(cluster_file: Path) -> Cluster:
    """What a cluster file says."""
    from mooring.brain.queue import Groups, MovePolicy, PooledNodes, PoolSpec
    from mooring.brain.queue.order import CLASSES
    from mooring.planning import Cluster
    from mooring.spec.load import load_cluster_file

    file = load_cluster_file(cluster_file)
    rule = file.move_groups
    policy = None
    if rule is not None:
        policy = MovePolicy(rule.short, rule.spare, rule.delay_s, rule.rest_s)
    return Cluster(
        file.to_snapshot(),
        tuple(
            PoolSpec(entry.name, guaranteed, cap, float(entry.weight))
            for entry, guaranteed, cap in file.shares()
        ),
        Groups(
            tuple(PooledNodes(name, *owned) for name, owned in file.groups().items()),
            policy,
        ),
        {**CLASSES, **file.priority_classes},
    )


def profile_of(name: str) -> Profile:
    """The profile of that name or file; what of the file has no meaning here is told."""
    from mooring.simulate.profiles import read_profile

    reading = read_profile(name)
    for note in reading.notes:
        say(f"note: {note}", err=True)
    return reading.profile
