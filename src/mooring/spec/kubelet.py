"""The kubelet's settings in a cluster file: those that decide about CPUs and NUMA cells.

Names follow the kubelet's own configuration file where it has one for them.
"""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, model_validator

from mooring.model.cluster import CpuManager, KubeletPolicy, TopologyManager, TopologyScope
from mooring.spec.base import Rejection, SpecModel, rejected
from mooring.spec.fields import FilledText, YesNo

_CPU_LIST = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", re.ASCII)


class KubeletSpec(SpecModel):
    """How the kubelet of a node hands out CPUs and devices."""

    cpu_manager_policy: CpuManager = Field(
        CpuManager.NONE,
        alias="cpuManagerPolicy",
        description="`static` gives Guaranteed containers that ask for whole CPUs CPUs of their "
        "own; with `none` all share all.",
        examples=["static"],
    )
    topology_manager_policy: TopologyManager = Field(
        TopologyManager.NONE,
        alias="topologyManagerPolicy",
        description="How strictly CPUs and GPUs are kept on the same NUMA cells: `none`, "
        "`best-effort`, `restricted` (no more cells than needed) or `single-numa-node`.",
        examples=["single-numa-node"],
    )
    topology_manager_scope: TopologyScope = Field(
        TopologyScope.CONTAINER,
        alias="topologyManagerScope",
        description="`container` aligns each container for itself, `pod` all together.",
        examples=["pod"],
    )
    full_physical_cores_only: YesNo = Field(
        False,
        alias="fullPhysicalCoresOnly",
        description="Only whole cores are handed out (`full-pcpus-only`): pods that ask for "
        "part of a core are rejected.",
        examples=[True],
    )
    prefer_l3_alignment: YesNo = Field(
        False,
        alias="preferL3Alignment",
        description="A container's CPUs are kept on as few L3 caches as possible "
        "(`prefer-align-cpus-by-uncorecache`); nobody is rejected for it.",
        examples=[True],
    )
    reserved_cpus: FilledText | None = Field(
        None,
        alias="reservedCpus",
        description="CPUs that are never handed out exclusively (`reservedSystemCPUs`), as a "
        "list of ids and ranges. The static policy needs at least one.",
        examples=["0-1,32-33"],
    )

    @model_validator(mode="after")
    def _would_start(self) -> Self:
        if self.cpu_manager_policy is CpuManager.STATIC:
            if self.reserved_cpus is None:
                accepted = "the CPUs that it keeps: its static policy does not start without any"
                raise rejected([Rejection("nothing", accepted, ("reservedCpus",))])
            return self
        for name, given in (
            ("fullPhysicalCoresOnly", self.full_physical_cores_only),
            ("preferL3Alignment", self.prefer_l3_alignment),
        ):
            if given:
                accepted = "'cpuManagerPolicy: static' beside it, or false"
                raise rejected([Rejection("true", accepted, (name,))])
        return self

    def to_model(self) -> KubeletPolicy:
        return KubeletPolicy(
            self.cpu_manager_policy,
            self.topology_manager_policy,
            self.topology_manager_scope,
            self.full_physical_cores_only,
            parse_cpu_list(self.reserved_cpus or "") or frozenset(),
            self.prefer_l3_alignment,
        )


def parse_cpu_list(text: str) -> frozenset[int] | None:
    if _CPU_LIST.fullmatch(text) is None:
        return None
    cpus: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        if int(high or low) < int(low):
            return None
        cpus.update(range(int(low), int(high or low) + 1))
    return frozenset(cpus)
