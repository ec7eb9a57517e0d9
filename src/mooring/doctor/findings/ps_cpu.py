"""A parameter server that has no CPU left while the workers wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import MemberFacts, RunFacts, Use
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import SAMPLES, names, servers_of, used
from mooring.doctor.ordering import Causes
from mooring.doctor.registry import CheckPage, run_check
from mooring.spec.edit import Change

_FULL = 0.9
#: Workers below this are not what limits the job.
_WAITING = 0.7
_PAGE = CheckPage(
    why="Servers apply every worker's gradients. Once their CPU is used up, workers only wait "
    "longer.",
    measured="CPUs used by each server against those that it may use (on CPUs of its own: used "
    "or wanted), and the same for the workers. Reported when a server is at nine tenths and no "
    "worker above seven.",
    fix="One more server if the variables are divided over them, or more CPUs for each; an "
    "optimizer that touches only the rows of the batch.",
    not_when="One server carries most of the traffic (ps-hot): do that first.",
)


@run_check(
    "ps-cpu",
    "A parameter server has no CPU left",
    _PAGE,
    Causes(anywhere=frozenset({"ps-hot", "ps-dense-update", "ps-whole-table"})),
)
def cpu_bound(facts: RunFacts) -> Iterator[Found]:
    servers = used(servers_of(facts))
    workers = used(facts.workers)
    bound = [(member, _load(member, use)) for member, use in servers if _load(member, use) >= _FULL]
    busiest = max(_load(member, use) for member, use in workers)
    if not bound or busiest > _WAITING:
        return
    count, role = len(servers), bound[0][0].role
    yield Found(
        says=f"{len(bound)} of {count} servers use all of their CPUs; workers wait",
        evidence=(
            *(
                Figure(f"CPUs of {member.name} in use", 100 * load, "%", SAMPLES, (member.name,))
                for member, load in bound[:8]
            ),
            Figure("busiest worker", 100 * busiest, "%", SAMPLES),
        ),
        remedy=Remedy(
            "add a parameter server",
            (Change(("spec", "roles", role, "replicas"), count + 1),),
        ),
        confidence=Confidence.LIKELY,
        weight=0.5,
        members=names(member for member, _ in bound),
        gain=Gain(1.0, (count + 1) / count, "the same work divided by one more server"),
    )


def _load(member: MemberFacts, use: Use) -> float:
    wanted = use.cpus
    narrow = member.exclusive or member.allowed_cpus < member.held_cpus
    if narrow and use.runnable is not None:
        # It cannot move away: what others take of its CPUs is missing all the same.
        wanted = min(use.runnable, member.usable_cpus)
    return wanted / member.usable_cpus
