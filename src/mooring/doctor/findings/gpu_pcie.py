"""The link between card and machine is full."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.doctor.facts import GpuFacts, RunFacts
from mooring.doctor.finding import Confidence, Figure, Found, Gain, Remedy
from mooring.doctor.findings.measured import SAMPLES
from mooring.doctor.registry import CheckPage, DoesNotApply, Unknown, run_check

#: On average over the run. Headers leave four fifths of a link for data (24 bytes with each 128),
#: so that this is a link that is full three quarters of the time.
_FULL = 0.6
_PAGE = CheckPage(
    why="What goes to and from the card goes over its PCIe lanes. Once they are full, neither a "
    "faster card nor more CPUs help. A card in a slot with few lanes is there early.",
    measured="Bytes a second in each direction (NVML watches for 20 ms, one card a sample in turn) "
    "against what the lanes carry: their number now, and the fastest generation that card and slot "
    "both know. Six tenths on average are reported.",
    fix="Send less: `uint8` images that the card converts, `bfloat16` instead of `float32`, data "
    "that stays on the card; gradients by NVLink where there is one. Look whether the card sits in "
    "its widest slot (`nvidia-smi -q -d PCIE`).",
    not_when="Nothing else would be faster: the link is used well.",
)
_SNIPPET = """batch = batch.to("cuda", non_blocking=True)   # as uint8, from pinned memory
batch = batch.to(torch.bfloat16).div_(255)    # converted on the card
"""


@run_check("gpu-pcie", "The PCIe link of a GPU is full", _PAGE)
def full(facts: RunFacts) -> Iterator[Found]:
    cards = [(member, card) for member in facts.members for card in member.gpus]
    if not cards:
        raise DoesNotApply("no GPU was seen")
    known = [(member, card, share) for member, card in cards if (share := _share(card)) is not None]
    if not known:
        raise Unknown("the driver tells no PCIe rates or no link")
    busy = [one for one in known if one[2] >= _FULL]
    if not busy:
        return
    member, card, share = max(busy, key=lambda one: one[2])
    yield Found(
        says=f"{member.name}: the link of GPU {card.index} is {100 * share:.0f} % full",
        evidence=(
            Figure("receives", card.rx_mbytes_per_s or 0.0, "MB/s", SAMPLES, (member.name,)),
            Figure("sends", card.tx_mbytes_per_s or 0.0, "MB/s", SAMPLES, (member.name,)),
            Figure("carries", card.link_mbytes_per_s or 0.0, "MB/s", SAMPLES, (member.name,)),
        ),
        remedy=Remedy("send less over the link", code=_SNIPPET, where="the training program"),
        confidence=Confidence.LIKELY,
        weight=0.5 * min(1.0, share),
        members=tuple(dict.fromkeys(member.name for member, _, _ in busy)),
        gain=Gain(1.0, 2.0, "half of the bytes, if nothing else is slower; not measured"),
    )


def _share(card: GpuFacts) -> float | None:
    """Of the fuller direction: lanes carry both at once."""
    rates = [rate for rate in (card.rx_mbytes_per_s, card.tx_mbytes_per_s) if rate is not None]
    return max(rates) / card.link_mbytes_per_s if rates and card.link_mbytes_per_s else None
