"""Pools in a cluster file: what each team is guaranteed, may borrow, and weighs."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mooring.model.resources import Resources
from mooring.spec.base import Rejection, SpecModel, describe, rejected
from mooring.spec.fields import Label, Number, Whole
from mooring.spec.role import ResourceSpec


class PoolEntry(SpecModel):
    """One pool of the cluster."""

    name: Label = Field(description="What jobs call it in `spec.pool`.", examples=["ads"])
    guaranteed: ResourceSpec = Field(
        ResourceSpec(),
        description="What is always there for its jobs; others give it back when they ask.",
        examples=[{"gpu": 8}],
    )
    cap: ResourceSpec | None = Field(
        None,
        description="What it may hold at most, borrowed included. Not given: no limit.",
        examples=[{"gpu": 16}],
    )
    weight: Annotated[Whole | Number, Field(gt=0, le=1e6)] = Field(
        1,
        description="Its part of what is left over, beside the weights of the other pools.",
        examples=[2],
    )

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        """The queue adds up CPUs, memory and GPUs for each pool, and nothing else."""
        found = [
            Rejection(describe(name), "cpu, memory or gpu: pools divide no others", (key, name))
            for key, amount in (("guaranteed", self.guaranteed), ("cap", self.cap))
            for name in (amount.extended if amount is not None else ())
        ]
        if found:
            raise rejected(found)
        return self

    def amounts(self) -> tuple[Resources, Resources | None]:
        """(guaranteed, cap)"""
        return self.guaranteed.to_model(), None if self.cap is None else self.cap.to_model()
