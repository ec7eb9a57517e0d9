"""Parts of devices: what is left of those that several members share.

A card is free, held whole by one member, or shared. A share goes to the shared card that it fills
best, and only if none has room to a free one, so that whole cards stay free for those who need
them. Thousandths of a card are whole numbers: what is given comes back exactly.
"""

from __future__ import annotations

from typing import NamedTuple

WHOLE = 1000

#: (number of the card on its node, thousandths left), of the shared cards, in order.
Left = tuple[tuple[int, int], ...]


class Share(NamedTuple):
    """A part of one card."""

    card: int
    millis: int


def taken(left: Left, share: Share) -> Left:
    """With the share held; a card that was free is shared from now on."""
    rest = dict(left)
    rest[share.card] = rest.get(share.card, WHOLE) - share.millis
    if rest[share.card] < 0:
        raise ValueError(f"card {share.card} has no {share.millis} thousandths left")
    return tuple(sorted(rest.items()))


def given_back(left: Left, share: Share) -> tuple[Left, bool]:
    """Without the share, and whether the card is free again."""
    rest = dict(left)
    rest[share.card] += share.millis
    free = rest[share.card] == WHOLE
    if free:
        del rest[share.card]
    return tuple(sorted(rest.items())), free


def room(left: Left, millis: int) -> int:
    """How many such shares the shared cards have room for."""
    return sum(rest // millis for _, rest in left)


def between(before: Left, after: Left) -> Share | None:
    """The one share that was taken between two moments."""
    known = dict(before)
    for card, rest in after:
        if known.get(card, WHOLE) != rest:
            return Share(card, known.get(card, WHOLE) - rest)
    return None
