"""kill -9 at every write: every run ends in the state of the undisturbed one.

By default a seeded selection; `MOORING_ALL_KILLS=1` runs all of them (docs/reliability.md).
"""

from __future__ import annotations

import difflib
import json
import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kube.cluster.client import Json
from kube.cluster.control_plane import ControlPlane
from kube.cluster.puppets import Puppets
from kube.faults.kills import KillAt, Moment, Story
from kube.faults.lanes import lane
from kube.faults.nursery import Nursery
from kube.faults.scenarios import SCENARIOS

pytestmark = [pytest.mark.slow, pytest.mark.programs("kube-scheduler", "kube-controller-manager")]

ALL = os.environ.get("MOORING_ALL_KILLS", "") not in ("", "0")
SEED = int(os.environ.get("MOORING_KILL_SEED", "20240229"))
#: Of each scenario, without MOORING_ALL_KILLS.
SELECTED = 4
#: How many runs go on side by side.
LANES = int(os.environ.get("MOORING_KILL_LANES", "4"))
#: Longer than the operator keeps counts back (operator/statuses.py).
QUIET_S = 1.5


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_kill_ends_where_the_undisturbed_run_ends(
    name: str, control_plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> None:
    story = SCENARIOS[name]
    expected, writes = undisturbed(story, control_plane, nursery, strings)
    points = [(write, moment) for write in range(1, writes + 1) for moment in Moment]
    if not ALL:
        points = random.Random(f"{SEED}{name}").sample(points, SELECTED)

    def one(point: tuple[int, Moment]) -> tuple[bool, str]:
        """(whether the operator was killed, what went wrong)"""
        write, moment = point
        with lane(control_plane, nursery, strings) as here:
            kill = KillAt(here, write, moment)
            here.proxy.rule = kill
            here.start()
            try:
                story(here)
                here.until(lambda: here.state() == expected, "the same state")
                problem = "\n".join(here.defects)
            except AssertionError as error:
                problem = f"{difference(expected, here.state())}\n{error}"
            told = f"write {write}, {moment}: {problem}" if problem else ""
            return kill.done.is_set(), told

    with ThreadPoolExecutor(LANES) as pool:
        results = list(pool.map(one, points))
    reached = sum(killed for killed, _ in results)
    problems = [problem for _, problem in results if problem]
    print(f"\n{name}: {writes} writes, {reached} of {len(points)} kill points reached")
    assert problems == [], "\n\n".join(problems)
    # How often counts are written depends on the machine: the last of them may not come.
    assert reached >= len(points) * 0.75


def undisturbed(
    story: Story, plane: ControlPlane, nursery: Nursery, strings: Puppets
) -> tuple[Json, int]:
    """The state at the end, and how many writes led to it."""
    with lane(plane, nursery, strings) as here:
        here.start()
        story(here)
        before: Json = {}
        since_s = time.monotonic()

        def settled() -> bool:
            nonlocal before, since_s
            last, before = before, here.state()
            if last != before or any(pod["leaving"] for pod in before["pods"]):
                since_s = time.monotonic()
            return time.monotonic() > since_s + QUIET_S

        here.until(settled, "nothing changes any more")
        assert here.defects == []
        return here.state(), here.proxy.writes


def difference(expected: Json, found: Json) -> str:
    wanted = json.dumps(expected, indent=1, sort_keys=True).splitlines()
    lines = json.dumps(found, indent=1, sort_keys=True).splitlines()
    return "\n".join(list(difflib.unified_diff(wanted, lines, "expected", "found", n=1))[:60])
