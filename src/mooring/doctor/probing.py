"""Short probes before the real run: when one has seen enough, and what they show.

A probe is the job itself, stopped early: what it measured is true of this machine and this data,
and needs no model of either. The first one is looked at for remedies; then the job as it was and
the changed one are probed in turns: what changes slowly on the machine is then the same for both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from mooring.doctor.diagnosing import diagnose_run
from mooring.doctor.finding import Diagnosis
from mooring.doctor.read_run import read_run, speed_of
from mooring.doctor.remedies import Fixed, fix
from mooring.model.strict_json import json_text
from mooring.record import RunRecord
from mooring.record.private import write_whole
from mooring.report.gains import Losses, Shown, Speeds, amount
from mooring.report.losses import compare_losses
from mooring.report.view import RunView
from mooring.spec import TrainingJob, parse_job
from mooring.spec.edit import difference

#: A job that reports no steps is watched for so many times longer: its start-up is part of it.
_WITHOUT_STEPS = 6.0
#: A rate needs reports: slow steps make the probe longer, up to as long as without any.
_LEAST_REPORTS = 4
_LOOK_EVERY_S = 0.5
#: A start may take so many times as long as the first one, on a busy machine.
_SLOW_START = 3.0
#: What ending one takes, on top of its start and its training.
_STOPPING_S = 3.0
#: The total may take so many times what the first probe lets expect, and this.
_LONGER = 2.0
_LONGER_S = 30.0
PROBED = "the probe has seen enough"


class Enough:
    """Ends a probe once its members have trained for `seconds`. Call `watch`, then ask often.

    `wait_s`: how long reports may take to come, six times as long as it trains if not given.
    `until_s`: it ends at this time at the latest (seconds since the epoch of Unix).
    """

    def __init__(
        self, seconds: float, wait_s: float | None = None, until_s: float = float("inf")
    ) -> None:
        self._seconds = seconds
        self._wait_s = _WITHOUT_STEPS * seconds if wait_s is None else wait_s
        self._until_s = until_s
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
        first = [member.first_report_s for member in members if member.first_report_s is not None]
        starts = [member.running_s for member in members if member.running_s is not None]
        reports = max((sum(member.steps_by_rank.values()) for member in members), default=0)
        trained = bool(first) and now_s - min(first) >= self._seconds and reports >= _LEAST_REPORTS
        since_s = min(first or starts, default=now_s)
        waited = now_s - since_s >= self._wait_s
        return PROBED if trained or waited or now_s >= self._until_s else None


@dataclass(frozen=True)
class Probed:
    """What a probe led to: the findings, the job with its remedies, and the difference."""

    run: RunRecord
    diagnosis: Diagnosis
    fixed: Fixed
    job: TrainingJob
    patch: str

    @property
    def remedies(self) -> tuple[str, ...]:
        return tuple(finding.id for finding in self.fixed.applied)


def after_probe(run: RunRecord) -> Probed:
    """The job as the probe ran it, with every remedy that it can carry."""
    diagnosis = diagnose_run(read_run(run))
    text = run.job_file.read_text(encoding="utf-8")
    fixed = fix(text, diagnosis.findings, "job")
    job = parse_job(fixed.text, "job")
    return Probed(run, diagnosis, fixed, job, difference(text, fixed.text, "job.yaml"))


def turns(pairs: int) -> list[bool]:
    """Which job goes next, True the changed one: A B, B A, A B…"""
    return [
        changed for pair in range(pairs) for changed in ((False, True), (True, False))[pair % 2]
    ]


@dataclass(frozen=True)
class Times:
    """How long the probes of a comparison train, and how long all of them may take."""

    train_s: float
    wait_s: float
    expected_s: float
    most_s: float


def plan_times(first: RunRecord, probe_s: float, pairs: int) -> Times:
    """From what the first probe took to start; half as long as it trained is enough for a rate."""
    view = RunView(first)
    view.update()
    reports = [member.first_report_s for member in view.members.values() if member.first_report_s]
    train_s = probe_s / 2
    wait_s = _WITHOUT_STEPS * train_s
    if reports and view.started_s is not None:
        start_s = min(reports) - view.started_s
        wait_s = max(wait_s, _SLOW_START * start_s)
        each_s = start_s + train_s + _STOPPING_S
    else:
        each_s = wait_s + _STOPPING_S
    expected_s = each_s * max(0, 2 * pairs - 1)
    return Times(train_s, wait_s, expected_s, _LONGER * expected_s + _LONGER_S)


@dataclass(frozen=True)
class Compared:
    """What probes in turns showed. `failed`: why the changed job cannot be used at all."""

    speeds: Speeds | None = None
    losses: Losses | None = None
    note: str = ""
    failed: str = ""
    interrupted: bool = False

    @property
    def slower(self) -> bool:
        return self.speeds is not None and self.speeds.shown is Shown.LOWER

    @property
    def refused(self) -> str:
        """Why the job runs as it was: the changed one fails, is slower or learns worse."""
        if self.failed:
            return f"fails ({self.failed})"
        if self.slower:
            return f"is slower ({self.speeds.says if self.speeds is not None else ''})"
        if self.losses is not None and self.losses.refused:
            return f"learns worse ({self.losses.says})"
        return ""


@dataclass(frozen=True)
class Ended:
    """How one probe ended: None of `run` if it had no place."""

    run: RunRecord | None
    phase: str = ""
    reason: str = ""


def compare(
    first: RunRecord,
    probe: Callable[[bool, Enough], Ended],
    pairs: int,
    times: Times,
    on_probe: Callable[[bool, str], None] = lambda changed, said: None,
) -> Compared:
    """Probe both jobs in turns. `probe` runs one, the changed one if told so; the first probe of
    the unchanged job has been made. `on_probe` is told what each one showed."""
    until_s = time.time() + times.most_s
    before, after = [first], list[RunRecord]()
    note = ""
    for changed in turns(pairs)[1:]:
        if time.time() >= until_s:
            note = f"{len(after)} of {pairs} pairs of probes: the time for them was over"
            break
        ended = probe(changed, Enough(times.train_s, times.wait_s, until_s))
        if ended.run is None or ended.phase == "Failed":
            if changed:
                return Compared(failed=ended.reason)
            note = f"a probe of the unchanged job failed: {ended.reason}"
            break
        if ended.phase == "Stopped" and ended.reason != PROBED:
            return Compared(interrupted=True)
        (after if changed else before).append(ended.run)
        on_probe(changed, _speed_said(ended.run, times.train_s))
    return judge(before, after, times.train_s, note)


def judge(
    before: Sequence[RunRecord], after: Sequence[RunRecord], train_s: float, note: str = ""
) -> Compared:
    """Pairs of neighbours; a probe without a partner is left out."""
    made = min(len(before), len(after))
    if not made:
        return Compared(note=note or "no pairs of probes were made, so no gain is stated")
    rates = [
        (speed_of(one, train_s), speed_of(other, train_s))
        for one, other in zip(before, after, strict=False)
    ]
    units = {one.unit for pair in rates for one in pair if one is not None}
    pairs = [(one.value, other.value) for one, other in rates if one and other]
    losses = compare_losses(before[:made], after[:made])
    if len(units) != 1 or not pairs:
        return Compared(None, losses, "the probes report no steps, so there is no speed to compare")
    if len(pairs) < made:
        note = note or f"{made - len(pairs)} of {made} pairs made too few steps to count"
    return Compared(Speeds(tuple(pairs), units.pop()), losses, note)


def _speed_said(run: RunRecord, train_s: float) -> str:
    speed = speed_of(run, train_s)
    return "no steps" if speed is None else f"{amount(speed.value)} {speed.unit}"


def keep(probed: Probed, compared: Compared, run: RunRecord) -> None:
    """Beside the run that followed: what was changed and shown. A full disk hides it only."""
    document = {
        "probe": probed.run.info.id,
        "remedies": list(probed.remedies),
        "patch": probed.patch,
        "speeds": None if compared.speeds is None else asdict(compared.speeds),
        "losses": None if compared.losses is None else asdict(compared.losses),
        "note": compared.note,
    }
    with suppress(OSError):
        write_whole(run.fix_file, json_text(document))
