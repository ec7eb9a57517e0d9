"""What a cluster's report of a job becomes for the doctor: pinning with its reason, and waiting."""

from __future__ import annotations

import pytest
from building import JOB

from mooring.backends.kubernetes.client.report import JobReport, MemberReport
from mooring.backends.kubernetes.client.submit import JobProgress
from mooring.backends.kubernetes.jobs.training_job import parse_training_job
from mooring.doctor import diagnose_run
from mooring.doctor.read_job import facts_of
from mooring.spec import parse_job

PINNED = JOB.replace("command", "pinning: exclusive\n  image: train:1\n  command")


def diagnosis(phase: str, message: str, why_shared: str, exclusive: bool) -> list[tuple[str, str]]:
    manifest = parse_job(PINNED, "job.yaml").to_dict()
    manifest["metadata"].update(namespace="default", uid="u", generation=1)
    members = tuple(
        MemberReport(name, "node-1", "running", 1, "0-19", exclusive, why_shared=why_shared)
        for name in ("ps-0", "ps-1", "worker-0", "worker-1")
    )
    progress = JobProgress(phase, "", message, "4/4", 0)
    report = JobReport("default", "job", progress, "", 0, members)
    found = diagnose_run(facts_of(report, parse_training_job(manifest), {}, {}))
    return [(one.id, one.found.says) for one in found.findings]


@pytest.mark.parametrize(
    "why",
    [
        "the kubelet's cpuManagerPolicy is none",
        "its pod is Burstable, and only Guaranteed ones are pinned",
    ],
)
def test_pods_that_are_not_pinned_although_asked(why: str) -> None:
    [(finding, says)] = diagnosis("Running", "", why, exclusive=False)
    assert finding == "cpu-not-pinned"
    assert why in says


def test_pods_that_are_pinned() -> None:
    assert diagnosis("Running", "", "", exclusive=True) == []


@pytest.mark.parametrize(
    ("phase", "waits"), [("Queued", True), ("Pending", True), ("Suspended", False)]
)
def test_a_job_that_waits(phase: str, waits: bool) -> None:
    why = "0/4 nodes are available: 4 insufficient cpu"
    found = diagnosis(phase, why, "", exclusive=False)
    assert found == ([("job-pending", why)] if waits else [])
