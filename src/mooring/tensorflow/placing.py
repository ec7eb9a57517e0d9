"""Variables go to servers as the job says, and each is told to the launcher as it is made.

TensorFlow's strategy places in turn and can only be told how to cut. Where the next one goes is its
private count, which is set here before each variable; a version without it is refused by name.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from mooring.inside.mooring_inside.graph import name_and_part
from mooring.sdk import tell
from mooring.sharding import Placer, VariablePlacement, shards

_CREATE = "_create_variable_round_robin"
_COUNT = "_variable_count"


class Partitioner(tf.distribute.experimental.partitioners.Partitioner):
    """Cuts what is large into equal parts, one or more for each server."""

    def __init__(self, servers: int, most_bytes: int) -> None:
        self._servers = servers
        self._most_bytes = most_bytes

    def __call__(self, shape: Any, dtype: Any, axis: int = 0) -> list[int]:
        size_bytes = shape.num_elements() * dtype.size
        cuts = [1] * len(shape)
        cuts[axis] = shards(int(shape[axis]), size_bytes, self._servers, self._most_bytes)
        return cuts


def follow(extended: Any, servers: int, placement: VariablePlacement) -> None:
    """Make the strategy behind `extended` place by `placement`."""
    if not hasattr(extended, _CREATE) or not hasattr(extended, _COUNT):
        raise RuntimeError(
            f"TensorFlow {tf.__version__} places variables in a way that Mooring does not know: "
            "use tf.distribute.ParameterServerStrategy itself"
        )
    create, placer = getattr(extended, _CREATE), Placer(servers, placement)

    def placed(next_creator: Any, **kwargs: Any) -> Any:
        setattr(extended, _COUNT, placer.peek())
        made = create(next_creator, **kwargs)
        size_bytes = made.shape.num_elements() * made.dtype.size
        server = placer.place(size_bytes)
        tell({"variables": [described(made, server, size_bytes)]})
        return made

    setattr(extended, _CREATE, placed)


def described(variable: Any, server: int, size_bytes: int) -> dict[str, object]:
    name, part = name_and_part(variable)
    return {
        "name": name,
        "shape": list(variable.shape),
        "bytes": size_bytes,
        "server": server,
        "part": part,
    }
