"""More threads than CPUs: a library counted the host's CPUs, or a number was set by hand."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import READY, SAMPLES, by_role, names, used
from mooring.doctor.registry import CheckPage, run_check
from mooring.spec.edit import Change

#: Thread counts above twice the CPUs that a member may use can only make threads wait for each
#: other; up to that, a pool may hide blocking calls.
_TOO_MANY_TOLD = 2.0
#: Threads of members that share CPUs, for each CPU, that ran or were ready to: with as many threads
#: as CPUs it is 1 at most, and what the libraries' helper threads add to that is a tenth.
_SHARED_CROWD = 1.25
#: Ready threads for each CPU, and at least so many. Only a member's own are counted: healthy
#: ones were seen at 0.4 to 1.1 on a machine with ten times more work than CPUs, and at 3 where
#: others left them a fifteenth of a CPU.
_CROWD = 4.0
_LEAST_CROWD = 6.0
#: The same of members that share CPUs together, whatever they were told, for each process or CPU,
#: whichever is more: processes of TensorFlow with one thread to compute were seen at 2.6 on a busy
#: machine, for its helpers.
_OWN_SHARED_CROWD = 3.5
#: Of the time: threads that take turns in Python are ready all the time, and not the cause
#: (gil-bound).
_TURNS = 0.2
#: auto ÷ 80 of benchmarks/threads.py: lowest of TensorFlow's pairs, highest of PyTorch's median.
_GAIN = Gain(1.0, 2.6, "benchmarks/threads.py: auto ÷ 80 threads on 2 CPUs")
_SHARED_GAIN = Gain(1.0, 3.4, "benchmarks/threads.py: shared CPUs divided ÷ all for each")
_PAGE = CheckPage(
    why="Numeric libraries divide each operation among their threads and wait for all of them. "
    "With more threads than CPUs some wait for a CPU while the others wait for them.",
    measured="The thread count that each process was told (`ready` record: the job's `threads`, "
    "or a variable such as OMP_NUM_THREADS that was already set), against the CPUs that it may "
    "use; and threads that ran or were ready to run, on average (CPU time and waiting time of "
    "/proc/PID/task/*/schedstat), with context switches. Reported: a member with more than twice "
    "as many threads as CPUs, or with four ready threads for each CPU; and members that share "
    "CPUs, if their threads together are more than those CPUs and a quarter more of them are "
    "ready than can run. One thread a process is never too many.",
    fix="`threads: auto`, and no OMP_NUM_THREADS or the like in `env`: the launcher sets them "
    "from the member's CPUs, which members that share them divide. A program that sets its own "
    "number must take it from the environment.",
    not_when="The threads mostly wait for disks or the network: then more than CPUs are right.",
)
_SNIPPET = """import os
import torch
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.set_num_interop_threads(1)
"""


@run_check("cpu-threads", "More threads than CPUs", _PAGE)
def threads(facts: RunFacts) -> Iterator[Found]:
    in_python = {
        trainer.member for trainer in facts.account.trainers if trainer.threads.gil_wait >= _TURNS
    }
    measured = used(facts.members)
    told = [(member, use) for member, use in measured if _told_too_many(member)]
    own = [
        (member, use)
        for member, use in measured
        if not _told_too_many(member) and _crowds(member, use) and member.name not in in_python
    ]
    if told:
        yield _found(told, _changes(facts, [member for member, _ in told]), certain=True)
    if own:
        yield _found(own, (), certain=False)
    if not told and not own:
        for sharing in _sharing([member for member in measured if member[0].name not in in_python]):
            if _crowd_together(sharing):
                yield _found_together(sharing, _changes(facts, [member for member, _ in sharing]))


def _found(
    crowded: list[tuple[MemberFacts, Use]], changes: tuple[Change, ...], *, certain: bool
) -> Found:
    members = [member for member, _ in crowded]
    worst, use = max(crowded, key=lambda one: one[1].runnable or 0.0)
    cpus = worst.usable_cpus
    evidence = [
        Figure("threads told", _told(worst), "a process", READY, names(members)),
        Figure("CPUs that it may use", cpus, "", READY, (worst.name,)),
        Figure("threads", worst.threads, "", SAMPLES, (worst.name,)),
        Figure("context switches", use.switches / use.span_s, "/s", SAMPLES, (worst.name,)),
    ]
    if use.runnable is not None:
        evidence.append(Figure("ready threads", use.runnable, "", SAMPLES, (worst.name,)))
    return Found(
        says=f"{worst.name}: {_told(worst) if certain else worst.threads} threads on {cpus:g} CPUs",
        evidence=tuple(evidence),
        remedy=Remedy(
            "let the launcher set thread counts from the member's CPUs",
            changes,
            "" if changes else _SNIPPET,
            "" if changes else "where the program sets its threads, or the shell's environment",
        ),
        confidence=Confidence.CERTAIN if certain else Confidence.LIKELY,
        weight=max(0.4, 1 - 2 * cpus / max(use.runnable or 0.0, 0.1)),
        members=names(members),
        gain=_GAIN,
    )


def _found_together(sharing: list[tuple[MemberFacts, Use]], changes: tuple[Change, ...]) -> Found:
    members = [member for member, _ in sharing]
    cpus = len(_union(members))
    told = sum(_told(member) * member.processes for member in members)
    ready = sum(use.runnable or 0.0 for _, use in sharing)
    # A program that sets its own number has more ready than it was told.
    together = max(told, round(ready))
    switches = sum(use.switches / use.span_s for _, use in sharing)
    return Found(
        says=f"{len(members)} members have {together} threads together on the {cpus} CPUs "
        f"that they share ({members[0].node})",
        evidence=(
            Figure("threads told", _told(members[0]), "a process", READY, names(members)),
            Figure("threads told together", told, "", READY, names(members)),
            Figure("CPUs that they share", cpus, "", READY, names(members)),
            Figure("ready threads together", ready, "", SAMPLES, names(members)),
            Figure("context switches", switches, "/s", SAMPLES, names(members)),
        ),
        remedy=Remedy(
            "let the launcher divide the CPUs among those who share them",
            changes,
            "" if changes else _SNIPPET,
            "" if changes else "where the program sets its threads, or the shell's environment",
        ),
        confidence=Confidence.CERTAIN,
        weight=max(0.4, min(0.95, 1 - cpus / max(ready, 0.1))),
        members=names(members),
        gain=_SHARED_GAIN,
    )


def _sharing(measured: list[tuple[MemberFacts, Use]]) -> list[list[tuple[MemberFacts, Use]]]:
    """Members of a node that may run on the same CPUs, directly or through others."""
    groups: list[list[tuple[MemberFacts, Use]]] = []
    for member, use in measured:
        near = [
            group
            for group in groups
            if group[0][0].node == member.node
            and _union([other for other, _ in group]) & _cpus(member)
        ]
        apart = [group for group in groups if group not in near]
        groups = [*apart, [*(pair for group in near for pair in group), (member, use)]]
    return [group for group in groups if len(group) > 1]


def _crowd_together(sharing: list[tuple[MemberFacts, Use]]) -> bool:
    members = [member for member, _ in sharing]
    cpus = len(_union(members))
    ready = sum(use.runnable or 0.0 for _, use in sharing)
    processes = sum(member.processes for member in members)
    if ready > _OWN_SHARED_CROWD * max(cpus, processes):
        return True
    if max(_told(member) for member in members) < 2:
        return False
    together = sum(_told(member) * member.processes for member in members)
    return together > cpus and _ready(sharing) > _SHARED_CROWD * max(cpus, len(members))


def _ready(sharing: list[tuple[MemberFacts, Use]]) -> float:
    """Threads that ran or wanted to, of those that the members were told to have."""
    return sum(
        min(use.runnable or 0.0, _told(member) * member.processes) for member, use in sharing
    )


def _cpus(member: MemberFacts) -> frozenset[int]:
    return member.allowed_cpus or member.held_cpus


def _union(members: list[MemberFacts]) -> frozenset[int]:
    return frozenset().union(*(_cpus(member) for member in members))


def _told(member: MemberFacts) -> int:
    """Threads of one of its processes, as it was told."""
    kept = [int(text) for text in member.threads_kept.values() if text.isdigit()]
    return max([member.threads_told or 1, *kept])


def _told_too_many(member: MemberFacts) -> bool:
    # TensorFlow's servers need three inter-op threads whatever the budget is: 4 are never too many.
    return _told(member) > max(4.0, _TOO_MANY_TOLD * member.usable_cpus)


def _crowds(member: MemberFacts, use: Use) -> bool:
    most = max(_LEAST_CROWD, _CROWD * member.usable_cpus)
    return use.runnable is not None and use.runnable > most


def _changes(facts: RunFacts, members: list[MemberFacts]) -> tuple[Change, ...]:
    spec = facts.job.spec
    changes = []
    if spec.threads != "auto":
        changes.append(Change(("spec", "threads"), "auto"))
    kept = sorted({name for member in members for name in member.threads_kept})
    changes += [Change(("spec", "env", name), remove=True) for name in kept if name in spec.env]
    for role, alike in by_role(members):
        own = spec.roles[role].env if role in spec.roles else {}
        names_kept = sorted({name for member in alike for name in member.threads_kept})
        changes += [
            Change(("spec", "roles", role, "env", name), remove=True)
            for name in names_kept
            if name in own
        ]
    return tuple(changes)
