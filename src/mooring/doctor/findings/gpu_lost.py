"""The driver answers "Unknown Error": the container has lost its devices."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import NodeFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.registry import CheckPage, DoesNotApply, node_check, run_check

_PAGE = CheckPage(
    why="A program that runs keeps its cards until it opens one again; a new one finds none. It "
    "looks like a broken driver and is not.",
    measured="What NVML answers to the launcher: error 999, `Unknown Error`, where the library "
    "itself is there.",
    fix="When a container's control group is rewritten after its start (the kubelet's static CPU "
    "policy changes CPU sets of running containers, `systemctl daemon-reload` with the systemd "
    "driver), device rules that were added behind the runtime's back are lost. Pods with whole "
    "CPUs and requests equal to limits are left alone by the static policy; newer container "
    "toolkits hand devices over by CDI, which is not lost. Restart the container to get the "
    "cards back.",
)
_UNKNOWN = "(999)"


def _found(error: str, members: tuple[str, ...]) -> Found:
    return Found(
        says=f"NVML: {error}",
        evidence=(Figure("NVML answers", error, "", "libnvidia-ml.so.1", members),),
        remedy=Remedy(
            "restart the container; shape the pod so that its CPU set is not rewritten",
            code="resources: {requests: {cpu: 4, memory: 8Gi}, limits: {cpu: 4, memory: 8Gi}}\n",
            where="every container of the pod; `pinning: exclusive` shapes Mooring's pods so",
        ),
        confidence=Confidence.CERTAIN,
        weight=1.0,
        members=members,
    )


@run_check("gpu-lost", "The container has lost its GPUs", _PAGE)
def lost(facts: RunFacts) -> Iterator[Found]:
    if not any(member.gpus or member.gpu_error for member in facts.members):
        raise DoesNotApply("no GPU was seen")
    failed = [member for member in facts.members if _UNKNOWN in member.gpu_error]
    if failed:
        yield _found(failed[0].gpu_error, tuple(member.name for member in failed))


@node_check("node-gpu-lost", "The container has lost its GPUs", _PAGE)
def node_lost(facts: NodeFacts) -> Iterator[Found]:
    if not facts.gpus and not facts.nvml_error:
        raise DoesNotApply("no GPU here")
    if _UNKNOWN in facts.nvml_error:
        yield _found(facts.nvml_error, ())
