"""The machine's queue under long trouble: `make test-faults`. Short versions are in tests/local."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mooring.backends.local import netns
from support.moor import write_job
from support.service import service_in
from support.service_clients import ask_at_once
from support.service_kills import Campaign

CPUS = len(os.sched_getaffinity(0))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("MOORING_ALL_KILLS" not in os.environ, reason="long: make test-faults"),
]
_VIRTUAL = netns.why_not() is None


@pytest.mark.parametrize("seed", range(4))
def test_a_service_killed_fifty_times_loses_and_repeats_nothing(seed: int, tmp_path: Path) -> None:
    """Two hundred kills in all, a quarter of them with virtual nodes where there can be any."""
    nodes = ("--nodes", "2") if seed == 3 and _VIRTUAL else ()
    with service_in(tmp_path / "home", *nodes) as service:
        campaign = Campaign(service, tmp_path, seed)
        campaign.carry_out(kills=50)
        campaign.check(deadline_s=900)
        assert len(campaign.accepted) > 20


def test_eight_clients_with_five_hundred_operations_each(tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        name="never",
        framework="indexed",
        command=[sys.executable, "-S", "-c", "import time; time.sleep(3600)"],
        roles={"worker": {"replicas": 1, "resources": {"cpu": CPUS}}},
        gracePeriod="1s",
    )
    with service_in(tmp_path / "home") as service:
        ask_at_once(service, job, clients=8, operations=500)
