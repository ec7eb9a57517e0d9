"""Whether a run came to a standstill: as the run noted it, or as its samples tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.doctor.facts import StallFacts
from mooring.model.status import Phase
from mooring.stalls import ProgressTracker
from mooring.stalls.watch import stall_sentence
from mooring.wire import Record
from mooring.wire.events import PhaseChanged, StallNoted
from mooring.wire.samples import Sample

_NOT_LOOKED = "nobody looked at the stacks"


def read_stall(
    events: Iterable[Record], members: Mapping[str, Sequence[Record]], folder: str = ""
) -> StallFacts | None:
    """The last standstill after which nothing went on; None if the job got on to its end."""
    noted: StallNoted | None = None
    phase: Phase | None = None
    for record in events:
        if isinstance(record, StallNoted):
            noted = None if record.over else record
        elif isinstance(record, PhaseChanged):
            phase = record.phase
    if phase is Phase.SUCCEEDED:
        return None
    return _noted(noted, folder) if noted is not None else silence(members)


def silence(members: Mapping[str, Sequence[Record]]) -> StallFacts | None:
    """Samples that go on for long after the last step."""
    progress = ProgressTracker()
    by_time = sorted(
        ((record.t, name, record) for name, records in members.items() for record in records),
        key=lambda each: each[0],
    )
    for _, name, record in by_time:
        progress.add(name, record)
    sampled_s = max((at_s for at_s, _, each in by_time if isinstance(each, Sample)), default=0.0)
    if progress.last_s is None or progress.complete or not progress.stepped:
        return None
    lasts_s = sampled_s - progress.last_s
    if lasts_s < progress.limit_s:
        return None
    says = stall_sentence(lasts_s, progress.usual_s, True, None)
    return StallFacts(lasts_s, progress.usual_s, f"{says}; {_NOT_LOOKED}", hang=False)


def _noted(stall: StallNoted, folder: str) -> StallFacts:
    return StallFacts(
        lasts_s=stall.lasts_s,
        usual_s=stall.usual_s,
        says=stall.says,
        hang=stall.hang,
        missing=stall.missing,
        processes=tuple((each.member, each.place) for each in stall.processes),
        file=f"{folder}/{stall.file}" if folder else stall.file,
    )
