"""When the checks of parameter servers speak, with the arithmetic."""

from __future__ import annotations

import pytest
from building import check_run, member, run, use

from mooring.doctor.facts import MemberFacts, NicFacts
from mooring.doctor.finding import Confidence
from mooring.doctor.registry import Unknown

MB = 10**6


def servers(*megabytes: float, node: str = "node-{}") -> list[MemberFacts]:
    """One server each, with what it moved in 10 s."""
    return [
        member(f"ps-{i}", use(received_bytes=int(mb * MB)), node=node.format(i))
        for i, mb in enumerate(megabytes)
    ]


@pytest.mark.parametrize(
    ("moved", "found"),
    [
        ((100, 100), False),
        # 149 / 100
        ((149, 51), False),
        # 155 / 100
        ((155, 45), True),
        ((100, 100, 100, 100), False),
        # 250 / 100
        ((250, 50, 50, 50), True),
        # Two that serve alike and two that do not serve: idle, not hot.
        ((100, 100, 0, 0), False),
        # One that serves everything: 100 / 25.
        ((100, 0, 0, 0), True),
    ],
)
def test_a_hot_server(moved: tuple[float, ...], found: bool) -> None:
    assert bool(check_run("ps-hot", run(*servers(*moved)))) is found


def test_a_full_card_makes_a_hot_server_certain() -> None:
    # 10 s × 100 Mbit/s = 125 MB; it received 120 MB = 96 Mbit/s.
    nic = NicFacts("node-0", 100, 96.0, 5.0)
    [found] = check_run("ps-hot", run(*servers(120, 20, 20), nics=(nic,)))
    assert found.confidence is Confidence.CERTAIN
    assert found.members == ("ps-0",)
    # 120 / (160 / 3) = 2.25
    assert found.gain is not None
    assert found.gain.high == pytest.approx(2.25)


@pytest.mark.parametrize("moved", [(100,), (0.2, 0.1)])
def test_one_server_or_no_traffic_is_no_answer(moved: tuple[float, ...]) -> None:
    with pytest.raises(Unknown):
        check_run("ps-hot", run(*servers(*moved)))


def test_a_job_without_servers_is_no_answer() -> None:
    with pytest.raises(Unknown, match="no parameter servers"):
        check_run("ps-hot", run(member("worker-0")))
