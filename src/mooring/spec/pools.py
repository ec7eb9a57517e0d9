"""Pools in a cluster file: what each team is guaranteed, may borrow, and weighs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mooring.model.resources import Resources
from mooring.spec.base import Rejection, SpecModel, describe, rejected
from mooring.spec.fields import Duration, Label, Number, Priority, PriorityNumber, Whole
from mooring.spec.role import ResourceSpec

#: Kinds that pools divide, as files and as `Resources` call them.
_FIELDS = {"cpu": "cpu_millis", "memory": "memory_bytes", "gpu": "gpus"}
KINDS = frozenset(_FIELDS)


class PoolEntry(SpecModel):
    """One pool of the cluster."""

    name: Label = Field(description="What jobs call it in `spec.pool`.", examples=["ads"])
    guaranteed: ResourceSpec = Field(
        ResourceSpec(),
        description="What is always there for its jobs; others give it back when they ask. Nodes "
        "with this `pool` count in addition.",
        examples=[{"gpu": 8}],
    )
    cap: ResourceSpec | None = Field(
        None,
        description="What it may hold at most, borrowed included; at least what it is guaranteed. "
        "Not given, or of a kind not named: no limit.",
        examples=[{"gpu": 16}],
    )
    weight: Annotated[Number, Field(gt=0, le=1e6)] = Field(
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

    def named(self) -> frozenset[str]:
        """The kinds of resources that it speaks of."""
        return frozenset().union(*(_named(each) for each in (self.guaranteed, self.cap) if each))

    def amounts(
        self, divided: frozenset[str], total: Resources
    ) -> tuple[Resources, Resources | None]:
        """(guaranteed, cap). What a cap does not name is not limited: all that there is."""
        if self.cap is None:
            return self.guaranteed.to_model(), None
        cap, named = self.cap.to_model(), _named(self.cap)
        for kind in divided - named:
            cap = replace(cap, **{_FIELDS[kind]: getattr(total, _FIELDS[kind])})
        return self.guaranteed.to_model(), cap


class ClusterPool(PoolEntry):
    """A Pool of a Kubernetes cluster: also whose jobs may use it."""

    namespaces: Annotated[tuple[Label, ...], Field(max_length=1000)] | None = Field(
        None,
        description="The namespaces whose jobs may use it. Not given: all.",
        examples=[["ads", "ads-research"]],
    )
    max_priority: Priority | None = Field(
        None,
        alias="maxPriority",
        description="How high the `spec.priority` of its jobs may be: a whole number or the name "
        "of a priority class. Not given: no limit. The Pool `default` speaks for jobs without a "
        "pool, and for pools that are not described.",
        examples=["high"],
    )


def _named(amounts: ResourceSpec) -> frozenset[str]:
    return frozenset(kind for kind in _FIELDS if getattr(amounts, kind) is not None)


class MoveGroups(SpecModel):
    """When nodes with a `pool` go to another pool. Loads are what a pool holds and waits for,
    divided by its guarantee.
    """

    short: Annotated[Whole | Number, Field(gt=0, le=1000)] = Field(
        1.0, description="A pool whose load is above this takes nodes.", examples=[1.2]
    )
    spare: Annotated[Whole | Number, Field(ge=0, le=1)] = Field(
        0.7,
        description="A pool whose load without the nodes is below this gives them: 0 to 1, and "
        "less than `short`.",
        examples=[0.5],
    )
    delay_s: Duration = Field(
        300.0, alias="delay", description="How long both must have been so.", examples=["10m"]
    )
    rest_s: Duration = Field(
        1800.0,
        alias="rest",
        description="How long nodes stay where they are after a move.",
        examples=["1h"],
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if not self.spare < self.short:
            accepted = f"less than short ({self.short:g})"
            raise rejected([Rejection(describe(self.spare), accepted, ("spare",))])
        return self


class PoolsFile(SpecModel):
    """A pools file: how jobs share one machine."""

    api_version: Literal["mooring.dev/v1"] = Field(
        "mooring.dev/v1",
        alias="apiVersion",
        description="The version of this format.",
        examples=["mooring.dev/v1"],
    )
    kind: Literal["Pools"] = Field("Pools", description="What the file is.", examples=["Pools"])
    pools: Annotated[tuple[PoolEntry, ...], Field(max_length=1000)] = Field(
        (),
        description="How teams share the machine. None: everybody takes from the same.",
        examples=[[{"name": "ads", "guaranteed": {"gpu": 2}}]],
    )
    priority_classes: Annotated[dict[Label, PriorityNumber], Field(max_length=1000)] = Field(
        {},
        alias="priorityClasses",
        description="Names that jobs may write in `spec.priority`, each with its number; beside "
        "`low` (-60), `normal` (0), `high` (60) and `urgent` (600), which may be given others.",
        examples=[{"nightly": -100}],
    )
