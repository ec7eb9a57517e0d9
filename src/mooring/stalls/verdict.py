"""Who waits for whom, from what the processes of a run that makes no steps are doing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mooring.stacks.categories import Category
from mooring.stacks.classify import classify, step_call, where
from mooring.stalls.standing import ENDED, STOPPED, StandingProcess

_NAMED_AT_MOST = 4


@dataclass(frozen=True)
class StallVerdict:
    """`hang`: it will not go on by itself, as far as can be seen. `missing` have not arrived."""

    says: str
    hang: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Place:
    """Where a process is. `waits`: it has arrived in a collective, or idles within a step."""

    standing: StandingProcess
    waits: bool
    serves: bool
    call: str
    line: str

    @property
    def gone(self) -> bool:
        return self.standing.state in (STOPPED, ENDED)

    @property
    def at(self) -> str:
        """`all_reduce, main (train.py:30)`."""
        said = [one for one in (self.call, self.line) if one]
        return ", ".join(said) or self.standing.kernel or "an unknown place"


def judge(standings: Sequence[StandingProcess]) -> StallVerdict:
    """What the processes of a gang show; those of servers count only if they no longer serve."""
    places = [_place(standing) for standing in standings]
    gone = [place for place in places if place.gone]
    here = [place for place in places if not place.gone and not place.serves]
    waiting = [place for place in here if place.waits]
    unseen = [place for place in here if not place.standing.stack]
    absent = [place for place in here if not place.waits and place.standing.stack]
    if not here and not gone:
        return StallVerdict("no process of it could be looked at", hang=False)
    stopped = any(place.standing.state == STOPPED for place in gone)
    # Members that have ended are missed only where somebody waits for them.
    if stopped or (gone and not any(not place.standing.idle for place in absent)):
        said = [_gone_sentence(place) for place in gone[:_NAMED_AT_MOST]]
        return StallVerdict("; ".join([*said, *_waiting(waiting)]), True, _names(gone))
    if unseen and not waiting:
        return _blind(unseen)
    if waiting and absent:
        busy = [place for place in absent if not place.standing.idle]
        said = [_absent_sentence(place) for place in absent[:_NAMED_AT_MOST]]
        return StallVerdict("; ".join([*said, *_waiting(waiting)]), not busy, _names(absent))
    if waiting:
        return _all_wait(waiting, unseen)
    busy = [place for place in absent if not place.standing.idle]
    shown = busy or absent
    doing = "; ".join(
        f"{place.standing.who} {_doing(place)} {place.at}" for place in shown[:_NAMED_AT_MOST]
    )
    return StallVerdict(
        f"nobody waits in a collective: {doing}", not busy, () if busy else _names(absent)
    )


def _place(standing: StandingProcess) -> _Place:
    stack = standing.stack
    if not stack:
        return _Place(standing, False, standing.serves, "", "")
    category = classify([stack])[0].category
    call = step_call(stack)
    waits = category is Category.COMMUNICATION or (bool(call) and standing.idle)
    serves = standing.serves or category is Category.SERVING
    return _Place(standing, waits, serves, call, where(stack))


def _all_wait(waiting: Sequence[_Place], unseen: Sequence[_Place]) -> StallVerdict:
    if unseen:
        return StallVerdict(
            f"{_joined(_whos(unseen))} could not be looked at; " + "; ".join(_waiting(waiting)),
            True,
            _names(unseen),
        )
    lines: dict[str, list[_Place]] = {}
    for place in waiting:
        lines.setdefault(place.at, []).append(place)
    if len(lines) == 1:
        if len(waiting) == 1:
            return StallVerdict(f"{waiting[0].standing.who} waits in {waiting[0].at}", True)
        return StallVerdict(
            f"all {len(waiting)} wait in {waiting[0].at}: somebody's call does not match in size "
            "or order, or the network between them fails",
            True,
        )
    groups = sorted(lines.items(), key=lambda pair: len(pair[1]))
    said = "; ".join(f"{_joined(_whos(ones))} in {at}" for at, ones in groups)
    few = groups[0][1] if len(groups[0][1]) < len(groups[-1][1]) else []
    return StallVerdict(
        f"they wait at different places, so one has skipped a call or made one more: {said}",
        True,
        _names(few),
    )


def _blind(unseen: Sequence[_Place]) -> StallVerdict:
    """Without stacks: what the kernel says of each, and no guess."""
    note = next((place.standing.note for place in unseen if place.standing.note), "no stacks")
    states = "; ".join(
        f"{place.standing.who} is {place.standing.state}"
        + (f" in {place.standing.kernel}" if place.standing.kernel else "")
        for place in unseen[:_NAMED_AT_MOST]
    )
    idle = all(place.standing.idle for place in unseen)
    return StallVerdict(f"who has not arrived is not known ({note}): {states}", idle)


def _gone_sentence(place: _Place) -> str:
    standing = place.standing
    if standing.state == STOPPED:
        at = f" at {place.at}" if standing.stack else ""
        return f"{standing.who} has not arrived: process {standing.pid} is stopped (SIGSTOP){at}"
    code = "" if standing.exit_code is None else f" with exit code {standing.exit_code}"
    return f"{standing.who} has not arrived: it ended{code}"


def _absent_sentence(place: _Place) -> str:
    return f"{place.standing.who} has not arrived: it {_doing(place)} {place.at}"


def _doing(place: _Place) -> str:
    if not place.standing.idle:
        return "computes in"
    return "sleeps in" if "sleep" in place.standing.kernel else "is idle in"


def _waiting(places: Sequence[_Place]) -> list[str]:
    if not places:
        return []
    at = {place.at for place in places}
    verb = "waits" if len(places) == 1 else "wait"
    return [f"{_joined(_whos(places))} {verb} in {' and '.join(sorted(at))}"]


def _names(places: Sequence[_Place]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place.standing.member for place in places))


def _whos(places: Sequence[_Place]) -> tuple[str, ...]:
    return tuple(place.standing.who for place in places)


def _joined(names: Sequence[str]) -> str:
    shown, hidden = list(names[:_NAMED_AT_MOST]), len(names) - _NAMED_AT_MOST
    if hidden > 0:
        return f"{', '.join(shown)} and {hidden} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
