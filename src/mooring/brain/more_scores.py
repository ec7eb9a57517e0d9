"""The scores that a gang asks for, or its nodes, besides its preset; a gang that does not use one
does not pay for it."""

from __future__ import annotations

from mooring.brain.layout import ClusterLayout
from mooring.model.member import PIPELINE, Gang, Preset

#: In hundredths of a member, as the presets weigh.
_PIPELINE = 100.0
_SPREAD = 100.0
_IMAGES = 10.0
#: Three more members on a node without devices rather than one on a node with them.
_SPARE_GPUS = 300.0


def more_scores(gang: Gang, layout: ClusterLayout | None) -> tuple[tuple[str, float], ...]:
    found: list[tuple[str, float]] = []
    if any(key == PIPELINE for member in gang.members[:1] for key, _ in member.labels):
        found.append(("pipeline", _PIPELINE))
    if any(not spread.required for spread in gang.spreads):
        found += [("topology-spread", _SPREAD), ("host-spread", _SPREAD)]
    if layout is not None:
        if gang.job in layout.avoids:
            # Before any evenness: such a node is used when no other is left.
            found.append(("avoid", 100.0 * (len(gang.members) + 2)))
        if any(layout.images) and any(member.image for member in gang.members):
            found.append(("images", _IMAGES))
        # Who asks for few nodes gets the largest, whatever else they have.
        with_gpus = gang.preset is not Preset.PACK and layout.gpus.any()
        if with_gpus and not all(member.resources.gpus for member in gang.members):
            found.append(("spare-gpus", _SPARE_GPUS))
    return tuple(found)
