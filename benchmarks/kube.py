"""What does the operator cost an API server, and how large a cluster can it look after?

On a real etcd, API server, controller manager and scheduler (`make kube`), whose own rate limits
are raised. Counts and times are those of the API server's audit log. The operator runs as it is
installed: a process of its own with its ServiceAccount and an election.

writes: one job from its submission to its success on nodes that only say that pods run; all that
the operator writes, events and refused calls too, but for its lease.
creation: from the job's submission to its last pod, against a client that does nothing but send the
same Service and the same pods.
binding: several such jobs at once, from the first admission to the last pod that kube-scheduler has
bound, against the same pods without a node of their own, sent by that client, from the first call:
pods that ask for nothing, and pods with the rules of `scheduler: default`, which spread the gang as
the plan does.
large: what the operator takes of memory, and how long it takes from one event to the last call that
follows from it. Only etcd and the API server run beside it there.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import kube_load
from kube_audit import Writes, done, least_writes, span_s, writes_of
from kube_stage import ADMIN_USER, OPERATOR_USER, NoKubernetes, Stage, stage
from pairs import Ratios, interleave, ratios
from results import Machine, options, say, show, write

from mooring.operator.record import Record

PARTS = ("writes", "creation", "binding", "large")
_JOB = "bench"
#: What a job that starts at once goes through; each has to be told once.
_PHASES = ("Starting", "Running", "Succeeded")


@dataclass(frozen=True)
class Bound:
    """Seconds until all pods were bound, from the first admission and from the submission, and how
    often the controllers wrote the addresses behind the jobs' services meanwhile."""

    from_admission_s: float
    from_submission_s: float
    slice_writes: int


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=0)
    parser.add_argument("--workers", type=int, default=200, help="of each job")
    parser.add_argument("--jobs", type=int, default=3, help="at once, where binding is measured")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--large-nodes", type=int, default=5000)
    parser.add_argument("--large-pods", type=int, default=20_000)
    parser.add_argument("--events", type=int, default=20, help="of each kind, on the large cluster")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=PARTS, help="parts to run")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    machine = Machine("aiohttp", "numpy")
    figures: dict[str, object] = {"workers": chosen.workers}
    try:
        _measure(chosen, figures)
    except NoKubernetes as problem:
        say(f"left out: {problem}")
        return
    except KeyboardInterrupt:
        sys.exit(130)
    write("kube", machine, figures, PARTS)


def _measure(chosen: argparse.Namespace, figures: dict[str, object]) -> None:
    with stage() as bench:
        if set(chosen.only) & {"writes", "creation", "binding"}:
            with bench.plain_nodes(chosen.nodes):
                record = _writes(bench, chosen.workers, chosen.nodes, figures)
                if "creation" in chosen.only:
                    _creation(bench, record, chosen.pairs, figures)
                if "binding" in chosen.only:
                    _binding(bench, record, chosen.pairs, chosen.jobs, figures)
        if "large" in chosen.only:
            _large(bench, chosen.large_nodes, chosen.large_pods, chosen.events, figures)


# -- writes


def _writes(bench: Stage, workers: int, nodes: int, figures: dict[str, object]) -> Record:
    """Also where the job was placed: the same places are used from then on."""
    say(f"writes: a job of {workers} workers on {nodes:,} nodes, from submission to success")
    with bench.operating(), bench.puppets() as strings:
        tail = bench.tail()
        bench.submit(_JOB, workers)
        bench.wait_phase(_JOB, "Running")
        record = bench.record(_JOB)
        for pod in bench.pods():
            strings.finish(bench.namespace, pod)
        bench.wait_phase(_JOB, "Succeeded")
        written = writes_of(tail.entries(), OPERATOR_USER)
        bench.clear()
    least = least_writes(workers, len(_PHASES))
    rows = [*((kind, str(count)) for kind, count in written.counts)]
    rows += [("together", str(written.total)), ("÷ the least", f"{written.total / least:.3f}")]
    show(f"What the operator writes; {least} is the least", ["call", "count"], rows)
    figures["writes"] = _writes_document(written, least)
    return record


def _writes_document(written: Writes, least: int) -> dict[str, object]:
    return {
        "calls": dict(written.counts),
        "total": written.total,
        "least": least,
        "over_least": round(written.total / least, 4),
        "lease_renewals_besides": written.of_no_job,
    }


# -- creation


def _creation(bench: Stage, record: Record, pairs: int, figures: dict[str, object]) -> None:
    workers = len(record.slots)
    say(f"creation: {pairs} pairs")
    found = interleave(lambda: _sent(bench, record), lambda: _operated(bench, workers), pairs)
    ratio = ratios(found, lambda taken_s: taken_s)
    sent_s, made_s = (statistics.median(half) for half in zip(*found, strict=True))
    show(
        f"{workers} pods and a service, until the last is created",
        ["raw client", "operator, from submission", "ratio"],
        [[f"{sent_s:.2f} s", f"{made_s:.2f} s", str(ratio)]],
    )
    figures["creation"] = {
        "raw_s": [round(one, 4) for one, _ in found],
        "operator_s": [round(other, 4) for _, other in found],
        "over_raw": ratio.document(),
    }


def _sent(bench: Stage, record: Record) -> float:
    """The job is there, so that its pods have an owner, and no operator."""
    bench.operated()
    bench.submit(_JOB, len(record.slots))
    service, pods = bench.bodies(_JOB, record)
    tail = bench.tail()
    bench.send([service], pods)
    made = partial(done, verb="create", thing="pods", user=ADMIN_USER)
    tail.wait(made, len(pods))
    taken_s = span_s(done(tail.entries(), "create", "services"), made(tail.entries()))
    bench.clear()
    return taken_s


def _operated(bench: Stage, workers: int) -> float:
    with bench.operating():
        tail = bench.tail()
        bench.submit(_JOB, workers)
        made = partial(done, verb="create", thing="pods", user=OPERATOR_USER)
        tail.wait(made, workers)
        taken_s = span_s(done(tail.entries(), "create", "trainingjobs"), made(tail.entries()))
        bench.clear()
    return taken_s


# -- binding


def _binding(
    bench: Stage, record: Record, pairs: int, jobs: int, figures: dict[str, object]
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
    alone, planned = (
        statistics.median(count / one.from_admission_s for one in half)
        for half in zip(*found, strict=True)
    )
    alone_writes, planned_writes = (
        statistics.median(one.slice_writes for one in half) for half in zip(*found, strict=True)
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
    return {
        f"{key}_s": [round(one.from_admission_s, 4) for one, _ in found],
        f"beside_{key}_from_admission_s": [round(one.from_admission_s, 4) for _, one in found],
        f"beside_{key}_from_submission_s": [round(one.from_submission_s, 4) for _, one in found],
        f"{key}_slice_writes": [one.slice_writes for one, _ in found],
        f"beside_{key}_slice_writes": [one.slice_writes for _, one in found],
        f"rate_over_{key}": admitted.document(),
        f"rate_over_{key}_from_submission": submitted.document(),
    }


def _names(jobs: int) -> list[str]:
    return [f"{_JOB}-{number}" for number in range(jobs)]


def _bound_alone(bench: Stage, record: Record, jobs: int, *, ruled: bool) -> Bound:
    bench.operated()
    services, pods = [], []
    for name in _names(jobs):
        bench.submit(name, len(record.slots), scheduler="default" if ruled else "mooring")
        service, mine = bench.bodies(name, record, anywhere=not ruled)
        services.append(service)
        pods += mine
    tail = bench.tail()
    bench.send(services, pods)
    tail.wait(_bindings, len(pods))
    entries = tail.entries()
    taken_s = span_s(done(entries, "create", "pods", ADMIN_USER), _bindings(entries))
    bench.clear()
    return Bound(taken_s, taken_s, len(_slices(entries)))


def _bound_by_plan(bench: Stage, workers: int, jobs: int) -> Bound:
    with bench.operating():
        tail = bench.tail()
        for name in _names(jobs):
            bench.submit(name, workers)
        tail.wait(_bindings, workers * jobs)
        entries = tail.entries()
        bindings = _bindings(entries)
        admissions = done(entries, "update", "trainingjobs/status", OPERATOR_USER)
        submissions = done(entries, "create", "trainingjobs")
        bench.clear()
    return Bound(span_s(admissions, bindings), span_s(submissions, bindings), len(_slices(entries)))


_bindings = partial(done, verb="create", thing="pods/binding")
_slices = partial(done, verb="update", thing="endpointslices")


# -- large


def _large(bench: Stage, nodes: int, pods: int, events: int, figures: dict[str, object]) -> None:
    say(f"large: {nodes:,} nodes and {pods:,} pods are made")
    others = bench.plane.create_namespace("others")
    bench.lead()
    empty_bytes, _ = _memory_bytes(bench.operator.pid)
    bench.operator.stop()
    for component in ("kube-scheduler", "kube-controller-manager"):
        bench.plane.stop(component)
    bench.send([], list(kube_load.nodes(nodes)))
    bench.send([], list(kube_load.pods(others, pods, nodes)))
    with bench.operating():
        filled_bytes, _ = _memory_bytes(bench.operator.pid)
        arrivals, ends = zip(*(_events(bench, f"job-{n}") for n in range(events)), strict=True)
        after_bytes, peak_bytes = _memory_bytes(bench.operator.pid)
    mib = 2**20
    show(
        f"{nodes:,} nodes and {pods:,} pods of others",
        ["operator", "median", "slowest"],
        [
            ["a job arrives: until its pod is created", *_ms(arrivals)],
            ["a pod ends: until the job's status says so", *_ms(ends)],
            ["memory, no nodes and pods", f"{empty_bytes / mib:.0f} MiB", ""],
            ["memory, caches filled", f"{filled_bytes / mib:.0f} MiB", ""],
            [
                "memory, after these jobs",
                f"{after_bytes / mib:.0f} MiB",
                f"{peak_bytes / mib:.0f} MiB peak",
            ],
        ],
    )
    figures["large"] = {
        "nodes": nodes,
        "pods": pods,
        "empty_mib": round(empty_bytes / mib, 1),
        "filled_mib": round(filled_bytes / mib, 1),
        "after_mib": round(after_bytes / mib, 1),
        "peak_mib": round(peak_bytes / mib, 1),
        "arrival_to_pod_s": [round(one, 4) for one in arrivals],
        "pod_end_to_status_s": [round(one, 4) for one in ends],
    }


def _ms(values_s: Sequence[float]) -> list[str]:
    return [f"{1000 * one:.0f} ms" for one in (statistics.median(values_s), max(values_s))]


def _events(bench: Stage, name: str) -> tuple[float, float]:
    """Seconds from a job's arrival to its pod, and from the pod's end to the job's."""
    tail = bench.tail()
    bench.submit(name, 1)
    made = partial(done, verb="create", thing="pods", user=OPERATOR_USER)
    tail.wait(made, 1)
    arrival_s = span_s(done(tail.entries(), "create", "trainingjobs"), made(tail.entries()))
    [pod] = bench.pods()
    tail = bench.tail()
    bench.end_pod(pod)
    told = partial(done, verb="update", thing="trainingjobs/status", user=OPERATOR_USER)
    bench.wait_phase(name, "Succeeded")
    tail.wait(told, 1)
    end_s = span_s(done(tail.entries(), "patch", "pods/status"), told(tail.entries()))
    bench.clear()
    return arrival_s, end_s


def _memory_bytes(pid: int) -> tuple[int, int]:
    """Now, and at its largest."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    now, peak = (int(found[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
    return now, peak


if __name__ == "__main__":
    main()
