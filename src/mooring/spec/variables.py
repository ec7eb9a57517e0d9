"""How a job's variables are divided over its parameter servers, as its author declares it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mooring.sharding import VariablePlacement
from mooring.spec.base import SpecModel
from mooring.spec.fields import Memory


class VariablesSpec(SpecModel):
    """Where variables live; the SDK carries it out (`mooring.tensorflow.strategy()`)."""

    placement: VariablePlacement = Field(
        VariablePlacement.PARTITIONED,
        description="`partitioned`: what is large is cut by rows into a part for each server, the "
        "rest goes to the server with the fewest bytes; `balanced`: whole variables, each to the "
        "server with the fewest bytes; `round-robin`: whole variables in turn.",
        examples=["balanced"],
    )
    max_shard_bytes: Annotated[Memory, Field(ge=1024)] | None = Field(
        None,
        alias="maxShardBytes",
        description="With `partitioned`: the largest part of a variable. Not given: as many parts "
        "as there are servers, none above 1Gi.",
        examples=["64Mi"],
    )
