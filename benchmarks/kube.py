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
from functools import partial
from pathlib import Path

import kube_load
from kube_audit import Writes, done, least_writes, span_s, writes_of
from kube_binding import binding
from kube_stage import ADMIN_USER, JOB, OPERATOR_USER, NoKubernetes, Stage, stage
from pairs import interleave, ratios
from results import Machine, options, say, show, write

from mooring.backends.kubernetes.jobs.record import TrainingJobRecord

PARTS = ("writes", "creation", "binding", "large")
#: What a job that starts at once goes through; each has to be told once.
_PHASES = ("Starting", "Running", "Succeeded")


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=0)
    parser.add_argument("--workers", type=int, default=200, help="of each job")
    parser.add_argument("--jobs", type=int, default=6, help="at once, where binding is measured")
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
                    binding(bench, record, chosen.pairs, chosen.jobs, figures)
        if "large" in chosen.only:
            _large(bench, chosen.large_nodes, chosen.large_pods, chosen.events, figures)


# -- writes


def _writes(
    bench: Stage, workers: int, nodes: int, figures: dict[str, object]
) -> TrainingJobRecord:
    """Also where the job was placed: the same places are used from then on."""
    say(f"writes: a job of {workers} workers on {nodes:,} nodes, from submission to success")
    with bench.operating(), bench.puppets() as strings:
        tail = bench.tail()
        bench.submit(JOB, workers)
        bench.wait_phase(JOB, "Running")
        record = bench.record(JOB)
        for pod in bench.pods():
            strings.finish(bench.namespace, pod)
        bench.wait_phase(JOB, "Succeeded")
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


def _creation(
    bench: Stage, record: TrainingJobRecord, pairs: int, figures: dict[str, object]
) -> None:
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


def _sent(bench: Stage, record: TrainingJobRecord) -> float:
    """The job is there, so that its pods have an owner, and no operator."""
    bench.operated()
    bench.submit(JOB, len(record.slots))
    service, pods = bench.bodies(JOB, record)
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
        bench.submit(JOB, workers)
        made = partial(done, verb="create", thing="pods", user=OPERATOR_USER)
        tail.wait(made, workers)
        taken_s = span_s(done(tail.entries(), "create", "trainingjobs"), made(tail.entries()))
        bench.clear()
    return taken_s


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
