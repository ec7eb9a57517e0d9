"""Why a node cannot take a member. Importing this package registers all filters."""

from mooring.brain.filters import (
    affinity,
    apart,
    devices,
    host,
    kubelet,
    numa,
    ports,
    resources,
    selector,
    taints,
    together,
    topology_spread,
)

__all__ = [
    "affinity",
    "apart",
    "devices",
    "host",
    "kubelet",
    "numa",
    "ports",
    "resources",
    "selector",
    "taints",
    "together",
    "topology_spread",
]
