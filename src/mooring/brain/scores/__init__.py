"""How well a node would do. Importing this package registers all scores."""

from mooring.brain.scores import (
    affinity,
    apart,
    links,
    numa,
    pack,
    requested,
    room,
    servers,
    spread,
    taints,
    together,
    traffic,
)

__all__ = [
    "affinity",
    "apart",
    "links",
    "numa",
    "pack",
    "requested",
    "room",
    "servers",
    "spread",
    "taints",
    "together",
    "traffic",
]
