"""CPUs that a governor keeps slow."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from mooring.doctor.facts import NodeFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.registry import CheckPage, Unknown, node_check

#: Idle CPUs are slow under any governor; one that saves power keeps busy ones slow as well.
_SLOW = 0.7
_SAVING = ("powersave", "conservative")
_PAGE = CheckPage(
    why="A governor that saves power keeps the clock low, or raises it late: short steps end "
    "before the clock has risen.",
    measured="Each allowed CPU's `scaling_governor`, and its clock now against its highest. "
    "Reported when a saving governor holds the middle CPU below seven tenths.",
    fix="The governor `performance` on machines that train.",
    not_when="Nothing runs while you look: idle CPUs are slow by design. Look while a job trains.",
)


@node_check("node-clock", "The CPU clock is held down", _PAGE)
def node_clock(facts: NodeFacts) -> Iterator[Found]:
    known = [
        (clock, clock.now_mhz / clock.most_mhz)
        for clock in facts.clocks
        if clock.now_mhz is not None and clock.most_mhz
    ]
    if not known:
        raise Unknown("this machine does not tell its clocks")
    saving = [(clock, share) for clock, share in known if clock.governor in _SAVING]
    if 2 * len(saving) <= len(known):
        return
    share = median([share for _, share in saving])
    if share >= _SLOW:
        return
    yield Found(
        says=f"{len(saving)} of {len(known)} CPUs at {100 * share:.0f} % of their clock",
        evidence=(
            Figure("governor", saving[0][0].governor, "", "scaling_governor"),
            Figure("clock", saving[0][0].now_mhz or 0.0, "MHz", "scaling_cur_freq"),
            Figure("highest", saving[0][0].most_mhz or 0.0, "MHz", "cpuinfo_max_freq"),
        ),
        remedy=Remedy(
            "choose the governor `performance`",
            code="cpupower frequency-set -g performance\n",
            where="the machine, as root",
        ),
        confidence=Confidence.POSSIBLE,
        weight=0.5 * (1 - share),
        gain=Gain(1.0, 1 / share, "highest clock ÷ clock now"),
    )
