"""How a job's variables are divided over its parameter servers, as its author declares it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from mooring.sharding import VariablePlacement
from mooring.spec.base import SpecModel
from mooring.spec.fields import Memory


class Lookups(StrEnum):
    """How Keras' Embedding layers get at their rows."""

    AS_WRITTEN = "as-written"
    ROWS = "rows"


class Optimizer(StrEnum):
    """Which rows Keras' Adam touches."""

    AS_WRITTEN = "as-written"
    LAZY = "lazy"


class VariablesSpec(SpecModel):
    """Where variables live, and how tables are read and written.

    The SDK carries out the placement (`mooring.tensorflow.strategy()`); `lookups` and `optimizer`
    change Keras itself in the chief's program, which stays as it is.
    """

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
    lookups: Lookups = Field(
        Lookups.AS_WRITTEN,
        description="`rows`: the Embedding layers of Keras 3 fetch the rows that a batch needs "
        "instead of the whole table; the result is the same.",
        examples=["rows"],
    )
    optimizer: Optimizer = Field(
        Optimizer.AS_WRITTEN,
        description="`lazy`: Adam of Keras 3 touches only rows that have a gradient. That is "
        "another optimizer: compare the loss.",
        examples=["lazy"],
    )
