"""What members send each other in a step, as the author of a job declares it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mooring.model.traffic import Pattern
from mooring.spec.base import Rejection, SpecModel, rejected
from mooring.spec.fields import Memory

_MOST_SERVERS = 10_000


class TrafficSpec(SpecModel):
    """What members exchange in one step of training; placing takes it into account."""

    pattern: Pattern | None = Field(
        None,
        description="`parameter-server`: every worker exchanges with every server; `ring`: every "
        "member sends to the next. Not given: what the strategy implies.",
        examples=["ring"],
    )
    bytes_per_step: Memory | None = Field(
        None,
        alias="bytesPerStep",
        description="Bytes in each direction in one step. With parameter servers: what one worker "
        "exchanges with all servers together, the same with each. In a ring: what one member sends "
        "to its neighbour (2(n-1)/n of the gradients for n members).",
        examples=["400Mi"],
    )
    per_server: (
        Annotated[tuple[Memory, ...], Field(min_length=1, max_length=_MOST_SERVERS)] | None
    ) = Field(
        None,
        alias="perServer",
        description="Instead of `bytesPerStep`, where servers differ: what one worker exchanges "
        "with each server in a step, one amount a server in their order.",
        examples=[["300Mi", "100Mi"]],
    )

    @model_validator(mode="after")
    def _one_way_of_saying_it(self) -> Self:
        if (self.bytes_per_step is None) == (self.per_server is None):
            found = "both" if self.per_server is not None else "neither"
            accepted = "one of: bytesPerStep, perServer"
            raise rejected([Rejection(found, accepted, ("bytesPerStep",))])
        if self.per_server is not None and self.pattern is Pattern.RING:
            raise rejected(
                [Rejection("a list", "bytesPerStep: a ring has no servers", ("perServer",))]
            )
        return self
