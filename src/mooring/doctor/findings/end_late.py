"""A run that ends long after its last step."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import EndFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import EVENTS, SAMPLES
from mooring.doctor.registry import Page, Unknown, run_check

#: Evaluating on held-out data and saving take a moment.
_LATE_S = 5.0
#: Below this a member does not compute: it waits.
_IDLE_CPUS = 0.2
_LOG = "logs/M.log"
_PAGE = Page(
    why="Nothing is trained any more, but the job still holds its CPUs, cards and memory, and "
    "whoever waits for its result waits on.",
    measured="Seconds from the last step that anybody reported to the end of the run, with the CPU "
    "that the member used meanwhile and the time since the last line of its log. More than 5 s are "
    "reported.",
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
    if end.after_s <= _LATE_S or facts.stall is not None:
        return  # a standstill is a finding of its own
    waits = end.cpus is not None and end.cpus < _IDLE_CPUS
    doing = f"{end.member} used next to no CPU" if waits else f"{end.member} was still busy"
    yield Found(
        says=f"{end.after_s:.0f} s passed between the last step and the end"
        + (f"; {doing}" if end.cpus is not None else ""),
        evidence=tuple(_evidence(end)),
        remedy=Remedy(
            "see what the program waits for" if waits else "see what the program does there",
            code=_SNIPPET,
            where=f"on the machine of {end.member}",
        ),
        confidence=Confidence.LIKELY if waits else Confidence.POSSIBLE,
        weight=min(0.9, end.after_s / max(end.run_s, end.after_s)) * (1.0 if waits else 0.3),
        members=(end.member,),
    )


def _evidence(end: EndFacts) -> Iterator[Figure]:
    yield Figure("last step to end", end.after_s, "s", EVENTS, (end.member,))
    yield Figure("the whole run", end.run_s, "s", EVENTS)
    if end.cpus is not None:
        yield Figure("CPUs in use meanwhile", end.cpus, "", SAMPLES, (end.member,))
    if end.silent_s is not None:
        yield Figure("since the last line of its log", end.silent_s, "s", _LOG, (end.member,))
