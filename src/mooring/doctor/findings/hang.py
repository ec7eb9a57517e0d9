"""The run makes no steps any more: members wait for one that does not arrive."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.registry import CheckPage, run_check

_EVENTS = "events.jsonl"
_MOST_SHOWN = 32
_PAGE = CheckPage(
    why="Members meet in every step: if one does not arrive, all others wait for it, for as long "
    "as their library lets them, and hold their CPUs and GPUs.",
    measured="The time since anybody's last step: longer than 5 times the longest pause between "
    "steps so far, and than 30 s. Then the state, CPU time and Python stacks of all processes are "
    "looked at. Who is in a collective, or idle within the step of training, has arrived; who is "
    "stopped, has ended or is elsewhere has not. It is called a hang if those who have not arrived "
    "do not compute.",
    fix="Look at the stack of the one that is named. Where such a standstill comes by chance (a "
    "storage system, a network), `failurePolicy.stallTimeout` with `onStall: restart` starts the "
    "gang again from its last checkpoint.",
    not_when="An evaluation or a checkpoint of one member may take that long; its stack shows it.",
)
_POLICY = "failurePolicy: {stallTimeout: 10m, onStall: restart}"


@run_check("hang", "Nobody makes a step any more", _PAGE)
def hang(facts: RunFacts) -> Iterator[Found]:
    stall = facts.stall
    if stall is None:
        return
    usual = [Figure("a step took", stall.usual_s, "s", "samples/M.jsonl")] if stall.usual_s else []
    saved = [Figure("everybody's stacks", stall.file, "", "")] if stall.file else []
    yield Found(
        says=stall.says,
        evidence=(
            Figure("without a step", stall.lasts_s, "s", _EVENTS),
            *usual,
            *(
                Figure(f"{member} is at", place, "", _EVENTS)
                for member, place in stall.processes[:_MOST_SHOWN]
            ),
            *saved,
        ),
        remedy=Remedy(
            f"find out why {' and '.join(stall.missing)} did not arrive"
            if stall.missing
            else "look at the stacks",
            code=_POLICY,
            where="the job file, to end or restart such a run by itself",
        ),
        confidence=Confidence.CERTAIN if stall.hang else Confidence.POSSIBLE,
        # Somebody who computes may still arrive.
        weight=1.0 if stall.hang or not stall.processes else 0.3,
        members=stall.missing,
    )
