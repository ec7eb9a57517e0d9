"""How far a run is: one typed value, for programs."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mooring.model.status import MemberState, Phase
from mooring.report.view import MemberView, RunView


@dataclass(frozen=True)
class Progress:
    """A run at one moment. What nobody reports is None.

    `steps` is of the member that is furthest, `examples` of all members. `eta_s` is how long the
    rest takes at the pace of the last minute, if the number of steps is known.
    """

    phase: Phase
    reason: str
    elapsed_s: float
    members: int
    members_running: int
    steps: int
    total_steps: int | None
    steps_per_s: float | None
    examples: int
    examples_per_s: float | None
    loss: float | None
    eta_s: float | None

    @property
    def ended(self) -> bool:
        return self.phase.final

    def __str__(self) -> str:
        said = [f"{self.phase.value}, {self.members_running}/{self.members} members running"]
        if self.total_steps:
            said.append(f"{self.steps:,}/{self.total_steps:,} steps")
        elif self.steps:
            said.append(f"{self.steps:,} steps")
        if self.examples_per_s is not None:
            said.append(f"{self.examples_per_s:,.0f} examples/s")
        if self.loss is not None:
            said.append(f"loss {self.loss:.4f}")
        if self.eta_s is not None:
            said.append(f"{self.eta_s:.0f} s to go")
        return ", ".join(said)


def progress_of(view: RunView) -> Progress:
    """The run as far as `view` has read it."""
    members = list(view.members.values())
    first = max((member for member in members if member.steps), key=_done, default=None)
    done = first.done_steps if first is not None else 0
    total = (first.total_steps if first is not None else None) or view.total_steps
    rate = first.steps_made.rate if first is not None and not view.phase.final else None
    losses = (member.last_loss for member in members if member.last_loss is not None)
    ended_s = view.ended_s or time.time()
    return Progress(
        phase=view.phase,
        reason=view.reason,
        elapsed_s=max(0.0, ended_s - view.started_s) if view.started_s is not None else 0.0,
        members=len(members),
        members_running=sum(member.state is MemberState.RUNNING for member in members),
        steps=done,
        total_steps=total,
        steps_per_s=rate,
        examples=sum(member.examples for member in members),
        examples_per_s=None if view.phase.final else view.examples_per_s,
        loss=next(losses, None),
        eta_s=view.left_s(ended_s),
    )


def _done(member: MemberView) -> int:
    return member.done_steps
