"""Memory of a card that is full because the framework has taken all of it."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import GpuFacts, MemberFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Remedy
from mooring.doctor.findings.measured import JOB, MEBIBYTE, SAMPLES
from mooring.doctor.registry import CheckPage, DoesNotApply, run_check
from mooring.spec.edit import Change

#: TensorFlow takes all that is free, JAX three quarters of all; what others hold comes on top.
_FULL = 0.9
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_PAGE = CheckPage(
    why="`nvidia-smi` shows what was reserved, not what is used. TensorFlow takes all memory of a "
    "card when it starts, JAX three quarters; PyTorch keeps what it once needed. A full card is "
    "then no sign that the model hardly fits. It matters where others are to use the same card: "
    "the first that comes takes it all.",
    measured="Memory in use of each card on average (NVML): nine tenths; and who else is on it: "
    "processes that NVML counts, members that were given the same card.",
    fix="Alone on a card: nothing. With others: let it grow as it needs "
    "(`TF_FORCE_GPU_ALLOW_GROWTH=true`, `XLA_PYTHON_CLIENT_PREALLOCATE=false`) or give each a "
    "share (`XLA_PYTHON_CLIENT_MEM_FRACTION`, `torch.cuda.set_per_process_memory_fraction`).",
    not_when="The member is alone on its card: reserving at once is faster than growing.",
)
_SNIPPET = f"""{_GROWTH}=true            # TensorFlow
{_PREALLOCATE}=false       # JAX
"""
_ASKS_PYTORCH = "print(torch.cuda.memory_allocated() / torch.cuda.memory_reserved())\n"


@run_check("gpu-reserved", "GPU memory is reserved, not used", _PAGE)
def reserved(facts: RunFacts) -> Iterator[Found]:
    cards = [
        (member, card) for member in facts.members for card in member.gpus if card.memory_bytes
    ]
    if not cards:
        raise DoesNotApply("no GPU was seen")
    framework = facts.job.spec.framework
    full = [(member, card) for member, card in cards if _used(card) >= _FULL]
    if not full or facts.job.spec.env.get(_GROWTH) == "true":
        return
    shared = [(member, card) for member, card in full if _others(facts, member, card)]
    member, card = (shared or full)[0]
    torch = framework == "pytorch"
    keeps = "PyTorch keeps what it once used" if torch else "TensorFlow and JAX take it at start"
    changes = (Change(("spec", "env", _GROWTH), "true"),) if framework == "tensorflow" else ()
    yield Found(
        says=f"{member.name}: {100 * _used(card):.0f} % of GPU {card.index}'s memory is taken; "
        f"{keeps}" + (", and others are on the same card" if shared else ""),
        evidence=(
            Figure("taken", card.memory_used_bytes / MEBIBYTE, "MiB", SAMPLES, (member.name,)),
            Figure("has", card.memory_bytes / MEBIBYTE, "MiB", SAMPLES, (member.name,)),
            Figure("framework", framework, "", JOB),
            *(
                (Figure("processes on it", card.processes, "", SAMPLES, (member.name,)),)
                if card.processes is not None
                else ()
            ),
        ),
        remedy=Remedy(
            "take memory as it is needed, not all at once"
            if shared
            else "nothing, unless others are to use the card",
            changes if shared else (),
            code=_ASKS_PYTORCH if torch else _SNIPPET,
            where="the training program: the part of it that is used" if torch else "the job's env",
        ),
        confidence=Confidence.LIKELY if framework == "tensorflow" else Confidence.POSSIBLE,
        weight=0.3 if shared else 0.01,
        members=tuple(dict.fromkeys(member.name for member, _ in shared or full)),
    )


def _used(card: GpuFacts) -> float:
    return card.memory_used_bytes / card.memory_bytes


def _others(facts: RunFacts, member: MemberFacts, card: GpuFacts) -> bool:
    """More processes on the card than are the member's, or another member that has it too."""
    strangers = card.processes is not None and card.processes > member.processes
    return strangers or any(
        other.node == member.node and any(gpu.index == card.index for gpu in other.gpus)
        for other in facts.members
        if other.name != member.name
    )
