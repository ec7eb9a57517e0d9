"""Why a node cannot take a member. Importing this package registers all filters."""

from mooring.brain.filters import apart, numa, ports, resources, selector, taints, together

__all__ = ["apart", "numa", "ports", "resources", "selector", "taints", "together"]
