"""Pools in a cluster file: what each team is guaranteed, may borrow, and weighs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mooring.model.resources import Resources
from mooring.spec.base import SpecModel
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

    def amounts(self) -> tuple[Resources, Resources | None]:
        """(guaranteed, cap)"""
        return self.guaranteed.to_model(), None if self.cap is None else self.cap.to_model()
