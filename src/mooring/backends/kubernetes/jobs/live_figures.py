"""Figures of a running job from what its launchers say: steps, examples a second, its own CPUs.

`stalled_of` says from them whether it stands still.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.backends.kubernetes.objects.live import MemberLive
from mooring.lifecycle import Stalled
from mooring.model.amounts import duration, format_duration
from mooring.spec import TrainingJob
from mooring.spec.policies import OnStall

#: Members that a status names; of more, those that lack what they asked for come first.
_MOST_NAMED = 32


@dataclass(frozen=True)
class Live:
    """What is written to the status."""

    examples_per_s: float | None = None
    step: int | None = None
    pinning: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LastStep:
    """When a job of this epoch was seen to have made another step, by the operator's clock.

    `asked_s` is when it last answered: one that cannot be asked is not one that stands still.
    """

    epoch: int
    at_s: float
    asked_s: float


def counts_of(members: Mapping[str, MemberLive]) -> dict[str, tuple[int | None, float | None]]:
    """What grows with each step, of members that report any."""
    return {
        name: (live.step, live.examples)
        for name, live in members.items()
        if live.step is not None or live.examples
    }


def all_done(members: Mapping[str, MemberLive]) -> bool:
    """Has somebody made all steps that were announced?"""
    return any(
        member.total is not None and member.step is not None and member.step >= member.total
        for member in members.values()
    )


def rate_of(
    before: Mapping[str, MemberLive], after: Mapping[str, MemberLive], passed_s: float
) -> float | None:
    """Examples a second of all members together; None if nobody counts any.

    A member that has started anew counts from zero: what it lost is not taken off.
    """
    done, counted = 0.0, False
    for name, live in after.items():
        if live.examples is None:
            continue
        counted = True
        earlier = before[name].examples if name in before else None
        gained = live.examples - (earlier or 0.0)
        done += gained if gained >= 0 else live.examples
    return done / passed_s if counted and passed_s > 0 else None


def pinning_of(members: Mapping[str, MemberLive]) -> dict[str, str]:
    """Member -> `exclusive 2-3`, or `shared 0-7` and why it is not exclusive as it should be."""
    order = sorted(members, key=lambda name: (not members[name].why, name))
    return {name: _words(members[name]) for name in order[:_MOST_NAMED] if members[name].cpus}


def _words(live: MemberLive) -> str:
    if live.own:
        return f"exclusive {live.cpus}"
    return f"shared {live.cpus}: {live.why}" if live.why else f"shared {live.cpus}"


def stalled_of(job: TrainingJob, last: LastStep | None) -> Stalled | None:
    """Whether the job has answered for longer than it allows without having made a step."""
    policy = job.spec.failure_policy
    if policy.on_stall is OnStall.WARN or policy.stall_timeout_s is None or last is None:
        return None
    lasts_s = last.asked_s - last.at_s
    if lasts_s < policy.stall_timeout_s:
        return None
    lasts = duration(round(lasts_s))
    limit = format_duration(policy.stall_timeout_s)
    return Stalled(last.epoch, f"no step for {lasts}: its stallTimeout is {limit}")
