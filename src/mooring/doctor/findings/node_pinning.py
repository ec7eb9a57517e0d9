"""A place with a CPU quota whose CPUs are not its own."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import NodeFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.registry import CheckPage, DoesNotApply, node_check

_PAGE = CheckPage(
    why="With a quota alone the threads wander over all CPUs of the machine and share each with "
    "whoever else is there. On large machines that costs caches and NUMA locality; a training "
    "with short steps feels it most.",
    measured="The quota of the control group against the CPU set: pinned places have as many "
    "CPUs as they may use.",
    fix="On Kubernetes: kubelet with `cpuManagerPolicy: static`, a Guaranteed pod (requests "
    "equal to limits, for every container) and whole CPUs; `pinning: exclusive` shapes the pod "
    "so. With Docker: `--cpuset-cpus`.",
    not_when="Nobody else uses the machine, or the program mostly waits.",
)


@node_check("node-not-pinned", "A quota, but no CPUs of its own", _PAGE)
def node_pinning(facts: NodeFacts) -> Iterator[Found]:
    if facts.quota_millis is None:
        raise DoesNotApply("no CPU quota here")
    allowed, quota = len(facts.allowed_cpus), facts.quota_millis / 1000
    if allowed <= max(1.0, quota) or facts.quota_millis >= 1000 * facts.online_cpus:
        return
    if facts.quota_millis % 1000:
        why = "only whole CPUs can be exclusive"
    elif allowed < facts.online_cpus:
        why = "these are the kubelet's shared CPUs: the pod is not Guaranteed"
    else:
        why = "the pod is not Guaranteed, or the kubelet's cpuManagerPolicy is none"
    yield Found(
        says=f"{quota:g} CPUs of time on {allowed} CPUs that others use as well: {why}",
        evidence=(
            Figure("quota", quota, "CPUs", "control group"),
            Figure("CPUs allowed", allowed, "", "sched_getaffinity"),
            Figure("CPUs online", facts.online_cpus, "", "/sys/devices/system/cpu/online"),
        ),
        remedy=Remedy(
            "have whole CPUs of its own",
            code="cpuManagerPolicy: static   # needs reserved CPUs and a restart of the kubelet\n",
            where="the kubelet's configuration, and the pod's resources",
        ),
        confidence=Confidence.LIKELY,
        weight=0.25,
        gain=Gain(0.97, 1.14, "benchmarks/pinning.py: alone, and beside a noisy neighbour"),
    )
