"""Pods that were told to go, on nodes that do not answer."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.backends.kubernetes.api.times import write_seconds
from mooring.backends.kubernetes.jobs.stuck import OUT_OF_SERVICE, Stuck, stuck
from mooring.backends.kubernetes.objects.nodes import NodeView, parse_node
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod

#: When the pod should have ended, and when its node was heard of last.
ENDED_S, SILENT_S = 10_000.0, 9_000.0


def node(ready: str, *taints: str) -> NodeView:
    changed = write_seconds(SILENT_S)
    return parse_node(
        {
            "metadata": {"name": "n0"},
            "spec": {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]},
            "status": {
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": changed}]
            },
        }
    )


def pod(where: str = "n0", *, told: bool = True) -> PodView:
    about: dict[str, Any] = {"name": "train-worker-0", "namespace": "team", "uid": "u"}
    if told:
        about["deletionTimestamp"] = write_seconds(ENDED_S)
    return parse_pod({"metadata": about, "spec": {"nodeName": where}})


GONE = None
WELL = node("True")
SILENT = node("Unknown", "node.kubernetes.io/unreachable")
DECLARED = node("Unknown", OUT_OF_SERVICE)


@pytest.mark.parametrize(
    ("there", "lost_after_s", "now_s", "removed", "wake_at_s"),
    [
        # The node is gone: 30 s after the pod should have ended.
        (GONE, 0, ENDED_S + 29, False, ENDED_S + 30),
        (GONE, 0, ENDED_S + 30, True, None),
        # Declared out of service by an administrator: the same.
        (DECLARED, 0, ENDED_S + 29, False, ENDED_S + 30),
        (DECLARED, 0, ENDED_S + 30, True, None),
        # Silent, and nobody has given it up.
        (SILENT, 0, ENDED_S + 1e6, False, None),
        # Silent since 9000; given up after 1500 s: at 10,500, which is later than 10,030.
        (SILENT, 1500, ENDED_S + 499, False, SILENT_S + 1500),
        (SILENT, 1500, ENDED_S + 500, True, None),
        # Given up after 500 s, long before the pod was to end.
        (SILENT, 500, ENDED_S + 29, False, ENDED_S + 30),
        # A kubelet that answers will end it.
        (WELL, 500, ENDED_S + 1e6, False, None),
    ],
)
def test_when_a_pod_is_removed_without_its_kubelet(
    there: NodeView | None,
    lost_after_s: float,
    now_s: float,
    removed: bool,
    wake_at_s: float | None,
) -> None:
    found = stuck([pod()], lambda name: there, now_s, lost_after_s)
    assert [one.grace_s for one in found.remove] == ([0.0] if removed else [])
    assert found.wake_at_s == wake_at_s


@pytest.mark.parametrize("one", [pod(told=False), pod(where="")])
def test_a_pod_that_nobody_told_to_go_is_left_alone(one: PodView) -> None:
    assert stuck([one], lambda name: None, ENDED_S + 1e6, 1.0) == Stuck()


def test_whom_a_job_waits_for_is_said_once_and_only_as_long_as_it_does() -> None:
    waits = stuck([pod(), pod()], lambda name: SILENT, ENDED_S, 0)
    said = waits.told("worker-1 failed")
    assert said == (
        "worker-1 failed; it waits for train-worker-0 on n0, which is not ready and 1 more"
    )
    assert waits.told(said) == said
    assert Stuck().told(said) == "worker-1 failed"
