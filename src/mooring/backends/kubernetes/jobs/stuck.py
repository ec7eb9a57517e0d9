"""Pods that nobody will end: asked to go, on a node that is gone or has been given up.

The end of a pod is confirmed by its kubelet. Where a node does not answer, its containers may
still run, write checkpoints and hold the member's name, so the pod is left alone until the node
is gone, an administrator has declared it out of service, or the limit that the operator was
given has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mooring.backends.kubernetes.jobs.look import NextStep, Removal
from mooring.backends.kubernetes.objects.nodes import NodeView
from mooring.backends.kubernetes.objects.pods import PodView

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
#: After a pod should have ended: a kubelet may be slow to say so, and our view of nodes to come.
_SETTLE_S = 30.0
_WAITS = "; it waits for "


@dataclass(frozen=True)
class Stuck:
    """Pods to remove without their kubelet, whom the job waits for, and when to look again."""

    remove: tuple[Removal, ...] = ()
    waits: str = ""
    wake_at_s: float | None = None

    def told(self, message: str) -> str:
        """The job's message with whom it waits for, as of now."""
        base = message.partition(_WAITS)[0]
        return base + _WAITS + self.waits if self.waits else base


def stuck(
    pods: Iterable[PodView],
    node_of: Callable[[str], NodeView | None],
    now_s: float,
    lost_after_s: float,
) -> Stuck:
    """`lost_after_s`: how long a node may be not ready before it counts as gone; 0: for ever."""
    remove, waits, wakes = [], [], []
    for pod in pods:
        if not pod.deleting or not pod.node:
            continue
        node = node_of(pod.node)
        if node is not None and node.ready and not _given_up(node):
            continue
        due_s: float | None = pod.delete_by_s + _SETTLE_S
        if node is not None and not _given_up(node):
            waits.append(f"{pod.name} on {pod.node}, which is not ready")
            due_s = max(due_s or 0.0, node.since_s + lost_after_s) if lost_after_s > 0 else None
        if due_s is not None and now_s >= due_s:
            remove.append(Removal(pod, 0.0))
        elif due_s is not None:
            wakes.append(due_s)
    more = f" and {len(waits) - 1} more" if len(waits) > 1 else ""
    said = waits[0] + more if waits else ""
    return Stuck(tuple(remove), said, min(wakes, default=None))


def with_stuck(
    step: NextStep,
    pods: Iterable[PodView],
    node_of: Callable[[str], NodeView | None],
    now_s: float,
    lost_after_s: float,
) -> NextStep:
    """The step with the pods that no kubelet will end, and a word on those that are waited for."""
    ending = [pod for pod in pods if pod.deleting]
    found = stuck(ending, node_of, now_s, lost_after_s)
    message = found.told(step.record.message)
    record = step.record
    if message != record.message:
        record = replace(record, message=message)
    return replace(
        step,
        record=record,
        remove=(*step.remove, *found.remove),
        wake_at_s=min(filter(None, (step.wake_at_s, found.wake_at_s)), default=None),
    )


def _given_up(node: NodeView) -> bool:
    return any(taint.key == OUT_OF_SERVICE for taint in node.node.taints)
