"""Nodes whose kubelet is known: every member must be one that it would really admit.

A pod that the scheduler sends and the kubelet rejects is lost, and so is its gang. A member with
devices but without CPUs of its own would be admitted by a static CPU policy and lose its devices
later; one that wants CPUs of its own gets none where the CPU manager is off.
"""

from __future__ import annotations

import numpy as np

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.pool import REJECTED
from mooring.brain.registry import Objections, add_filter
from mooring.brain.want import Want
from mooring.model.cluster import CpuManager, KubeletPolicy

NOT_ADMITTED = "its kubelet would not admit it"


def kubelet(want: Want, board: Board, rows: Rows) -> Objections:
    kubelets = board.layout.kubelets
    if kubelets is None or not want.cuts:
        return {}
    refused = kubelets[rows].copy()
    asked = np.flatnonzero(refused)
    if not len(asked):
        return {}
    answers = board.layout.pool.cells(board.free.state[rows][asked], want) == REJECTED
    unfit = np.array([bool(_cannot(want, policy)) for policy in board.layout.policies])
    refused[asked] = answers | unfit[board.layout.policy_class[rows][asked]]
    return {NOT_ADMITTED: refused}


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    node = board.layout.nodes[index]
    policy = node.kubelet
    if policy is None or not want.cuts:
        return ()
    from mooring.brain.kubelet import KubeletRejection, threads_per_core

    unfit = _cannot(want, policy, threads_per_core(node))
    if unfit:
        return (f"{NOT_ADMITTED} ({unfit})",)
    answer = board.layout.pool.admission(int(board.free.state[index]), want)
    if isinstance(answer, KubeletRejection):
        return (f"{NOT_ADMITTED} ({answer.reason.value}: {answer.sentence})",)
    return ()


def _cannot(want: Want, policy: KubeletPolicy | None, threads: int = 1) -> str:
    """What this policy can never do for such a member, whatever is free.

    The threads of a core only matter to the advice, not to whether there is a problem.
    """
    if policy is None:
        return ""
    if want.exclusive and policy.cpu_manager is not CpuManager.STATIC:
        return "its CPU manager gives nobody CPUs of their own"
    from mooring.brain.kubelet import Container, gpu_pod_problem

    devices = want.gpus or int(want.gpu_share > 0)
    alone = want.exclusive or want.gpus > 0
    container = Container(want.cpu_millis, want.handed_cpus, devices, alone)
    problem = gpu_pod_problem((container,), policy, threads)
    return f"{problem.sentence}; {problem.repair_sentence}" if problem else ""


add_filter("kubelet", kubelet, why)
