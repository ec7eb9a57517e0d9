"""Where the members of a gang go: pure, deterministic, with a reason for every node that lost.

Everything it knows is in its arguments, so the local runtime, a cluster and a simulator can use the
same code. Imported on use: `only_node` does without all the rest, and without numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.brain.place_gang import place
    from mooring.brain.profile import Profile
    from mooring.brain.state import ClusterState

__all__ = ["ClusterState", "Profile", "place"]

_HOMES = {
    "ClusterState": "mooring.brain.state",
    "Profile": "mooring.brain.profile",
    "place": "mooring.brain.place_gang",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
