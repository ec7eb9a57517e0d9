"""What the operator tells Prometheus about itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mooring.backends.kubernetes.api.connection import ApiCall


class Metrics:
    """One registry an operator: tests run several in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._calls = Counter(
            "mooring_api_calls",
            "Calls to the API server.",
            ["method", "resource", "status"],
            registry=self.registry,
        )
        self._reconciles = Histogram(
            "mooring_reconcile_seconds", "One look at one job.", registry=self.registry
        )
        self._failures = Counter(
            "mooring_reconcile_failures", "Looks that did not end well.", registry=self.registry
        )
        self._rounds = Histogram(
            "mooring_admission_round_seconds", "One round of the queue.", registry=self.registry
        )
        self._latency = Histogram(
            "mooring_admission_latency_seconds",
            "From a job's arrival to its place.",
            buckets=(0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400),
            registry=self.registry,
        )
        self._queue = Gauge("mooring_queue_length", "Jobs that wait.", registry=self.registry)
        self._trouble = Counter(
            "mooring_watch_troubles", "Lists and watches that broke.", registry=self.registry
        )
        self._leads = Gauge("mooring_leader", "1 if this replica leads.", registry=self.registry)

    def call(self, call: ApiCall) -> None:
        self._calls.labels(call.method, call.resource, str(call.status)).inc()

    def reconciled(self, duration_s: float, *, failed: bool) -> None:
        self._reconciles.observe(duration_s)
        if failed:
            self._failures.inc()

    def round(self, duration_s: float, waiting: int) -> None:
        self._rounds.observe(duration_s)
        self._queue.set(waiting)

    def admitted(self, waited_s: float) -> None:
        self._latency.observe(max(0.0, waited_s))

    def trouble(self) -> None:
        self._trouble.inc()

    def leads(self, leads: bool) -> None:
        self._leads.set(1 if leads else 0)

    def text(self) -> bytes:
        return generate_latest(self.registry)
