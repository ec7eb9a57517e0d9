"""Facts by hand: what a test does not name is healthy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mooring.doctor.facts import CpuPlace, MemberFacts, NicFacts, NodeFacts, RunFacts, Use
from mooring.doctor.finding import Found
from mooring.doctor.registry import NODE_CHECKS, RUN_CHECKS
from mooring.frameworks import Duty
from mooring.spec import parse_job
from mooring.variables import PartFacts

JOB = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: tensorflow
  command: [python]
  roles:
    ps: {replicas: 2, resources: {cpu: 1, memory: 1Gi}}
    worker: {replicas: 2, resources: {cpu: 1, memory: 1Gi}}
"""

PARAMETER_SERVERS = {
    "ps": Duty.SERVES,
    "chief": Duty.LEADS,
    "evaluator": Duty.EVALUATES,
    "launcher": Duty.STARTS,
}


def use(**changes: Any) -> Use:
    """Ten seconds at three quarters of a CPU."""
    return replace(Use(span_s=10.0, samples=11, cpu_s=7.5, wait_s=1.0), **changes)


def member(name: str, used: Use | None = None, **changes: Any) -> MemberFacts:
    one = MemberFacts(
        name=name,
        role=name.rsplit("-", 1)[0],
        node="node-0",
        held_cpus=frozenset({0, 1}),
        allowed_cpus=frozenset({0, 1}),
        seen_cpus={0: 5, 1: 5},
        asked_millis=1000,
        budget_millis=1000,
        threads_told=1,
        threads=10,
        use=used or use(),
    )
    return replace(one, **changes)


def run(
    *members: MemberFacts,
    job: str = JOB,
    nics: tuple[NicFacts, ...] = (),
    topology: tuple[CpuPlace, ...] = (),
    variables: tuple[PartFacts, ...] = (),
    steps_per_s: float | None = 2.0,
) -> RunFacts:
    nodes = {one.node for one in members}
    return RunFacts(
        run="job-1",
        job=parse_job(job, "job.yaml"),
        duties=PARAMETER_SERVERS,
        members=members,
        nics=nics,
        variables=variables,
        steps_per_s=steps_per_s,
        node_cpus={node: frozenset({0, 1}) for node in nodes},
        topology=dict.fromkeys(nodes, topology) if topology else {},
    )


def node(**changes: Any) -> NodeFacts:
    return replace(NodeFacts("host", 2, frozenset({0, 1})), **changes)


def check_run(name: str, facts: RunFacts) -> list[Found]:
    return list(RUN_CHECKS[name].rule(facts))


def check_node(name: str, facts: NodeFacts) -> list[Found]:
    return list(NODE_CHECKS[name].rule(facts))
