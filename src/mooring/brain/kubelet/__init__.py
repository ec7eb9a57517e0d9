"""The kubelet's CPU and topology managers, simulated: what a node would do with a pod.

Pure, and without the rest of the brain: a node, what is free, the pod's containers and the
kubelet's settings go in; the CPUs and devices it would hand out, or its rejection, come out.
"""

from mooring.brain.kubelet.admission import KubeletAdmission, KubeletRejection, Reason, admit
from mooring.brain.kubelet.containers import Container, GpuPodProblem, gpu_pod_problem
from mooring.brain.kubelet.layout import threads_per_core

__all__ = [
    "Container",
    "GpuPodProblem",
    "KubeletAdmission",
    "KubeletRejection",
    "Reason",
    "admit",
    "gpu_pod_problem",
    "threads_per_core",
]
