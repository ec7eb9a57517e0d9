"""Topology spread constraints: members evenly over what nodes are labelled by (zones, racks)."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.model.labels import Labels

#: Every node is a domain of its own by this key, labelled or not.
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True)
class TopologySpread:
    """Members of `roles` (empty: of all) over the domains that nodes form by the label `key`.

    A domain may have `max_skew` of them more than the one with the fewest; more is refused if
    `required`, and otherwise costs score. Members of other jobs with all of `match_labels` count
    as well; nobody else's if there are none.
    """

    key: str
    max_skew: int = 1
    required: bool = True
    roles: tuple[str, ...] = ()
    match_labels: Labels = ()

    def applies_to(self, role: str) -> bool:
        return not self.roles or role in self.roles
