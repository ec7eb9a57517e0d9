"""Which members of a large job a small screen shows: those that somebody should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mooring.model.status import MemberState
from mooring.report.view import MemberView

_URGENCY = {
    MemberState.FAILED: 0,
    MemberState.STARTING: 1,
    MemberState.STOPPING: 1,
    MemberState.WAITING: 1,
    MemberState.RUNNING: 2,
    MemberState.ENDED: 3,
    MemberState.SUCCEEDED: 3,
}


def worth_showing(members: Sequence[MemberView], most: int) -> list[MemberView]:
    """At most so many, in their own order: failed ones, those that do not run yet, the slowest."""

    def urgency(index: int) -> tuple[int, float, int]:
        member = members[index]
        steps = member.done_steps if member.steps else float("inf")
        return _URGENCY[member.state], steps, index

    chosen = sorted(range(len(members)), key=urgency)[:most]
    return [members[index] for index in sorted(chosen)]


def states_of(members: Sequence[MemberView]) -> str:
    """`10 running, 1 failed`, in the order of urgency."""
    counts = Counter(member.state for member in members)
    ordered = sorted(counts, key=lambda state: (_URGENCY[state], state.value))
    return ", ".join(f"{counts[state]} {state.value}" for state in ordered)


def others(hidden: Sequence[MemberView]) -> str:
    """Those that are not shown, in a line."""
    said = f"… {len(hidden)} more: {states_of(hidden)}"
    steps = [member.done_steps for member in hidden if member.steps]
    if not steps:
        return said
    least, most = min(steps), max(steps)
    return f"{said}, {least:,} steps" if least == most else f"{said}, {least:,}–{most:,} steps"
