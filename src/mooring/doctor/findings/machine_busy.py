"""Other programs take the CPUs of the machine."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.account import Activity
from mooring.doctor.facts import MemberFacts, RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import EVENTS, SAMPLES, names, used
from mooring.doctor.registry import CheckPage, Unknown, run_check

#: Of the machine's CPUs. `moor`, looks at trainers and the system take a tenth of a small machine;
#: a build or a test run beside a job for a part of the time a third.
_LEAST_OTHERS = 0.6
#: Of a trainer's time, ready to run without a CPU: what others take from a job that waits for bytes
#: or data costs it nothing.
_LEAST_WAITING = 0.4
_PAGE = CheckPage(
    why="CPUs that others use are missing: every member waits for its turn, and those that wait "
    "for each other wait for the one that was served last.",
    measured="CPU time of the whole machine (/proc/stat) less that of the job's members, and how "
    "long trainers were ready without a CPU. Reported when others use more than 60 % of the "
    "machine's CPUs and a trainer waits for one for two fifths of its time.",
    fix="End or move the other work, or run the job where it is alone. Members with CPUs of their "
    "own (`pinning: exclusive`) are kept apart from other jobs of Mooring, not from other "
    "programs.",
    not_when="The others are other members of the same job: they are not counted.",
)


@run_check("machine-busy", "Others keep the machine busy", _PAGE)
def machine_busy(facts: RunFacts) -> Iterator[Found]:
    machine = facts.machine
    if machine is None:
        raise Unknown("nobody counted what the whole machine uses")
    measured = used(facts.members)
    ours = sum(use.cpus for _, use in measured)
    wanted = sum(min(use.runnable or use.cpus, member.usable_cpus) for member, use in measured)
    others = max(0.0, machine.used_cpus - ours)
    waiting = _waiting(facts) * _due_to_others(measured, machine.cpus)
    if others < _LEAST_OTHERS * machine.cpus or waiting < _LEAST_WAITING:
        return
    yield Found(
        says=f"other programs use {others:.1f} of the machine's {machine.cpus} CPUs; the members "
        f"got {ours:.1f} and wanted {wanted:.1f}",
        evidence=(
            Figure("CPUs that others use", others, "", EVENTS),
            Figure("CPUs of the machine", machine.cpus, "", EVENTS),
            Figure("CPUs that the members got", ours, "", SAMPLES),
            Figure("CPUs that they wanted", wanted, "", SAMPLES),
            Figure("a trainer waits for a CPU", 100 * waiting, "% of the time", SAMPLES),
        ),
        remedy=Remedy(
            "find out who they are, and end or move them",
            code="ps -eo pcpu,pid,user,comm --sort=-pcpu | head\n",
            where="the machine",
        ),
        confidence=Confidence.CERTAIN,
        # Between what it frees at least and at most: who else would take the CPUs is not known.
        weight=min(0.9, 0.6 * waiting),
        members=names(member for member, _ in measured),
        gain=Gain.of_freed(waiting / 3, waiting, "the time that trainers wait for a CPU"),
    )


def _due_to_others(measured: list[tuple[MemberFacts, Use]], cpus: int) -> float:
    """The part of the members' waiting that would end if they were alone. With more threads than
    CPUs of their own they would go on to wait for each other."""
    got = sum(use.cpus for _, use in measured)
    wanted = sum(use.runnable or use.cpus for _, use in measured)
    if wanted <= got:
        return 0.0
    return max(0.0, min(wanted, float(cpus)) - got) / (wanted - got)


def _waiting(facts: RunFacts) -> float:
    """The share of its time for which the trainer that waits longest for a CPU does so."""
    ranks = facts.account.trainers
    if ranks:
        return max(rank.share(Activity.CPU_WAIT) for rank in ranks)
    return max(
        (
            # Several threads that wait at once are not more than all of the time.
            min(1.0, (worker.use.wait_s or 0.0) / worker.use.span_s / max(1, worker.processes))
            for worker in facts.workers
            if worker.use is not None
        ),
        default=0.0,
    )
