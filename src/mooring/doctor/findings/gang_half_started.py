"""Gangs of others that hold cards and cannot start."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import ClusterFacts, GangFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.registry import CheckPage, Unknown, cluster_check
from mooring.model.amounts import rough_duration

#: A pod that found no place is tried again by the cluster's scheduler within five minutes at the
#: latest (podMaxInUnschedulablePodsDuration); one that still waits then waits for others to end.
LONG_S = 300.0
_MOST_NODES = 4
_PAGE = CheckPage(
    why="A training whose pods are placed one by one may get a part of them only. Those that run "
    "wait for the others and hold their cards; the others wait for cards. Two such jobs can wait "
    "for each other for ever.",
    measured="Pods of each job, by the labels that its operator writes or by their owner: some are "
    "on a node and hold GPUs, others have found no place for five minutes. Pods of Mooring are "
    "left out: they are made when the whole gang has its place. The tasks of a plain Job may work "
    "alone, so it is only a possibility there.",
    fix="Start it whole or not at all: `moor import` turns its manifest into a job for Mooring's "
    "queue. Or delete it, which frees its cards at once.",
    not_when="It is elastic, and trains with the members that it has.",
)
_SNIPPET = """moor import THEIR-MANIFEST.yaml -o job.yaml && moor submit job.yaml -n {namespace}
kubectl -n {namespace} delete {kind} {name}
"""


@cluster_check("gang-half-started", "A half-started gang holds GPUs", _PAGE)
def half_started(facts: ClusterFacts) -> Iterator[Found]:
    if facts.unseen:
        raise Unknown(facts.unseen)
    for gang in sorted(facts.gangs, key=lambda one: -one.gpus):
        if gang.gpus and gang.waiting and gang.waited_s >= LONG_S:
            yield _found(gang)


def _found(gang: GangFacts) -> Found:
    total = gang.holding + gang.waiting
    nodes = ", ".join(gang.nodes[:_MOST_NODES])
    more = len(gang.nodes) - _MOST_NODES
    return Found(
        says=f"{gang.kind} {gang.namespace}/{gang.name}: {gang.holding} of {total} pods have a "
        f"node and hold {gang.gpus} GPUs; the others have waited for "
        f"{rough_duration(gang.waited_s)}",
        evidence=(
            Figure("GPUs held", gang.gpus, "", "requests of its pods"),
            Figure("on", f"{nodes} and {more} more" if more > 0 else nodes, "", "its pods"),
            Figure("pods without a node", gang.waiting, "", "its pods"),
            Figure("the longest has waited", gang.waited_s, "s", "condition PodScheduled"),
        ),
        remedy=Remedy(
            "run it by Mooring, whose gangs start whole or not at all; or delete it",
            code=_SNIPPET.format(namespace=gang.namespace, kind=gang.kind.lower(), name=gang.name),
            where="whoever owns it",
        ),
        confidence=Confidence.LIKELY if gang.together else Confidence.POSSIBLE,
        # Its cards do nothing at all; what may end a run comes first.
        weight=0.9 if gang.together else 0.4,
    )
