"""GPU pods under the static CPU policy: who would lose their devices, and what would help."""

from __future__ import annotations

import pytest
from machines import DUAL, SMALL, cpus, static, want

from mooring.brain.kubelet import (
    Container,
    KubeletRejection,
    admit,
    gpu_pod_problem,
    threads_per_core,
)
from mooring.model.cluster import KubeletPolicy


@pytest.mark.parametrize(
    ("policy", "containers"),
    [
        # Whole CPUs and Guaranteed: its CPU set is never rewritten.
        (static(), [want(4, 1)]),
        # Without GPUs there is nothing to lose.
        (static(), [want(0.5)]),
        # Only the static policy rewrites CPU sets.
        (KubeletPolicy(), [want(0.5, 1)]),
        # The container beside it may share CPUs as long as the pod stays Guaranteed.
        (static(), [want(4, 1), want(0.5)]),
    ],
)
def test_pods_that_keep_their_gpus(policy: KubeletPolicy, containers: list[Container]) -> None:
    assert gpu_pod_problem(containers, policy) is None


@pytest.mark.parametrize(
    ("containers", "said", "repaired"),
    [
        ([want(3.5, 1)], "3500m CPU is not a whole number", [want(4, 1)]),
        ([want(0, 2)], "asks for no CPU", [want(1, 2)]),
        ([want(4, 1, guaranteed=False)], "not Guaranteed", [want(4, 1)]),
        ([want(0.5, 1, guaranteed=False)], "not Guaranteed", [want(1, 1)]),
        # The sidecar makes the pod Burstable; it need not become whole, only Guaranteed.
        (
            [want(4, 1), want(0.5, guaranteed=False)],
            "not Guaranteed",
            [want(4, 1), want(0.5)],
        ),
    ],
)
def test_pods_that_would_lose_them_are_repaired(
    containers: list[Container], said: str, repaired: list[Container]
) -> None:
    problem = gpu_pod_problem(containers, static())
    assert problem is not None
    assert said in problem.sentence
    assert "Failed to initialize NVML: Unknown Error" in problem.sentence
    assert list(problem.repair) == repaired
    asked = [container.whole_cpus for container in repaired if container.gpus]
    cpus = "1 whole CPU," if asked == [1] else f"{asked[0]} whole CPUs,"
    assert cpus in problem.repair_sentence
    assert gpu_pod_problem(problem.repair, static()) is None


def test_a_repair_rounds_up_to_whole_cores_where_only_those_are_given() -> None:
    problem = gpu_pod_problem([want(2.5, 1)], static(full=True), threads_per_core(DUAL))
    assert problem is not None
    # 2.5 -> 3 whole CPUs -> 2 cores = 4 CPUs
    assert problem.repair == (want(4, 1),)


@pytest.mark.parametrize(
    ("policy", "containers", "sentence"),
    [
        (
            static("single-numa-node"),
            [want(6, 3)],
            "no room for 6 CPUs and 3 GPUs together in one NUMA cell: cell 0 has 8 CPUs and "
            "2 GPUs, cell 1 has 8 CPUs and 2 GPUs free",
        ),
        (
            static("restricted", reserved="0,4"),
            [want(8)],
            "no room for 8 CPUs together in as few NUMA cells as they need: cell 0 has 7 CPUs, "
            "cell 1 has 7 CPUs free",
        ),
        (
            static(full=True),
            [want(3)],
            "3 CPUs cannot be whole cores of 2 threads; 4 could",
        ),
        (
            static(full=True, reserved="0"),
            [want(16)],
            "8 whole cores of 2 threads wanted, 7 free (1 kept by the kubelet)",
        ),
        (
            static(reserved="0,8"),
            [want(15)],
            "15 exclusive CPUs wanted, 14 free (2 kept by the kubelet)",
        ),
        (static(), [want(1, 5)], "5 GPUs wanted, 4 free"),
        (static(), [want(16), want(0.5)], "no CPU is left for containers that share CPUs"),
    ],
)
def test_a_rejection_says_what_is_missing(
    policy: KubeletPolicy, containers: list[Container], sentence: str
) -> None:
    free = frozenset(cpu.id for cpu in DUAL.cpus)
    result = admit(DUAL, free, cpus("0-3"), containers, policy)
    assert isinstance(result, KubeletRejection)
    assert result.sentence == sentence


def test_one_of_a_thing_is_not_said_as_many() -> None:
    # 6 of 8 CPUs of cell 0 are free, and of the devices of each cell one
    free = frozenset(cpu.id for cpu in DUAL.cpus) - cpus("0,8")
    result = admit(DUAL, free, cpus("1,2"), [want(4, 2)], static("single-numa-node"))
    assert isinstance(result, KubeletRejection)
    assert result.sentence == (
        "no room for 4 CPUs and 2 GPUs together in one NUMA cell: cell 0 has 6 CPUs and 1 GPU, "
        "cell 1 has 8 CPUs and 1 GPU free"
    )


def test_the_shared_pool_keeps_the_reserved_cpus() -> None:
    result = admit(SMALL, cpus("0-3"), frozenset(), [want(3)], static(reserved="0"))
    assert not isinstance(result, KubeletRejection)
    assert result.cpus == (cpus("1-3"),)
    assert result.shared == cpus("0")
    assert result.cells == (0,)
