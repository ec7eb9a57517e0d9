"""What a round uses again of the one before it changes no decision."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.backends.kubernetes.jobs.admission import JobCandidate, LastRound, candidate, decide
from mooring.backends.kubernetes.jobs.training_job import parse_training_job, parse_view, record_of
from mooring.backends.kubernetes.objects.nodes import NodeView, parse_node
from mooring.backends.kubernetes.objects.pods import PodView, parse_pod
from mooring.backends.kubernetes.objects.use import Uses, snapshot

NODES = 3
#: (pod, node, CPUs that it asks for; 0: it is gone)
PODS = st.tuples(st.integers(0, 4), st.integers(0, NODES - 1), st.integers(0, 4))
#: (node, its CPUs)
SIZES = st.tuples(st.integers(0, NODES - 1), st.integers(2, 8))
CHANGES = st.lists(st.tuples(st.lists(PODS, max_size=3), st.lists(SIZES, max_size=1)), max_size=6)


def node(index: int, cpus: int) -> NodeView:
    amounts = {"cpu": str(cpus), "memory": "64Gi", "nvidia.com/gpu": "2", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": conditions}
    return parse_node({"metadata": {"name": f"n{index}"}, "status": status})


def pod(name: int, on: int, cpus: int) -> PodView:
    requests = {"cpu": str(cpus), "nvidia.com/gpu": str(cpus % 2)}
    metadata = {"name": f"p{name}", "namespace": "team", "uid": f"{name}-{on}-{cpus}"}
    spec = {"nodeName": f"n{on}", "containers": [{"resources": {"requests": requests}}]}
    return parse_pod({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})


def waiting(workers: int) -> JobCandidate:
    resources = {"cpu": 2, "memory": "1Gi"}
    role = {"replicas": workers, "command": ["true"], "resources": resources}
    spec = {"framework": "indexed", "image": "x:1", "roles": {"worker": role}}
    obj: dict[str, Any] = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "j", "namespace": "team", "uid": "u", "generation": 1},
        "spec": spec,
    }
    view, parsed = parse_view(obj), parse_training_job(obj)
    found = candidate(view, parsed, record_of(view, parsed))
    assert found is not None
    return found


@settings(deadline=None, max_examples=40)
@given(CHANGES, st.integers(1, 6))
def test_rounds_decide_as_if_each_were_the_first(
    changes: list[tuple[list[tuple[int, int, int]], list[tuple[int, int]]]], workers: int
) -> None:
    nodes = {index: node(index, 4) for index in range(NODES)}
    pods: dict[int, PodView] = {}
    last, uses, jobs = LastRound(), Uses(), [waiting(workers)]
    for moved, resized in [([], []), *changes]:
        for name, on, cpus in moved:
            if cpus:
                pods[name] = pod(name, on, cpus)
            else:
                pods.pop(name, None)
        for index, cpus in resized:
            nodes[index] = node(index, cpus)
        seen = (list(nodes.values()), list(pods.values()))
        assert snapshot(*seen, uses=uses) == snapshot(*seen)
        assert decide(jobs, *seen, [], 1.0, last=last) == decide(jobs, *seen, [], 1.0)


def test_nodes_that_stay_are_not_described_again() -> None:
    nodes, last = [node(index, 8) for index in range(NODES)], LastRound()

    def layout() -> object:
        decide([waiting(1)], nodes, [], [], 1.0, last=last)
        assert last.cluster is not None
        return last.cluster._layout

    first = layout()
    assert layout() is first
    nodes[1] = node(1, 6)
    assert layout() is not first
