"""The checks by their id: one small file each registers itself here.

A check answers from facts alone. Where the facts do not tell, it raises `Unknown`, which the
diagnosis passes on: silence means "looked, and it is fine".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mooring.doctor.facts import ClusterFacts, NodeFacts, RunFacts
from mooring.doctor.finding import Checked, Diagnosis, Finding, Found

Facts = TypeVar("Facts")
Rule = Callable[[Facts], Iterable[Found]]


class Unknown(Exception):
    """The facts do not answer this check; the text says what is missing."""


@dataclass(frozen=True)
class Page:
    """What the documentation says of a check; `why` also stands in each finding."""

    why: str
    measured: str
    fix: str
    not_when: str = ""


@dataclass(frozen=True)
class Check(Generic[Facts]):
    id: str
    title: str
    page: Page
    rule: Rule[Facts]


RUN_CHECKS: dict[str, Check[RunFacts]] = {}
NODE_CHECKS: dict[str, Check[NodeFacts]] = {}
CLUSTER_CHECKS: dict[str, Check[ClusterFacts]] = {}


def run_check(id: str, title: str, page: Page) -> Callable[[Rule[RunFacts]], Rule[RunFacts]]:
    """Registers a check of runs."""

    def register(rule: Rule[RunFacts]) -> Rule[RunFacts]:
        RUN_CHECKS[id] = Check(id, title, page, rule)
        return rule

    return register


def node_check(id: str, title: str, page: Page) -> Callable[[Rule[NodeFacts]], Rule[NodeFacts]]:
    """Registers a check of the machine or container that it runs in."""

    def register(rule: Rule[NodeFacts]) -> Rule[NodeFacts]:
        NODE_CHECKS[id] = Check(id, title, page, rule)
        return rule

    return register


def cluster_check(
    id: str, title: str, page: Page
) -> Callable[[Rule[ClusterFacts]], Rule[ClusterFacts]]:
    """Registers a check of a cluster as a whole."""

    def register(rule: Rule[ClusterFacts]) -> Rule[ClusterFacts]:
        CLUSTER_CHECKS[id] = Check(id, title, page, rule)
        return rule

    return register


def diagnose(facts: Facts, checks: Iterable[Check[Facts]], of: str) -> Diagnosis:
    """Every check in turn; findings worst first, those of one weight in the checks' order."""
    findings: list[Finding] = []
    checked: list[Checked] = []
    for check in checks:
        try:
            found = list(check.rule(facts))
        except Unknown as unknown:
            checked.append(Checked(check.id, check.title, unknown=str(unknown)))
            continue
        checked.append(Checked(check.id, check.title, len(found)))
        findings += [Finding(check.id, check.title, check.page.why, one) for one in found]
    findings.sort(key=lambda finding: -finding.found.weight)
    return Diagnosis(of, tuple(findings), tuple(checked))
