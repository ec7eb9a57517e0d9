"""The checks by their id: one small file each registers itself here.

A check answers from facts alone. Where the facts do not tell, it raises `Unknown`, which the
diagnosis passes on: silence means "looked, and it is fine". A check that knows its cause by names
alone raises `NotRecognised` where the time went into something that it has no name for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mooring.doctor.facts import ClusterFacts, NodeFacts, RunFacts
from mooring.doctor.finding import CheckAnswer, Checked, Diagnosis, Finding, Found
from mooring.doctor.ordering import Causes, in_order

Facts = TypeVar("Facts")
_NONE = Causes()
Rule = Callable[[Facts], Iterable[Found]]


class Unknown(Exception):
    """The facts do not answer this check; the text says what is missing."""

    answer = CheckAnswer.UNSEEN


class NotRecognised(Unknown):
    """It was looked for by what it is usually called, and much went into what has no such name."""

    answer = CheckAnswer.NOT_RECOGNISED


class DoesNotApply(Unknown):
    """There is nothing in the job that could have it; the text says what it is without."""

    answer = CheckAnswer.NOT_ASKED


@dataclass(frozen=True)
class CheckPage:
    """What the documentation says of a check; `why` also stands in each finding."""

    why: str
    measured: str
    fix: str
    not_when: str = ""


@dataclass(frozen=True)
class Check(Generic[Facts]):
    id: str
    title: str
    page: CheckPage
    rule: Rule[Facts]
    causes: Causes = _NONE


RUN_CHECKS: dict[str, Check[RunFacts]] = {}
NODE_CHECKS: dict[str, Check[NodeFacts]] = {}
CLUSTER_CHECKS: dict[str, Check[ClusterFacts]] = {}


def run_check(
    id: str, title: str, page: CheckPage, causes: Causes = _NONE
) -> Callable[[Rule[RunFacts]], Rule[RunFacts]]:
    """Registers a check of runs. `causes`: findings that may be what lies behind this one."""

    def register(rule: Rule[RunFacts]) -> Rule[RunFacts]:
        RUN_CHECKS[id] = Check(id, title, page, rule, causes)
        return rule

    return register


def node_check(
    id: str, title: str, page: CheckPage
) -> Callable[[Rule[NodeFacts]], Rule[NodeFacts]]:
    """Registers a check of the machine or container that it runs in."""

    def register(rule: Rule[NodeFacts]) -> Rule[NodeFacts]:
        NODE_CHECKS[id] = Check(id, title, page, rule)
        return rule

    return register


def cluster_check(
    id: str, title: str, page: CheckPage
) -> Callable[[Rule[ClusterFacts]], Rule[ClusterFacts]]:
    """Registers a check of a cluster as a whole."""

    def register(rule: Rule[ClusterFacts]) -> Rule[ClusterFacts]:
        CLUSTER_CHECKS[id] = Check(id, title, page, rule)
        return rule

    return register


def diagnose(facts: Facts, checks: Iterable[Check[Facts]], of: str) -> Diagnosis:
    """Every check in turn; causes before what they explain, then what frees most of the time."""
    findings: list[Finding] = []
    checked: list[Checked] = []
    causes: dict[str, Causes] = {}
    for check in checks:
        causes[check.id] = check.causes
        try:
            found = list(check.rule(facts))
        except Unknown as unknown:
            answer = unknown.answer
            checked.append(Checked(check.id, check.title, answer, unknown=str(unknown)))
            continue
        answer = CheckAnswer.FOUND if found else CheckAnswer.EXCLUDED
        checked.append(Checked(check.id, check.title, answer, len(found)))
        findings += [Finding(check.id, check.title, check.page.why, result) for result in found]
    return Diagnosis(of, in_order(findings, causes), tuple(checked))
