"""The arithmetic of the benchmarks: what they claim rests on it."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _benchmark_module("pairs", monkeypatch)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _benchmark_module("steps", monkeypatch)


@pytest.fixture
def kube_audit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _benchmark_module("kube_audit", monkeypatch)


def _benchmark_module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Benchmarks are programs: their modules are found from their own folder, not installed."""
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return module


def test_pairs_alternate_which_way_goes_first(pairs: ModuleType) -> None:
    ran: list[str] = []

    def way(name: str) -> str:
        ran.append(name)
        return name

    found = pairs.interleave(lambda: way("a"), lambda: way("b"), 4)

    assert "".join(ran) == "abbaabba"
    assert found == [("a", "b")] * 4


def test_a_ratio_compares_the_two_halves_of_one_pair(pairs: ModuleType) -> None:
    """The second pair ran on a machine half as fast: both of its halves did."""
    found = pairs.ratios([(10.0, 11.0), (20.0, 22.0)], lambda value: value)

    assert found.values == pytest.approx((1.1, 1.1))


@pytest.mark.parametrize(
    ("values", "median", "low", "high", "spread"),
    [
        ((1.0,), 1.0, 1.0, 1.0, 0.0),
        ((1.2, 0.8), 1.0, 0.8, 1.2, 0.4),
        ((3.0, 1.0, 2.0), 2.0, 1.0, 3.0, 1.0),
    ],
)
def test_median_and_range(
    pairs: ModuleType,
    values: tuple[float, ...],
    median: float,
    low: float,
    high: float,
    spread: float,
) -> None:
    found = pairs.Ratios(values)

    assert (found.median, found.low, found.high) == (median, low, high)
    assert found.spread == pytest.approx(spread)


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [
        # 1 - 2 * sum of C(n, i) for i <= cut, over 2^n.
        (1, 0, 0, 0.0),
        (5, 0, 4, 1 - 2 / 32),
        (8, 1, 6, 1 - 2 * (1 + 8) / 256),
        (12, 2, 9, 1 - 2 * (1 + 12 + 66) / 4096),
    ],
)
def test_the_interval_of_the_median_is_made_of_order_statistics(
    pairs: ModuleType, count: int, low: int, high: int, coverage: float
) -> None:
    values = [float(value) for value in reversed(range(count))]

    found = pairs.median_interval(values, 0.9)

    assert (found.low, found.high) == (low, high)
    assert found.coverage == pytest.approx(coverage)


def test_the_interval_of_the_mean_is_symmetric_in_ratios(pairs: ModuleType) -> None:
    """Twice as fast and twice as slow cancel out; the error is log(2) / sqrt(n - 1)."""
    found = pairs.mean_interval([2.0, 0.5] * 8, errors=2)

    assert found.low * found.high == pytest.approx(1)
    assert found.high == pytest.approx(2 ** (2 / 15**0.5))
    assert found.coverage == pytest.approx(0.954, abs=0.001)


def test_no_values_have_no_interval(pairs: ModuleType) -> None:
    with pytest.raises(ValueError, match="no values"):
        pairs.median_interval([], 0.9)


def test_a_rare_pause_shows_in_the_mean_step_and_not_in_the_median(steps: ModuleType) -> None:
    """Nine steps of 10 ms and one of 30 ms: 120 ms for ten."""
    ends = [0.0]
    for number in range(10):
        ends.append(ends[-1] + (0.03 if number == 4 else 0.01))
    worker = steps.Steps(batch=64, threads=1, ends_s=tuple(ends))

    assert worker.mean_s == pytest.approx(0.012)
    assert worker.median_s == pytest.approx(0.01)
    assert worker.examples_per_s == pytest.approx(64 / 0.012)


def test_a_window_holds_whole_steps_only(steps: ModuleType) -> None:
    worker = steps.Steps(64, 1, (0.0, 1.0, 2.0, 4.0, 8.0))

    assert worker.between(0.5, 5.0).ends_s == (1.0, 2.0, 4.0)
    assert worker.between(1.0, 4.0).ends_s == (1.0, 2.0, 4.0)
    with pytest.raises(ValueError, match="no step"):
        worker.between(4.5, 7.0)


def test_each_step_belongs_to_the_window_that_it_ends_in(steps: ModuleType) -> None:
    worker = steps.Steps(64, 1, (0.0, 1.0, 2.0, 4.0, 8.0))

    assert worker.ending_in(0.0, 1.5).ends_s == (0.0, 1.0)
    assert worker.ending_in(1.5, 5.0).ends_s == (1.0, 2.0, 4.0)
    assert worker.ending_in(5.0, 8.0).ends_s == (4.0, 8.0)
    with pytest.raises(ValueError, match="no step"):
        worker.ending_in(9.0, 10.0)


def test_pooled_windows_weigh_by_their_steps(steps: ModuleType) -> None:
    """One worker, 1 step of 3 s and 3 steps of 1 s: 6 s for four."""
    windows = [[steps.Steps(1, 1, (0.0, 3.0))], [steps.Steps(1, 1, (5.0, 6.0, 7.0, 8.0))]]

    assert steps.pooled_step_s(windows) == pytest.approx(1.5)


def test_workers_add_up_and_the_slowest_is_told_apart(steps: ModuleType) -> None:
    workers = [steps.Steps(10, 1, (0.0, 1.0)), steps.Steps(10, 1, (0.0, 2.0))]

    assert steps.examples_per_s(workers) == pytest.approx(15)
    assert steps.slowest_per_s(workers) == pytest.approx(5)
    assert steps.mean_step_s(workers) == pytest.approx(1.5)


@dataclass(frozen=True)
class Call:
    """A line of an audit log, as far as it is counted."""

    user: str = "operator"
    verb: str = "create"
    resource: str = "pods"
    subresource: str = ""
    code: int = 201
    received_s: float = 0.0
    answered_s: float = 0.0

    @property
    def is_write(self) -> bool:
        return self.verb != "get"


def test_writes_are_counted_by_verb_and_resource_refused_ones_too(kube_audit: ModuleType) -> None:
    status = Call(verb="update", resource="trainingjobs", subresource="status", code=200)
    log = [
        *([Call()] * 3),
        Call(code=409),
        Call(verb="get", code=200),
        Call(user="admin"),
        status,
        Call(resource="events"),
        Call(verb="update", resource="leases", code=200),
    ]

    found = kube_audit.writes_of(log, "operator")

    assert found.counts == (
        ("create pods", 4),
        ("create events", 1),
        ("update trainingjobs/status", 1),
    )
    assert found.total == 6
    assert found.of_no_job == 1


def test_the_least_is_each_pod_one_service_and_a_status_a_phase(kube_audit: ModuleType) -> None:
    assert kube_audit.least_writes(pods=200, phases=3) == 200 + 1 + 3


def test_only_calls_of_the_kind_that_were_carried_out_are_timed(kube_audit: ModuleType) -> None:
    """The bindings of pods are no pods; a refused call has made nothing."""
    second, first = Call(answered_s=9.0, received_s=4.0), Call(answered_s=5.0, received_s=4.5)
    log = [second, first, Call(code=429), Call(subresource="binding"), Call(user="admin")]

    assert kube_audit.done(log, "create", "pods", "operator") == [first, second]
    assert len(kube_audit.done(log, "create", "pods")) == 3
    assert len(kube_audit.done(log, "create", "pods/binding")) == 1


def test_a_span_goes_from_the_first_arrival_to_the_last_answer(kube_audit: ModuleType) -> None:
    began = [Call(received_s=2.0, answered_s=2.5), Call(received_s=1.0, answered_s=8.0)]
    ended = [Call(received_s=3.0, answered_s=7.0), Call(received_s=4.0, answered_s=5.0)]

    assert kube_audit.span_s(began, ended) == pytest.approx(7.0 - 1.0)
    with pytest.raises(ValueError, match="no such call"):
        kube_audit.span_s(began, [])


def test_a_part_that_was_not_measured_keeps_its_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = _benchmark_module("results", monkeypatch)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.write(
        "b", results.Machine(), {"one": {"ratio": 1}, "two": {"ratio": 2}}, ("one", "two")
    )
    first = json.loads((tmp_path / "b.json").read_text())
    results.write("b", results.Machine(), {"two": {"ratio": 3}}, ("one", "two"))
    second = json.loads((tmp_path / "b.json").read_text())
    assert second["one"] == first["one"]
    assert second["two"]["ratio"] == 3
    assert set(second["two"]["circumstances"]) == set(first["one"]["circumstances"])
