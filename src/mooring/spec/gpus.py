"""GPUs in a cluster file: how many, where they hang, and who is linked to whom."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from mooring.model.cluster import Gpu
from mooring.spec.base import Rejection, SpecModel, describe, rejected
from mooring.spec.fields import Memory, Text, Whole


class GpuSpec(SpecModel):
    """The GPUs of a node and the NUMA cells that they hang off."""

    count: Annotated[Whole, Field(ge=1, le=256)] | None = Field(
        None,
        description="GPUs of the node, spread evenly over its cells in order. Not needed beside "
        "`perCell` or `cells`.",
        examples=[4],
    )
    per_cell: Annotated[Whole, Field(ge=1, le=64)] | None = Field(
        None, alias="perCell", description="GPUs of each NUMA cell.", examples=[2]
    )
    cells: (
        Annotated[tuple[Annotated[Whole, Field(ge=0)], ...], Field(min_length=1, max_length=256)]
        | None
    ) = Field(None, description="The cell of each GPU, in order.", examples=[[0, 0, 1, 1]])
    kind: Text = Field(
        "",
        description="What they are called; members may ask for it (`gpuKind`).",
        examples=["a100"],
    )
    memory: Memory = Field(
        0,
        description="Memory of each GPU, in bytes or with a unit; members may ask for a least "
        "amount (`gpuMemory`). Not given: unknown.",
        examples=["80Gi"],
    )
    per_switch: Annotated[Whole, Field(ge=1, le=256)] | None = Field(
        None,
        alias="perSwitch",
        description="GPUs that share a PCIe switch, counted through in order. Not given: unknown.",
        examples=[2],
    )
    per_link_group: Annotated[Whole, Field(ge=1, le=256)] | None = Field(
        None,
        alias="perLinkGroup",
        description="GPUs with links of their own to each other (NVLink), counted through in "
        "order. Not given: unknown.",
        examples=[4],
    )
    unhealthy: Annotated[tuple[Annotated[Whole, Field(ge=0)], ...], Field(max_length=256)] = Field(
        (), description="GPUs that are broken: nobody gets them.", examples=[[3]]
    )

    @model_validator(mode="after")
    def _one_way_of_saying_it(self) -> Self:
        if self.per_cell is not None and self.cells is not None:
            accepted = "'perCell' or 'cells', not both"
            raise rejected([Rejection("both", accepted, ("perCell",))])
        if self.count is None and self.per_cell is None and self.cells is None:
            raise rejected([Rejection("nothing", "one of: count, perCell, cells", ("count",))])
        if self.count is not None and self.cells is not None and self.count != len(self.cells):
            accepted = f"{len(self.cells)}, the length of 'cells', or leave it out"
            raise rejected([Rejection(describe(self.count), accepted, ("count",))])
        return self

    def to_model(self, cells: int) -> tuple[Gpu, ...]:
        if self.cells is not None:
            homes = list(self.cells)
        elif self.per_cell is not None:
            homes = [cell for cell in range(cells) for _ in range(self.per_cell)]
        else:
            count = self.count or 0
            homes = [index * cells // count for index in range(count)]
        return tuple(
            Gpu(
                index,
                cell,
                self.kind,
                switch=index // self.per_switch if self.per_switch else 0,
                link_group=index // self.per_link_group if self.per_link_group else 0,
                healthy=index not in self.unhealthy,
                memory_bytes=self.memory,
            )
            for index, cell in enumerate(homes)
        )
