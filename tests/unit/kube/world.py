"""A cluster of pods in memory, for driving `look` by hand: pods are made, run, end and go.

It stands in for the API server and the kubelets in tests of the pure part alone; the real ones
are in tests/kube.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mooring.backends.kubernetes.jobs import status
from mooring.backends.kubernetes.jobs.look import NextStep, ObservedPods, RunPolicy, admit, look
from mooring.backends.kubernetes.jobs.record import Stage, TrainingJobRecord
from mooring.backends.kubernetes.objects.pods import ContainerView, Mark, PodView
from mooring.lifecycle import Policy
from mooring.model.member import MemberId
from mooring.model.plan import Placement, Plan, Slot
from mooring.model.resources import Resources

UID = "uid-1"


def plan_of(members: Iterable[MemberId]) -> Plan:
    return Plan(
        "ns/j",
        tuple(Placement(member, Slot(f"n{i}", ())) for i, member in enumerate(members)),
    )


@dataclass
class World:
    """One job on a cluster. `stored` is the status as the server has it."""

    members: tuple[MemberId, ...]
    run_policy: RunPolicy
    now_s: float = 1000.0
    stored: dict[str, object] = field(default_factory=dict)
    pods: dict[MemberId, PodView] = field(default_factory=dict)
    made: int = 0

    @property
    def policy(self) -> Policy:
        return self.run_policy.policy

    def record(self) -> TrainingJobRecord:
        return status.decode(self.stored, self.members, 1000.0)  # type: ignore[arg-type]

    def save(self, record: TrainingJobRecord) -> None:
        figures = status.StatusFigures(0, len(self.members), "default", 1)
        self.stored = status.encode(record, figures, self.stored, self.now_s)  # type: ignore[arg-type,assignment]

    def admit(self, members: Iterable[MemberId] | None = None) -> None:
        chosen = tuple(members or self.members)
        self.save(admit(self.record(), plan_of(chosen), self.policy, self.now_s))

    def look(self, *, die_after: int | None = None) -> NextStep:
        """One look, carried out; `die_after` n actions the operator is gone."""
        step = look(
            self.record(), self.run_policy, ObservedPods(UID, pods=dict(self.pods)), self.now_s
        )
        self.save(step.record)
        actions = 0
        for removal in step.remove:
            if die_after is not None and actions >= die_after:
                return step
            actions += 1
            self._remove(removal.pod)
        for member in step.create:
            if die_after is not None and actions >= die_after:
                return step
            actions += 1
            self._create(member, step.record)
        return step

    def settle(self, most: int = 20) -> TrainingJobRecord:
        """Look until nothing changes any more."""
        for _ in range(most):
            before = (dict(self.stored), dict(self.pods))
            self.look()
            self.collect()
            if before == (self.stored, self.pods):
                break
        return self.record()

    def run(self, *members: MemberId) -> None:
        """The kubelets start these pods (all by default)."""
        for member in members or tuple(self.pods):
            pod = self.pods[member]
            if pod.phase == "Pending":
                self.pods[member] = replace(
                    pod,
                    phase="Running",
                    node="n0",
                    container=ContainerView(running=True, started=True),
                )

    def exit(self, member: MemberId, code: int, reason: str = "") -> None:
        pod = self.pods[member]
        self.pods[member] = replace(
            pod,
            phase="Succeeded" if code == 0 else "Failed",
            container=ContainerView(exit_code=code, exit_reason=reason, started=True),
        )

    def collect(self) -> None:
        """Pods that were told to go are gone."""
        self.pods = {member: pod for member, pod in self.pods.items() if not pod.deleting}

    def _create(self, member: MemberId, record: TrainingJobRecord) -> None:
        assert record.state is not None
        if member in self.pods:
            return  # the API server: AlreadyExists
        self.made += 1
        attempt = record.state.members[member].attempt
        self.pods[member] = PodView(
            namespace="ns",
            name=f"j-{member}",
            uid=f"pod-{self.made}",
            node="",
            phase="Pending",
            deleting=False,
            resources=Resources(),
            mark=Mark("j", UID, member, record.state.epoch, attempt),
            created_at_s=self.now_s,
        )

    def _remove(self, pod: PodView) -> None:
        assert pod.mark is not None
        there = self.pods.get(pod.mark.member)
        if there is not None and there.uid == pod.uid:
            self.pods[pod.mark.member] = replace(there, deleting=True)


def waiting(world: World) -> bool:
    return world.record().stage in (Stage.QUEUED, Stage.SUSPENDED)
