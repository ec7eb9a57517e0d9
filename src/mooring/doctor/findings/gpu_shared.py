"""Several ranks on one card under NCCL."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import JOB, SAMPLES, names
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check

_PAGE = CheckPage(
    why="NCCL refuses two ranks on one device (`Duplicate GPU detected`), and other libraries "
    "make them take turns.",
    measured="Local processes of each member against the cards that it sees, and processes that "
    "NVML counts on a card.",
    fix="As many processes as cards: `processes` of the role, or `gpu` of its resources; each "
    "process takes the card of its local rank.",
    not_when="Sharing is meant, with gloo or MPS.",
)
_SNIPPET = """torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
"""


@run_check("gpu-shared", "Several ranks on one GPU", _PAGE)
def shared(facts: RunFacts) -> Iterator[Found]:
    with_cards = [member for member in facts.members if member.gpus]
    if not with_cards:
        raise DoesNotApply("no GPU was seen")
    crowded = [
        member
        for member in with_cards
        if member.processes > 1 and any((card.processes or 0) > 1 for card in member.gpus)
    ]
    if not crowded:
        return
    worst = crowded[0]
    most = max(card.processes or 0 for card in worst.gpus)
    yield Found(
        says=f"{worst.name}: {most} processes on one of {len(worst.gpus)} cards",
        evidence=(
            Figure("local processes", worst.processes, "", JOB, (worst.name,)),
            *(
                Figure(
                    f"processes on GPU {card.index}",
                    card.processes or 0,
                    "",
                    SAMPLES,
                    (worst.name,),
                )
                for card in worst.gpus[:8]
            ),
        ),
        remedy=Remedy(
            "one process a card, each on the card of its local rank",
            code=_SNIPPET,
            where="at the start of the training program",
        ),
        confidence=Confidence.CERTAIN,
        weight=0.6,
        members=names(crowded),
    )
