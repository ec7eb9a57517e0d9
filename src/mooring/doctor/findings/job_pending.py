"""The job does not run at all: it waits for a place."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.registry import CheckPage, run_check

_PAGE = CheckPage(
    why="A gang starts whole or not at all. Until there is room for all of it, it holds nothing "
    "and does nothing.",
    measured="The job's phase on the cluster, and the reason that the queue gave.",
    fix="`moor explain JOB` lists each single change that would let it start; all of them have "
    "been tried out.",
)


@run_check("job-pending", "The job waits for a place", _PAGE)
def pending(facts: RunFacts) -> Iterator[Found]:
    if facts.waits_for:
        yield Found(
            says=facts.waits_for,
            evidence=(Figure("reason", facts.waits_for, "", "the job's status"),),
            remedy=Remedy(
                "see which single change would let it start",
                code=f"moor explain {facts.job.metadata.name} --namespace …\n",
            ),
            confidence=Confidence.CERTAIN,
            weight=1.0,
        )
