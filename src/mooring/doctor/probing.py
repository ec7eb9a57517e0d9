"""A short probe before the real run: when it has seen enough, and what is kept of it.

The probe is the job itself, stopped early: what it measured is true of this machine and this data,
and needs no model of either.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

from mooring.doctor.diagnosing import diagnose_run
from mooring.doctor.finding import Diagnosis
from mooring.doctor.read_run import read_run
from mooring.doctor.remedies import Fixed, fix
from mooring.record import RunRecord
from mooring.record.runs import write_whole
from mooring.report.finish import read_report
from mooring.report.losses import learnt
from mooring.report.view import RunView
from mooring.spec import TrainingJob, parse_job
from mooring.spec.edit import difference

#: A job that reports no steps is watched for so many times longer: its start-up is part of it.
_WITHOUT_STEPS = 6.0
#: A rate needs reports: slow steps make the probe longer, up to as long as without any.
_LEAST_REPORTS = 4
_LOOK_EVERY_S = 0.5
PROBED = "the probe has seen enough"


class Enough:
    """Ends a probe once its members have trained for `seconds`. Call `watch`, then ask often."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._view: RunView | None = None
        self._due_s = 0.0

    def watch(self, run: RunRecord) -> None:
        self._view = RunView(run)

    def __call__(self) -> str | None:
        """The reason to stop, or None."""
        now_s = time.time()
        if self._view is None or now_s < self._due_s:
            return None
        self._due_s = now_s + _LOOK_EVERY_S
        self._view.update()
        members = self._view.members.values()
        first = [one.first_report_s for one in members if one.first_report_s is not None]
        starts = [one.running_s for one in members if one.running_s is not None]
        reports = max((sum(one.steps_by_rank.values()) for one in members), default=0)
        trained = bool(first) and now_s - min(first) >= self._seconds and reports >= _LEAST_REPORTS
        since_s = min(first or starts, default=now_s)
        waited = now_s - since_s >= _WITHOUT_STEPS * self._seconds
        return PROBED if trained or waited else None


@dataclass(frozen=True)
class Probed:
    """What a probe led to: the findings, the job with its remedies, and the difference."""

    run: RunRecord
    diagnosis: Diagnosis
    fixed: Fixed
    job: TrainingJob
    patch: str


def after_probe(run: RunRecord) -> Probed:
    """The job as the probe ran it, with every remedy that it can carry."""
    diagnosis = diagnose_run(read_run(run))
    text = run.job_file.read_text(encoding="utf-8")
    fixed = fix(text, diagnosis.findings, "job")
    job = parse_job(fixed.text, "job")
    return Probed(run, diagnosis, fixed, job, difference(text, fixed.text, "job.yaml"))


def keep(probed: Probed, run: RunRecord) -> None:
    """Beside the run that followed: what it is to be compared with. A full disk hides it only."""
    before = read_report(probed.run)
    loss = learnt(probed.run)
    document = {
        "probe": probed.run.info.id,
        "examples_per_s": before.examples_per_s,
        "learnt": None if loss is None else asdict(loss),
        "remedies": [finding.id for finding in probed.fixed.applied],
        "patch": probed.patch,
    }
    with suppress(OSError):
        write_whole(run.fix_file, json.dumps(document, indent=1))
