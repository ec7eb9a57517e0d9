"""How well a node would do. Importing this package registers all scores."""

from mooring.brain.scores import (
    affinity,
    apart,
    avoid,
    images,
    links,
    numa,
    pack,
    pipeline,
    requested,
    room,
    selector_spread,
    servers,
    spread,
    taints,
    together,
    traffic,
)

__all__ = [
    "affinity",
    "apart",
    "avoid",
    "images",
    "links",
    "numa",
    "pack",
    "pipeline",
    "requested",
    "room",
    "selector_spread",
    "servers",
    "spread",
    "taints",
    "together",
    "traffic",
]
