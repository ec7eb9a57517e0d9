"""Parameter servers that serve nothing."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Confidence, Figure, Found
from mooring.doctor.findings.measured import SAMPLES, names
from mooring.doctor.findings.ps_dividing import divide
from mooring.doctor.findings.ps_shares import IDLE, UNEVEN, shares_of
from mooring.doctor.registry import CheckPage, run_check

_PAGE = CheckPage(
    why="A server without variables holds CPUs and memory for nothing, and the others carry its "
    "part. There are more servers than variables worth the name, or all large ones fell to the "
    "same servers.",
    measured="Bytes through each server's sockets while the job trained: below a fiftieth of the "
    "mean, while the others are even. (If they are not, that is the finding: ps-hot.)",
    fix="Divide large variables over all servers, or ask for fewer servers.",
)


@run_check("ps-idle", "Parameter servers that serve nothing", _PAGE)
def idle(facts: RunFacts) -> Iterator[Found]:
    shares = shares_of(facts)
    idle = [member for member, share in shares.of if share < IDLE * shares.mean]
    if not idle or shares.serving < 2 or shares.uneven > UNEVEN:
        return
    yield Found(
        says=f"{len(idle)} of {len(shares.of)} parameter servers move nothing",
        evidence=tuple(
            Figure(f"share of {member.name}", 100 * share, "%", SAMPLES, (member.name,))
            for member, share in shares.of[:8]
        ),
        remedy=divide(
            facts, f"divide variables over all of them, or ask for {shares.serving} servers"
        ),
        confidence=Confidence.CERTAIN,
        weight=0.3 * len(idle) / len(shares.of),
        members=names(idle),
    )
