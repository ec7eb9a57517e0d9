"""Whether a run came to a standstill: as the run noted it, or as its samples tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.doctor.facts import StallFacts
from mooring.doctor.told import number
from mooring.model.status import Phase
from mooring.record.journal import JsonValue, Line
from mooring.stalls import Progress
from mooring.stalls.watch import stall_sentence

_NOT_LOOKED = "nobody looked at the stacks"


def read_stall(
    events: Iterable[Line], members: Mapping[str, list[Line]], folder: str = ""
) -> StallFacts | None:
    """The last standstill after which nothing went on; None if the job got on to its end."""
    noted: Line | None = None
    phase = ""
    for line in events:
        if line.get("kind") == "stall":
            noted = None if line.get("over") else line
        elif line.get("kind") == "phase":
            phase = str(line.get("phase"))
    if phase == Phase.SUCCEEDED.value:
        return None
    return _noted(noted, folder) if noted is not None else silence(members)


def silence(members: Mapping[str, list[Line]]) -> StallFacts | None:
    """Samples that go on for long after the last step."""
    progress = Progress()
    told = [(number(line, "t"), name, line) for name, lines in members.items() for line in lines]
    for _, name, line in sorted(told, key=lambda one: one[0]):
        progress.line(name, line)
    sampled_s = max((at_s for at_s, _, line in told if line.get("kind") == "sample"), default=0.0)
    if progress.last_s is None or progress.complete or not progress.stepped:
        return None
    lasts_s = sampled_s - progress.last_s
    if lasts_s < progress.limit_s:
        return None
    says = stall_sentence(lasts_s, progress.usual_s, True, None)
    return StallFacts(lasts_s, progress.usual_s, f"{says}; {_NOT_LOOKED}", hang=False)


def _noted(line: Line, folder: str) -> StallFacts:
    processes = line.get("processes")
    missing = line.get("missing")
    usual = line.get("usual_s")
    return StallFacts(
        lasts_s=number(line, "lasts_s"),
        usual_s=float(usual) if isinstance(usual, int | float) else None,
        says=str(line.get("says") or ""),
        hang=line.get("hang") is True,
        missing=tuple(str(one) for one in missing) if isinstance(missing, list) else (),
        processes=tuple(
            (str(one.get("member")), _place(one))
            for one in (processes if isinstance(processes, list) else ())
            if isinstance(one, dict)
        ),
        file=f"{folder}/{line.get('file')}" if folder else str(line.get("file") or ""),
    )


def _place(process: Mapping[str, JsonValue]) -> str:
    """`all_reduce (distributed_c10d.py:3048) ← main (train.py:30)`, or what the kernel says."""
    stack = process.get("stack")
    if isinstance(stack, list) and stack:
        return " ← ".join(str(call) for call in stack)
    told = [str(process.get(key) or "") for key in ("state", "kernel", "note")]
    return ", ".join(one for one in told if one)
