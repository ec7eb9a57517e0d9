"""Pods a second until kube-scheduler has bound them all: with the operator, and without.

The same pods are made by a client that does nothing but send, and do not name their node. Where
the time goes is told by the CPU seconds of each program, and by what the controllers write.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kube_audit import done, span_s
from kube_stage import ADMIN_USER, JOB, OPERATOR_USER, Stage
from pairs import Ratios, interleave, ratios
from results import say, show

from mooring.backends.kubernetes.jobs.record import TrainingJobRecord


@dataclass(frozen=True)
class Bound:
    """Seconds until all pods were bound, from the first admission and from the submission, and
    meanwhile: how often the controllers wrote the addresses behind the jobs' services, and the
    CPU time of each program."""

    from_admission_s: float
    from_submission_s: float
    slice_writes: int
    cpu_s: Mapping[str, float]


def binding(
    bench: Stage, record: TrainingJobRecord, pairs: int, jobs: int, figures: dict[str, object]
) -> None:
    count = jobs * len(record.slots)
    figures["binding"] = document = {"pods": count}
    for key, title, ruled in (
        ("alone", "kube-scheduler alone", False),
        ("ruled", "kube-scheduler alone, with rules", True),
    ):
        say(f"binding: {count} pods against {title}, {pairs} pairs")
        found = interleave(
            partial(_bound_alone, bench, record, jobs, ruled=ruled),
            partial(_bound_by_plan, bench, len(record.slots), jobs),
            pairs,
        )
        document |= _bound_document(key, title, count, found)


def _bound_document(
    key: str, title: str, count: int, found: Sequence[tuple[Bound, Bound]]
) -> dict[str, object]:
    admitted, submitted = (
        Ratios(tuple(1 / value for value in ratios(found, which).values))
        for which in (lambda one: one.from_admission_s, lambda one: one.from_submission_s)
    )
    halves = tuple(zip(*found, strict=True))
    alone, planned = (
        statistics.median(count / one.from_admission_s for one in half) for half in halves
    )
    alone_writes, planned_writes = (
        statistics.median(one.slice_writes for one in half) for half in halves
    )
    show(
        f"{count} pods, until the last is bound",
        [title, "with the operator", "ratio", "from submission", "EndpointSlices written"],
        [
            [
                f"{alone:.0f} pods/s",
                f"{planned:.0f} pods/s",
                str(admitted),
                str(submitted),
                f"{alone_writes:.0f} and {planned_writes:.0f} times",
            ]
        ],
    )
    alone_cpu_s, planned_cpu_s = (_medians([one.cpu_s for one in half]) for half in halves)
    show(
        "CPU seconds of these programs, medians",
        ["program", title, "with the operator"],
        [
            [name, f"{alone_cpu_s.get(name, 0):.2f}", f"{planned_cpu_s.get(name, 0):.2f}"]
            for name in sorted({*alone_cpu_s, *planned_cpu_s})
        ],
    )
    return {
        f"{key}_s": [round(one.from_admission_s, 4) for one, _ in found],
        f"beside_{key}_from_admission_s": [round(one.from_admission_s, 4) for _, one in found],
        f"beside_{key}_from_submission_s": [round(one.from_submission_s, 4) for _, one in found],
        f"{key}_cpu_s": alone_cpu_s,
        f"beside_{key}_cpu_s": planned_cpu_s,
        f"{key}_slice_writes": [one.slice_writes for one, _ in found],
        f"beside_{key}_slice_writes": [one.slice_writes for _, one in found],
        f"rate_over_{key}": admitted.document(),
        f"rate_over_{key}_from_submission": submitted.document(),
    }


def _medians(halves: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = sorted({name for half in halves for name in half})
    return {
        name: round(statistics.median(half.get(name, 0.0) for half in halves), 3) for name in names
    }


def _names(jobs: int) -> list[str]:
    return [f"{JOB}-{number}" for number in range(jobs)]


def _bound_alone(bench: Stage, record: TrainingJobRecord, jobs: int, *, ruled: bool) -> Bound:
    bench.operated()
    services, pods = [], []
    for name in _names(jobs):
        bench.submit(name, len(record.slots), scheduler="default" if ruled else "mooring")
        service, mine = bench.bodies(name, record, anywhere=not ruled)
        services.append(service)
        pods += mine
    tail = bench.tail()
    before = bench.cpu_s()
    bench.send(services, pods)
    tail.wait(_bindings, len(pods))
    cpu_s = _since(before, bench.cpu_s())
    entries = tail.entries()
    taken_s = span_s(done(entries, "create", "pods", ADMIN_USER), _bindings(entries))
    bench.clear()
    return Bound(taken_s, taken_s, len(_slices(entries)), cpu_s)


def _bound_by_plan(bench: Stage, workers: int, jobs: int) -> Bound:
    with bench.operating():
        tail = bench.tail()
        before = bench.cpu_s()
        for name in _names(jobs):
            bench.submit(name, workers)
        tail.wait(_bindings, workers * jobs)
        cpu_s = _since(before, bench.cpu_s())
        entries = tail.entries()
        bindings = _bindings(entries)
        admissions = done(entries, "update", "trainingjobs/status", OPERATOR_USER)
        submissions = done(entries, "create", "trainingjobs")
        bench.clear()
    taken_s, since_submission_s = span_s(admissions, bindings), span_s(submissions, bindings)
    return Bound(taken_s, since_submission_s, len(_slices(entries)), cpu_s)


def _since(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    return {name: now[name] - before.get(name, 0.0) for name in now}


_bindings = partial(done, verb="create", thing="pods/binding")
_slices = partial(done, verb="update", thing="endpointslices")
