"""What the pods of a cluster hold on its nodes.

Only the kubelets know which CPUs and devices a pod has. Those of Mooring carry the plan's as hints;
for the others, as many are set aside as they hold, in the cells where a topology says that some
are taken, and else the lowest that nobody is known to have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mooring.backends.kubernetes.objects.nodes import NodeView
from mooring.backends.kubernetes.objects.pods import PodView
from mooring.model.cluster import CpuManager, Node, NodeUse, Snapshot
from mooring.model.labels import Labels
from mooring.model.resources import Resources
from mooring.model.volumes import Storage, Volume

#: Stands among the labels that the brain compares: selectors of Kubernetes never look beyond one
#: namespace.
NAMESPACE = "mooring.dev/namespace"


@dataclass(frozen=True)
class Kept:
    """CPUs and devices of a node that are spoken for: nobody else's pods can have those."""

    cpus: frozenset[int] = frozenset()
    gpus: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Interest:
    """What the gangs in question look at; the rest is left out of a snapshot, because it costs.

    `storage` None: they mount nothing. `residents`: they count pods by their labels. `jobs`: what
    the brain calls jobs, by uid.
    """

    storage: Storage | None = None
    residents: bool = False
    jobs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


_NOTHING = Kept()
_NONE = Interest()


@dataclass(frozen=True, slots=True)
class _Worked:
    """What a node's use was made of."""

    view: NodeView
    pods: tuple[PodView, ...]
    kept: Kept
    residents: bool
    mounts: bool
    use: NodeUse


class Uses:
    """What was worked out for the last snapshot. Between two of them few nodes change, and a node
    whose view and pods are the very same ones is not looked at again."""

    def __init__(self) -> None:
        self._last: dict[str, _Worked] = {}

    def of(
        self,
        views: Mapping[str, NodeView],
        held: Mapping[str, Sequence[PodView]],
        kept: Mapping[str, Kept],
        interest: Interest,
    ) -> dict[str, NodeUse]:
        residents, mounts = interest.residents, interest.storage is not None
        worked = {}
        for name, pods in held.items():
            view, mine, others = views[name], tuple(pods), kept.get(name, _NOTHING)
            one = self._last.get(name)
            if (
                one is None
                or one.view is not view
                or one.pods != mine
                or one.kept != others
                or (one.residents, one.mounts) != (residents, mounts)
            ):
                use = _use(view, mine, others, interest)
                one = _Worked(view, mine, others, residents, mounts, use)
            worked[name] = one
        self._last = worked
        return {name: one.use for name, one in worked.items()}


def snapshot(
    nodes: Iterable[NodeView],
    pods: Iterable[PodView],
    kept: Mapping[str, Kept] | None = None,
    interest: Interest = _NONE,
    uses: Uses | None = None,
) -> Snapshot:
    """The ready nodes in the order of their names, with what these pods hold on them.

    `kept`, by node: what gangs hold that are not among the pods.
    """
    usable = sorted((view for view in nodes if view.ready), key=lambda view: view.name)
    by_name = {view.name: view for view in usable}
    held: dict[str, list[PodView]] = {}
    for pod in pods:
        if pod.node in by_name and not pod.over:
            held.setdefault(pod.node, []).append(pod)
    use = (uses or Uses()).of(by_name, held, kept or {}, interest)
    return Snapshot(tuple(_node(view, interest) for view in usable), use, interest.storage)


def _node(view: NodeView, interest: Interest) -> Node:
    if not view.avoids:
        return view.node
    known = tuple(interest.jobs[uid] for uid in view.avoids if uid in interest.jobs)
    return replace(view.node, avoids=known)


def _use(view: NodeView, pods: Sequence[PodView], kept: Kept, interest: Interest) -> NodeUse:
    node = view.node
    # A hint that names what a gang holds by its record is wrong, whoever wrote it.
    hinted = [_free_of(pod.cpus, kept.cpus) for pod in pods]
    cpus = {cpu for named in hinted for cpu in named}
    gpus = {gpu for pod in pods for gpu in _free_of(pod.gpus, kept.gpus)}
    plain = [pod for pod, named in zip(pods, hinted, strict=True) if not named]
    unnamed = [pod for pod in plain if _pins(node, pod)]
    if unnamed:
        wanted = sum(pod.whole_cpus for pod in unnamed)
        cpus |= set(_cpus_of_others(view, wanted, cpus | kept.cpus))
    cards = sum(pod.resources.gpus for pod in pods if not _free_of(pod.gpus, kept.gpus))
    if cards:
        gpus |= set(_gpus_of_others(view, cards, gpus | kept.gpus))
    return NodeUse(
        resources=sum((pod.resources for pod in pods), Resources()),
        cpus=frozenset(cpus),
        gpus=frozenset(gpus),
        ports=frozenset(port for pod in pods for port in pod.host_ports),
        sharers=len(plain) - len(unnamed),
        residents=_residents(pods) if interest.residents else (),
        volumes=_mounted(pods) if interest.storage is not None else (),
    )


def _free_of(named: tuple[int, ...], kept: frozenset[int]) -> tuple[int, ...]:
    return named if kept.isdisjoint(named) else ()


def in_namespace(labels: Labels, namespace: str) -> Labels:
    return tuple(sorted((*labels, (NAMESPACE, namespace))))


def _residents(pods: Iterable[PodView]) -> tuple[tuple[Labels, int], ...]:
    """A pod that is being ended counts no more, as for kube-scheduler."""
    there = Counter((pod.labels, pod.namespace) for pod in pods if pod.labels and not pod.deleting)
    return tuple((in_namespace(labels, space), many) for (labels, space), many in there.items())


def _mounted(pods: Iterable[PodView]) -> tuple[tuple[Volume, int], ...]:
    return tuple(Counter(volume for pod in pods for volume in pod.volumes).items())


def _pins(node: Node, pod: PodView) -> bool:
    """Has the kubelet surely given the pod CPUs of its own?"""
    static = node.kubelet is not None and node.kubelet.cpu_manager is CpuManager.STATIC
    return static and pod.whole_cpus > 0


def _cpus_of_others(view: NodeView, wanted: int, spoken_for: Collection[int]) -> Iterator[int]:
    node = view.node
    reserved = node.kubelet.reserved_cpus if node.kubelet is not None else frozenset()
    taken = {zone.cell: zone.cpus_handed_out - zone.cpus_free for zone in view.zones}
    homes = {cpu.id: cpu.cell for cpu in node.cpus if cpu.id not in reserved}
    return _set_aside(homes, wanted, spoken_for, taken)


def _gpus_of_others(view: NodeView, wanted: int, spoken_for: Collection[int]) -> Iterator[int]:
    taken = {zone.cell: zone.gpus - zone.gpus_free for zone in view.zones}
    homes = {gpu.index: gpu.cell for gpu in view.node.gpus}
    return _set_aside(homes, wanted, spoken_for, taken)


def _set_aside(
    homes: Mapping[int, int], wanted: int, spoken_for: Collection[int], taken: Mapping[int, int]
) -> Iterator[int]:
    """`wanted` of those that nobody has: first where more are taken than is known of."""
    unexplained = dict(taken)
    for one in spoken_for:
        if one in homes:
            unexplained[homes[one]] = unexplained.get(homes[one], 0) - 1
    late = []
    for one, cell in homes.items():
        if one in spoken_for:
            continue
        if wanted and unexplained.get(cell, 0) > 0:
            unexplained[cell] -= 1
            wanted -= 1
            yield one
        else:
            late.append(one)
    yield from late[:wanted]
