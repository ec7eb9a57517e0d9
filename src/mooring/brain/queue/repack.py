"""Another plan for the gangs of one round, so that one more of them has a place.

Gangs that are admitted in a round are placed one after the other, and nobody has started yet: a
gang that is refused although the amounts suffice may fit once those before it are placed
otherwise. Placed by their largest members, the largest first, gangs leave the fewest gaps; who
still has no place then goes first, and all is tried again.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.brain.queue.scene import Change, Scene
from mooring.brain.queue.types import RunningGang
from mooring.brain.want import Want, kinds_of
from mooring.model.plan import Plan

Turn = tuple[float, ...]
#: How often whoever has no place may go first.
_MOST_COMPLAINTS = 4


def together(scene: Scene, gangs: Sequence[RunningGang]) -> list[RunningGang] | None:
    """These gangs with new plans that fit all at once; those that run are placed anew.

    `scene` is left as it was. The plan of a gang that does not run yet is not looked at: only how
    many members it has.
    """
    moving = [Change(each) for each in gangs if each.job in scene.running]
    with scene.supposing(moving):
        for order in _orders(gangs):
            for _ in range(_MOST_COMPLAINTS):
                found = _place(scene, order)
                if not isinstance(found, RunningGang):
                    return found
                if found is order[0]:
                    break
                order = [found, *(each for each in order if each is not found)]
    return None


def _place(scene: Scene, order: Sequence[RunningGang]) -> list[RunningGang] | RunningGang:
    """The gangs with their plans, or the first that has no place."""
    found: list[RunningGang] = []
    try:
        for each in order:
            plan = scene.fits(each.queued, each.size)
            if not isinstance(plan, Plan):
                return each
            placed = RunningGang(each.queued, plan, each.started_s)
            scene.start(placed)
            found.append(placed)
    finally:
        for placed in found:
            scene.stop(placed.job)
    return found


def _orders(gangs: Sequence[RunningGang]) -> list[list[RunningGang]]:
    """By devices, CPUs or memory of the largest member, or those with CPUs of their own first."""

    def line_up(*kinds: int) -> list[RunningGang]:
        def turn(each: RunningGang) -> tuple[Turn, str]:
            wants = kinds_of(each.gang).wants
            return min(tuple(-_amounts(want)[kind] for kind in kinds) for want in wants), each.job

        return sorted(gangs, key=turn)

    ways = (line_up(2, 3, 0, 1), line_up(0, 2, 3, 1), line_up(3, 2, 0, 1), line_up(1, 2, 0))
    return list({tuple(each.job for each in way): way for way in ways}.values())


def _amounts(want: Want) -> tuple[int, int, int, int]:
    return want.cpu_millis, want.memory_bytes, want.gpus, want.whole_cpus
