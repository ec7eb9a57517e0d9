"""What the members of a gang send each other in one step: measured, or declared by the author."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Pattern(StrEnum):
    PARAMETER_SERVER = "parameter-server"
    RING = "ring"


@dataclass(frozen=True)
class Traffic:
    """Bytes in each direction.

    parameter-server: what one worker exchanges in a step with all servers together, the same with
    each; ring: what one member sends to its neighbour. `per_server` is what one worker exchanges
    with each server where they differ, in their order; `bytes_per_step` is then the sum.
    """

    pattern: Pattern
    bytes_per_step: int
    per_server: tuple[int, ...] = ()
