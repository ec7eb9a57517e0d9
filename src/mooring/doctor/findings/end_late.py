"""A run that ends long after its last step."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import EndFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import EVENTS, SAMPLES
from mooring.doctor.registry import CheckPage, Unknown, run_check

#: Saving a model takes a moment.
_LATE_S = 5.0
#: Below this a member does not compute: it waits.
_IDLE_THREADS = 0.2
#: So much later is worth a word also if the member computes: nobody sees what.
_VERY_LATE_S = 30.0
_LOG = "logs/M.log"
_PAGE = CheckPage(
    why="Nothing is trained any more, but the job still holds its CPUs, cards and memory, and "
    "whoever waits for its result waits on.",
    measured="Seconds from the last step that anybody reported, and from the last line of that "
    "member's log, to the end of the run, with the threads that ran or wanted to meanwhile. More "
    "than 5 s without either are reported if the member did not compute, and more than 30 s if it "
    "did.",
    fix="Look at what the program does there. Long evaluations belong into a job of their own, "
    "large files onto a fast disk. A program that neither computes nor writes waits for somebody: "
    "for workers that end, for a queue, for a connection that nobody closes.",
    not_when="The time is spent on purpose: an evaluation, a model that is written.",
)
_SNIPPET = """# which line the program is at, while it is:
py-spy dump --native --pid PID
"""


@run_check("end-late", "The run ends long after its last step", _PAGE)
def end_late(facts: RunFacts) -> Iterator[Found]:
    end = facts.end
    if end is None:
        raise Unknown("the run has not ended, or nobody reported steps")
    if facts.stall is not None:
        return  # a standstill is a finding of its own
    waits = end.runnable is not None and end.runnable < _IDLE_THREADS
    if end.idle_s <= (_LATE_S if waits else _VERY_LATE_S):
        return
    does = "waited" if waits else "said nothing"
    yield Found(
        says=f"{end.member} {does} for {end.idle_s:.0f} s between its last step and the end",
        evidence=tuple(_evidence(end)),
        remedy=Remedy(
            "see what the program waits for" if waits else "see what the program does there",
            code=_SNIPPET,
            where=f"on the machine of {end.member}",
        ),
        confidence=Confidence.LIKELY if waits else Confidence.POSSIBLE,
        weight=min(0.9, end.idle_s / max(end.run_s, end.idle_s)) * (1.0 if waits else 0.3),
        members=(end.member,),
    )


def _evidence(end: EndFacts) -> Iterator[Figure]:
    yield Figure("last step to end", end.after_s, "s", EVENTS, (end.member,))
    yield Figure("the whole run", end.run_s, "s", EVENTS)
    if end.silent_s is not None:
        yield Figure("since the last line of its log", end.silent_s, "s", _LOG, (end.member,))
    if end.runnable is not None:
        what = "threads that ran or wanted to"
        yield Figure(what, end.runnable, "", SAMPLES, (end.member,))
