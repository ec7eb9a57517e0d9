"""Where the members of a gang go: pure, deterministic, with a reason for every node that lost.

Everything it knows is in its arguments, so the local body, a cluster and a simulator can use the
same code.
"""

from mooring.brain.place import place
from mooring.brain.profile import Profile
from mooring.brain.state import ClusterState

__all__ = ["ClusterState", "Profile", "place"]
