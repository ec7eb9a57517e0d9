"""A run that stands still is called that, not slow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from building import check_run, member, run, use

from mooring.doctor.facts import StallFacts
from mooring.doctor.finding import Confidence
from mooring.doctor.read_stall import read_stall
from mooring.doctor.registry import Unknown
from mooring.model.status import Phase
from mooring.wire import Record
from mooring.wire.events import PhaseChanged, StalledProcess, StallNoted
from mooring.wire.members import Ready, Step
from mooring.wire.samples import Sample

STALL = StallFacts(
    40.0, 0.1, "hang: no step for 40 s", True, ("worker-1",), (("worker-1", "f (a.py:1)"),), "/r/s"
)
NOTED = StallNoted(
    50.0,
    lasts_s=40.0,
    usual_s=0.1,
    hang=True,
    says="hang: no step for 40 s",
    missing=("worker-1",),
    file="stacks-at-stall.txt",
    processes=(
        StalledProcess("worker-0", stack=("wait (a.py:2)", "main (a.py:9)")),
        StalledProcess("worker-1", state="stopped", kernel="do_signal_stop"),
    ),
)


def sampled(step_until: int, until: int) -> dict[str, list[Record]]:
    """A step and a sample a second."""
    records: list[Record] = [Ready(0.0)]
    records += [Step(float(at)) for at in range(1, step_until)]
    records += [Sample(float(at), cpu_s=float(at)) for at in range(1, until)]
    return {"worker-0": records}


def test_the_one_that_is_missing_is_named_first() -> None:
    facts = replace(run(member("worker-0"), member("worker-1")), stall=STALL)
    [found] = check_run("hang", facts)
    assert found.members == ("worker-1",)
    assert found.confidence is Confidence.CERTAIN
    assert found.weight == 1.0
    assert found.gain is None
    said = [f"{figure.what}: {figure.said}" for figure in found.evidence]
    assert "worker-1 is at: f (a.py:1)" in said
    assert "everybody's stacks: /r/s" in said


def test_a_hang_is_no_straggler() -> None:
    """One that sleeps uses less CPU and does less than the others: for ever."""
    workers = (
        member("worker-0", use(cpu_s=9.0), examples_per_s=100.0),
        member("worker-1", use(cpu_s=0.1), examples_per_s=10.0),
    )
    assert check_run("straggler", run(*workers))
    with pytest.raises(Unknown, match="nobody makes a step any more"):
        check_run("straggler", replace(run(*workers), stall=STALL))


def test_no_standstill_no_finding() -> None:
    assert check_run("hang", run(member("worker-0"))) == []


def test_what_the_run_noted_is_read() -> None:
    found = read_stall([NOTED], {}, "/run")
    assert found is not None
    assert found.missing == ("worker-1",)
    assert found.file == "/run/stacks-at-stall.txt"
    assert found.processes == (
        ("worker-0", "wait (a.py:2) ← main (a.py:9)"),
        ("worker-1", "stopped, do_signal_stop"),
    )


def test_a_standstill_that_passed_is_none() -> None:
    assert read_stall([NOTED, StallNoted(60.0, over=True)], {}) is None
    assert read_stall([NOTED, PhaseChanged(60.0, Phase.SUCCEEDED)], {}) is None


@pytest.mark.parametrize(
    ("step_until", "until", "stalls"),
    # Steps every second: 5 × 1 s is less than 30 s.
    [(60, 61, False), (60, 85, False), (60, 120, True), (1, 120, False)],
)
def test_samples_without_steps_tell_too(step_until: int, until: int, stalls: bool) -> None:
    found = read_stall([], sampled(step_until, until))
    assert (found is not None) == stalls
    if found is not None:
        assert not found.hang
        assert found.lasts_s == pytest.approx(until - step_until)
