"""Facts to findings with every check that is registered. Pure."""

from __future__ import annotations

from dataclasses import replace

from mooring.doctor import findings  # noqa: F401  registers the checks
from mooring.doctor.facts import ClusterFacts, NodeFacts, RunFacts
from mooring.doctor.finding import Diagnosis
from mooring.doctor.registry import CLUSTER_CHECKS, NODE_CHECKS, RUN_CHECKS, diagnose


def diagnose_run(facts: RunFacts) -> Diagnosis:
    return replace(diagnose(facts, RUN_CHECKS.values(), facts.run), account=facts.account)


def diagnose_node(facts: NodeFacts) -> Diagnosis:
    return diagnose(facts, NODE_CHECKS.values(), facts.name)


def diagnose_cluster(facts: ClusterFacts) -> Diagnosis:
    return diagnose(facts, CLUSTER_CHECKS.values(), facts.name)
