"""The cluster file: machines described by their shape, for `moor plan` and simulations.

CPUs are numbered as Linux numbers them on x86: first one thread of every core, socket by socket,
then the second threads in the same order, so that the SMT siblings are i and i + cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from mooring.model.cluster import Cpu, Node, Snapshot, Taint, TopologyManager
from mooring.model.resources import Resources, counts
from mooring.spec.base import Rejection, SpecModel, describe, one_of, rejected
from mooring.spec.extended import Extended, extended_field
from mooring.spec.fields import FilledText, JobName, Label, Memory, PriorityNumber, Text, Whole
from mooring.spec.gpus import GpuSpec
from mooring.spec.kubelet import KubeletSpec, parse_cpu_list
from mooring.spec.placement import TaintEffect
from mooring.spec.pools import KINDS, MoveGroups, PoolEntry
from mooring.spec.storage import StorageSpec

MOST_NODES = 20_000
MOST_GROUPS = 1000
MOST_CPUS = 1024
#: The kubelet's topology manager tries all sets of cells, and refuses to start on more.
MOST_CELLS = 8


class TaintSpec(SpecModel):
    """Keeps members away that do not tolerate it, as in Kubernetes."""

    key: FilledText = Field(description="The taint's key.", examples=["dedicated"])
    value: Text = Field("", description="The taint's value.", examples=["training"])
    effect: TaintEffect = Field(
        TaintEffect.NO_SCHEDULE,
        description="`NoSchedule` and `NoExecute` refuse members that do not tolerate the taint; "
        "`PreferNoSchedule` avoids them.",
        examples=["NoSchedule"],
    )

    def to_model(self) -> Taint:
        return Taint(self.key, self.value, self.effect.value)


class NodeGroup(SpecModel):
    """One node, or several of the same shape."""

    name: Label | None = Field(
        None,
        description="The node's name; with a `count` above 1 use `namePrefix`.",
        examples=["gpu-a"],
    )
    name_prefix: Label | None = Field(
        None,
        alias="namePrefix",
        description="The nodes are called prefix-0, prefix-1 and so on.",
        examples=["node"],
    )
    count: Annotated[Whole, Field(ge=1, le=MOST_NODES)] = Field(
        1, description="How many such nodes there are: 1 to 20000 in all.", examples=[4]
    )
    cpus: Annotated[Whole, Field(ge=1, le=MOST_CPUS)] = Field(
        description="Logical CPUs of a node: 1 to 1024, SMT threads counted.", examples=[64]
    )
    sockets: Annotated[Whole, Field(ge=1, le=64)] = Field(
        1, description="CPU sockets of a node.", examples=[2]
    )
    cells_per_socket: Annotated[Whole, Field(ge=1, le=64)] = Field(
        1, alias="cellsPerSocket", description="NUMA cells of a socket.", examples=[1]
    )
    smt: Annotated[Whole, Field(ge=1, le=8)] = Field(
        1, description="Hardware threads of a core.", examples=[2]
    )
    l3_groups: Annotated[Whole, Field(ge=1, le=64)] = Field(
        1,
        alias="l3Groups",
        description="Groups of cores in a NUMA cell that share an L3 cache.",
        examples=[4],
    )
    memory: Memory = Field(
        description="Memory of a node, in bytes or with a unit.", examples=["256Gi"]
    )
    gpus: GpuSpec | None = Field(
        None, description="The node's GPUs. Not given: none.", examples=[{"perCell": 4}]
    )
    extended: Extended = extended_field("a node")
    images: dict[FilledText, Memory] = Field(
        {},
        description="Container images that a node has fetched, with their sizes: members of jobs "
        "with such an image prefer it.",
        examples=[{"registry.example/train:1": "4Gi"}],
    )
    avoid: tuple[JobName, ...] = Field(
        (),
        description="Jobs whose members a node takes only if no other can, as with the "
        "annotation `preferAvoidPods` of Kubernetes.",
        examples=[["noisy"]],
    )
    volume_limits: dict[FilledText, Annotated[Whole, Field(ge=0)]] = Field(
        {},
        alias="volumeLimits",
        description="How many volumes each driver can attach to a node.",
        examples=[{"ebs.csi.aws.com": 25}],
    )
    nic_mbps: Annotated[Whole, Field(ge=1, le=10_000_000)] | None = Field(
        None,
        alias="nicMbps",
        description="The network card's rate in Mbit/s, each way. Not given: unknown.",
        examples=[25000],
    )
    labels: dict[FilledText, Text] = Field(
        {}, description="Labels that a job can select nodes by.", examples=[{"disk": "ssd"}]
    )
    taints: tuple[TaintSpec, ...] = Field(
        (),
        description="What keeps members away that do not tolerate it.",
        examples=[[{"key": "dedicated", "value": "training"}]],
    )
    reserved_cpus: FilledText | None = Field(
        None,
        alias="reservedCpus",
        description="CPUs that no member may use, as a list of ids and ranges.",
        examples=["0-1,32-33"],
    )
    kubelet: KubeletSpec | None = Field(
        None,
        description="What the node's kubelet is set to: a member is then placed only where the "
        "kubelet would admit its pod, and on the CPUs that it would choose. Not given: no "
        "kubelet.",
        examples=[{"cpuManagerPolicy": "static", "reservedCpus": "0,32"}],
    )
    pool: Label | None = Field(
        None,
        description="The pool that these nodes belong to: all that they have is added to its "
        "guarantee. They may go to another pool, see `moveGroups`. Not given: nobody's.",
        examples=["ads"],
    )

    @property
    def cells(self) -> int:
        return self.sockets * self.cells_per_socket

    @model_validator(mode="after")
    def _possible(self) -> Self:
        rejections = [
            *self._named(),
            *self._divisible(),
            *self._gpus_at_home(),
            *self._reserve(self.reserved_cpus, ("reservedCpus",)),
        ]
        if self.kubelet is not None:
            rejections += self._reserve(self.kubelet.reserved_cpus, ("kubelet", "reservedCpus"))
            rejections += self._alignable(self.kubelet)
            if self.reserved_cpus is not None:
                accepted = "'reservedCpus' of 'kubelet' instead"
                found = describe(self.reserved_cpus)
                rejections.append(Rejection(found, accepted, ("reservedCpus",)))
        if rejections:
            raise rejected(rejections)
        return self

    def _named(self) -> Iterator[Rejection]:
        if (self.name is None) == (self.name_prefix is None):
            found = "neither 'name' nor 'namePrefix'" if self.name is None else "both names"
            yield Rejection(found, "one of: name, namePrefix", ("name",))
        elif self.name is not None and self.count > 1:
            accepted = "'namePrefix' instead, because 'count' is above 1"
            yield Rejection(describe(self.name), accepted, ("name",))
        elif len(self.names[-1]) > 63:
            accepted = "a shorter prefix: names have at most 63 characters"
            yield Rejection(describe(self.name_prefix), accepted, ("namePrefix",))

    def _divisible(self) -> Iterator[Rejection]:
        parts, said = 1, []
        for name, value, words in (
            ("smt", self.smt, "threads a core"),
            ("sockets", self.sockets, "sockets"),
            ("cellsPerSocket", self.cells_per_socket, "cells a socket"),
            ("l3Groups", self.l3_groups, "L3 groups a cell"),
        ):
            parts *= value
            if value > 1:
                said.append(f"{value} {words}")
            if self.cpus % parts:
                accepted = f"a shape that divides the {self.cpus} cpus: {' x '.join(said)}"
                yield Rejection(describe(value), f"{accepted} = {parts} does not", (name,))
                return

    def _gpus_at_home(self) -> Iterator[Rejection]:
        if self.gpus is None:
            return
        for index, cell in enumerate(self.gpus.cells or ()):
            if cell >= self.cells:
                accepted = f"a cell from 0 to {self.cells - 1}"
                yield Rejection(describe(cell), accepted, ("gpus", "cells", index))
        if self.gpus.per_cell is not None and self.gpus.count is not None:
            total = self.gpus.per_cell * self.cells
            if self.gpus.count != total:
                accepted = f"{total} (perCell x {self.cells} cells), or leave it out"
                yield Rejection(describe(self.gpus.count), accepted, ("gpus", "count"))
        total = len(self.gpus.to_model(self.cells))
        for index, gpu in enumerate(self.gpus.unhealthy):
            if gpu >= total:
                accepted = f"a GPU from 0 to {total - 1}"
                yield Rejection(describe(gpu), accepted, ("gpus", "unhealthy", index))

    def _alignable(self, kubelet: KubeletSpec) -> Iterator[Rejection]:
        if kubelet.topology_manager_policy is not TopologyManager.NONE and self.cells > MOST_CELLS:
            found = f"{describe(kubelet.topology_manager_policy.value)} with {self.cells} cells"
            accepted = f"'none': the topology manager starts on at most {MOST_CELLS} cells"
            yield Rejection(found, accepted, ("kubelet", "topologyManagerPolicy"))

    def _reserve(self, given: str | None, at: tuple[str, ...]) -> Iterator[Rejection]:
        if given is None:
            return
        reserved = parse_cpu_list(given)
        if reserved is None:
            accepted = 'ids and ranges of CPUs, such as "0-1,32"'
            yield Rejection(describe(given), accepted, at)
        elif max(reserved) >= self.cpus:
            yield Rejection(f"CPU {max(reserved)}", f"CPUs from 0 to {self.cpus - 1}", at)
        elif len(reserved) == self.cpus:
            yield Rejection("every CPU of the node", "at least one CPU left over", at)

    @property
    def names(self) -> list[str]:
        if self.name is not None:
            return [self.name]
        return [f"{self.name_prefix}-{index}" for index in range(self.count)]

    def to_nodes(self) -> tuple[Node, ...]:
        """Nodes that share their parts: a group of thousands costs little more than one node."""
        cpus = self._cpus()
        gpus = self.gpus.to_model(self.cells) if self.gpus is not None else ()
        taints = tuple(taint.to_model() for taint in self.taints)
        kubelet = self.kubelet.to_model() if self.kubelet is not None else None
        extended, images = counts(self.extended), counts(self.images)
        limits = tuple(sorted(self.volume_limits.items()))
        kept = len(kubelet.reserved_cpus) if kubelet is not None else 0
        return tuple(
            Node(
                name,
                cpus,
                1000 * (len(cpus) - kept),
                self.memory,
                gpus,
                self.nic_mbps,
                self.labels,
                taints,
                kubelet=kubelet,
                extended=extended,
                images=images,
                avoids=self.avoid,
                volume_limits=limits,
            )
            for name in self.names
        )

    def _cpus(self) -> tuple[Cpu, ...]:
        reserved = parse_cpu_list(self.reserved_cpus or "") or frozenset()
        cores = self.cpus // self.smt
        cores_per_l3 = cores // (self.cells * self.l3_groups)
        cores_per_cell = cores_per_l3 * self.l3_groups
        cores_per_socket = cores_per_cell * self.cells_per_socket
        return tuple(
            Cpu(
                cpu,
                cpu % cores,
                cpu % cores // cores_per_l3,
                cpu % cores // cores_per_cell,
                cpu % cores // cores_per_socket,
            )
            for cpu in range(self.cpus)
            if cpu not in reserved
        )


class ClusterFile(SpecModel):
    """A whole cluster file."""

    api_version: Literal["mooring.dev/v1"] = Field(
        "mooring.dev/v1",
        alias="apiVersion",
        description="The version of this format.",
        examples=["mooring.dev/v1"],
    )
    kind: Literal["Cluster"] = Field(
        "Cluster", description="What the file describes.", examples=["Cluster"]
    )
    nodes: Annotated[tuple[NodeGroup, ...], Field(min_length=1, max_length=MOST_GROUPS)] = Field(
        description="The nodes, in the order in which they are tried: at most 1000 entries and "
        "20000 nodes.",
        examples=[[{"namePrefix": "node", "count": 4, "cpus": 16, "memory": "64Gi"}]],
    )

    pools: Annotated[tuple[PoolEntry, ...], Field(max_length=1000)] = Field(
        (),
        description="How teams share the nodes. None: everybody takes from the same.",
        examples=[[{"name": "ads", "guaranteed": {"gpu": 8}}]],
    )
    move_groups: MoveGroups | None = Field(
        None,
        alias="moveGroups",
        description="When nodes with a `pool` go to another one that needs them, an entry of "
        "`nodes` at a time. Not given: never.",
        examples=[{"delay": "10m"}],
    )
    priority_classes: Annotated[dict[Label, PriorityNumber], Field(max_length=1000)] = Field(
        {},
        alias="priorityClasses",
        description="Names that jobs may write in `spec.priority`, each with its number; beside "
        "`low` (-60), `normal` (0), `high` (60) and `urgent` (600), which may be given others.",
        examples=[{"nightly": -100}],
    )

    storage: StorageSpec | None = Field(
        None,
        description="What is known of volumes. Not given: nothing, and what members mount is not "
        "looked at.",
        examples=[{"claims": [{"name": "data"}]}],
    )

    @model_validator(mode="after")
    def _names_distinct(self) -> Self:
        total = sum(group.count for group in self.nodes)
        if total > MOST_NODES:
            raise rejected([Rejection(f"{total} nodes", f"at most {MOST_NODES}", ("nodes",))])
        seen: set[str] = set()
        clashes = []
        for index, group in enumerate(self.nodes):
            again = [name for name in group.names if name in seen]
            if again:
                field = "name" if group.name is not None else "namePrefix"
                found = f"the name '{again[0]}' a second time"
                clashes.append(Rejection(found, "each name once", ("nodes", index, field)))
            seen.update(group.names)
        if clashes:
            raise rejected(clashes)
        return self

    @model_validator(mode="after")
    def _owned(self) -> Self:
        pools = [pool.name for pool in self.pools]
        wrong = [
            Rejection(
                f"unknown pool '{group.pool}'",
                one_of(group.pool, pools) if pools else "a pool of `pools`, which has none",
                ("nodes", index, "pool"),
            )
            for index, group in enumerate(self.nodes)
            if group.pool is not None and group.pool not in pools
        ]
        if self.move_groups is not None and not any(group.pool for group in self.nodes):
            accepted = "nodes with a `pool`, which could move"
            wrong.append(Rejection("no such nodes", accepted, ("moveGroups",)))
        if wrong:
            raise rejected(wrong)
        return self

    def to_snapshot(self) -> Snapshot:
        """The nodes with nobody on them."""
        storage = self.storage.to_model() if self.storage is not None else None
        return Snapshot(self.to_nodes(), storage=storage)

    def to_nodes(self) -> tuple[Node, ...]:
        return tuple(node for group in self.nodes for node in group.to_nodes())

    def groups(self) -> dict[str, tuple[str, Resources]]:
        """Nodes that belong to a pool: what they are called -> the pool, what they have."""
        return {
            group.name or f"{group.name_prefix}-*": (group.pool, _capacity(group.to_nodes()))
            for group in self.nodes
            if group.pool is not None
        }

    def shares(self) -> tuple[tuple[PoolEntry, Resources, Resources | None], ...]:
        """Each pool with its guarantee, without its nodes, and its cap."""
        owned = any(group.pool is not None for group in self.nodes)
        divided = KINDS if owned else frozenset().union(*(pool.named() for pool in self.pools))
        total = _capacity(self.to_nodes())
        return tuple((pool, *pool.amounts(divided, total)) for pool in self.pools)


def _capacity(nodes: tuple[Node, ...]) -> Resources:
    return sum((node.capacity for node in nodes), Resources())
