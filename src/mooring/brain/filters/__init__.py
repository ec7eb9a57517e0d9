"""Why a node cannot take a member. Importing this package registers all filters."""

from mooring.brain.filters import (
    affinity,
    apart,
    devices,
    disks,
    host,
    kubelet,
    numa,
    ports,
    resources,
    selector,
    taints,
    together,
    topology_spread,
    volume_binding,
    volume_count,
    volume_zone,
)

__all__ = [
    "affinity",
    "apart",
    "devices",
    "disks",
    "host",
    "kubelet",
    "numa",
    "ports",
    "resources",
    "selector",
    "taints",
    "together",
    "topology_spread",
    "volume_binding",
    "volume_count",
    "volume_zone",
]
