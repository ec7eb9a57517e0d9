"""Far more CPUs were asked for than are used."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import JOB, SAMPLES, by_role, names, used, whole_cpus
from mooring.doctor.registry import CheckPage, run_check
from mooring.spec.edit import Change

#: At least a whole CPU is idle in each member, and less than half of what it asked for was wanted.
_IDLE_CPUS = 1.0
_SHARE = 0.5
#: Room above the busiest member of the role.
_ROOM = 1.5
_PAGE = CheckPage(
    why="CPUs that are held and not used keep others waiting, and the job itself may wait for a "
    "place that it does not need.",
    measured="CPUs asked for against CPU time and waiting time of the busiest member of the role "
    "while the job trained. Reported when more than half, and at least one CPU, was not even "
    "wanted.",
    fix="Ask for what the busiest member uses, and half as much again.",
    not_when="The work comes in bursts that the run did not show (evaluation, checkpoints), or "
    "exclusive CPUs are wanted for their caches.",
)


@run_check("cpu-idle", "Asked for far more CPUs than it uses", _PAGE)
def idle(facts: RunFacts) -> Iterator[Found]:
    uses = {member.name: use for member, use in used(facts.members)}
    for role, members in by_role(trainer for trainer in facts.members if trainer.name in uses):
        asked = members[0].asked_millis / 1000
        wanted = max(
            max(uses[trainer.name].runnable or 0.0, uses[trainer.name].cpus) for trainer in members
        )
        if asked - wanted < _IDLE_CPUS or wanted > _SHARE * asked:
            continue
        enough = whole_cpus(wanted * _ROOM)
        if enough >= asked:
            continue
        busiest = max(members, key=lambda trainer: uses[trainer.name].cpus)
        yield Found(
            says=f"{role}: asked for {asked:g} CPUs each, the busiest wanted {wanted:.1f}",
            evidence=(
                Figure("CPUs asked for", asked, "each", JOB, names(members)),
                Figure("CPUs used", uses[busiest.name].cpus, "", SAMPLES, (busiest.name,)),
                Figure("CPUs wanted", wanted, "", SAMPLES, (busiest.name,)),
            ),
            remedy=Remedy(
                f"ask for {enough}: {(asked - enough) * len(members):g} CPUs are free for others",
                (Change(("spec", "roles", role, "resources", "cpu"), enough),),
            ),
            confidence=Confidence.LIKELY,
            weight=0.05,
            members=names(members),
        )
