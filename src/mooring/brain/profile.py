"""Profiles: which rules a cluster weighs for every gang, besides what the gang itself asks for.

A profile is data: a mapping as a YAML file gives it, or what the schedulers of Kubernetes read.
Reading files is for those who call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: The filters without which a plan could not be carried out; every profile has them.
ALWAYS = (
    "host",
    "selector",
    "affinity",
    "taints",
    "resources",
    "devices",
    "numa",
    "kubelet",
    "ports",
)
#: The same for gangs that mount volumes, and for gangs with topology spread constraints: the
#: others need not be asked, whatever a profile names.
VOLUMES = ("volume-zone", "disks", "volume-binding", "volume-count")
EVENNESS = ("topology-spread",)


def with_always(filters: Iterable[str]) -> tuple[str, ...]:
    """The filters of a profile that names these."""
    wanted = (*ALWAYS, *(name for name in filters if name not in (*VOLUMES, *EVENNESS)))
    return tuple(dict.fromkeys(wanted))


#: A node that is used less, as a part of what it has, is liked more.
LOWEST_RATIO = ((0.0, 10.0), (100.0, 0.0))


@dataclass(frozen=True)
class Profile:
    """`scores` are weighed in the unit of the presets: a hundredth of a member.

    `shape` and `ratio_of` belong to the score `ratio`: points (utilisation in per cent, score
    0..10), and the resources (`cpu`, `memory`, `gpu` or any extended one) that count, each with its
    weight.
    """

    name: str
    filters: tuple[str, ...] = ALWAYS
    scores: tuple[tuple[str, float], ...] = ()
    shape: tuple[tuple[float, float], ...] = LOWEST_RATIO
    ratio_of: tuple[tuple[str, float], ...] = (("cpu", 1.0), ("memory", 1.0))


DEFAULT = Profile("default")
#: Every rule at once: for measuring what they cost.
FULL = Profile(
    "full",
    filters=(*ALWAYS, "apart", "together"),
    scores=(
        ("affinity", 50.0),
        ("least-requested", 5.0),
        ("most-requested", 1.0),
        ("ratio", 5.0),
        ("balanced", 5.0),
        ("equal", 1.0),
        ("spread", 1.0),
        ("spread-role", 1.0),
        ("servers", 1.0),
        ("holds-more", 1.0),
        ("links", 20.0),
        ("traffic", 10.0),
        ("together", 1.0),
        ("apart", 1.0),
        ("images", 10.0),
        ("avoid", 1.0),
        ("pipeline", 10.0),
        ("selector-spread", 1.0),
        ("service-spread", 1.0),
        ("topology-spread", 10.0),
        ("host-spread", 10.0),
    ),
)
