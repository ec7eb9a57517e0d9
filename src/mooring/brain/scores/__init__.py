"""How well a node would do. Importing this package registers all scores."""

from mooring.brain.scores import apart, numa, pack, room, servers, spread, taints, together

__all__ = ["apart", "numa", "pack", "room", "servers", "spread", "taints", "together"]
