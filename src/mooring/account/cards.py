"""Whether bytes moved at a moment: over a rank's own card, or over that of whom it waits for. Pure.

A card is nearly full in a moment when one direction moves at least half of what it can: of its
limit where that is known, of the fullest moment of the run where not. Loopback is never full.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.account.looks import Look, RankLooks

#: Of the capacity, in one direction, within a moment of 10 ms.
_FULL = 0.5
_QUEUED_KBYTES, _MOVES = 8.0, 0.05
#: A card of unknown speed whose fullest moment was less than 40 Mbit/s limits nobody.
_LEAST_KBYTES_PER_S = 5000.0
_KBYTES_PER_MBIT = 125.0
#: Looks of two members that are nearer than this are of the same moment.
_SAME_S = 0.15
_LOOPBACK = "lo"


@dataclass(frozen=True)
class CardSeen:
    """A member's card at all looks at the member."""

    name: str
    limit_mbps: float | None
    times_s: Sequence[float] = field(default=(), repr=False)
    fuller_kbytes_per_s: Sequence[float] = field(default=(), repr=False)
    received_kbytes_per_s: float = 0.0
    """Mean of all looks."""
    sent_kbytes_per_s: float = 0.0

    @property
    def capacity_kbytes_per_s(self) -> float:
        if self.limit_mbps:
            return self.limit_mbps * _KBYTES_PER_MBIT
        return max(self.fuller_kbytes_per_s, default=0.0)

    @property
    def full(self) -> float:
        """Part of the looks at which one direction was nearly full."""
        if not self.times_s:
            return 0.0
        return sum(self._is_full(rate) for rate in self.fuller_kbytes_per_s) / len(self.times_s)

    def moves(self, look: Look) -> bool:
        """Whether this look at the card's own member shows bytes on their way."""
        rate = max(look.received_kbytes_per_s, look.sent_kbytes_per_s)
        if self._is_full(rate):
            return True
        limit = self._limits and look.queued_kbytes >= _QUEUED_KBYTES
        return limit and rate >= _MOVES * self.capacity_kbytes_per_s

    def full_at(self, at_s: float) -> bool:
        """Around a moment of somebody else's; False where nobody looked then."""
        place = bisect_left(self.times_s, at_s)
        near = [
            number
            for number in (place - 1, place)
            if 0 <= number < len(self.times_s) and abs(self.times_s[number] - at_s) <= _SAME_S
        ]
        return any(self._is_full(self.fuller_kbytes_per_s[number]) for number in near)

    def _is_full(self, rate: float) -> bool:
        return self._limits and rate >= _FULL * self.capacity_kbytes_per_s

    @property
    def _limits(self) -> bool:
        """Whether it can limit anybody at all."""
        if self.name in ("", _LOOPBACK):
            return False
        return bool(self.limit_mbps) or self.capacity_kbytes_per_s >= _LEAST_KBYTES_PER_S


def card_of(ranks: Sequence[RankLooks], limit_mbps: float | None) -> CardSeen:
    """Of one member, whose ranks share it."""
    looks = sorted((look for rank in ranks for look in rank.looks), key=lambda look: look.at_s)
    return CardSeen(
        name=ranks[0].card if ranks else "",
        limit_mbps=limit_mbps,
        times_s=[look.at_s for look in looks],
        fuller_kbytes_per_s=[
            max(look.received_kbytes_per_s, look.sent_kbytes_per_s) for look in looks
        ],
        received_kbytes_per_s=_mean(look.received_kbytes_per_s for look in looks),
        sent_kbytes_per_s=_mean(look.sent_kbytes_per_s for look in looks),
    )


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known) if known else 0.0


def whose(
    at_s: float, waits_for: Sequence[str], own: str, cards: Mapping[str, CardSeen]
) -> str | None:
    """Whose card is full while this one waits: of those waited for, or of anybody if unknown."""
    named = [one for one in waits_for if one in cards and one != own]
    for member in named or [card for card in cards if card != own]:
        if cards[member].full_at(at_s):
            return member
    return None
