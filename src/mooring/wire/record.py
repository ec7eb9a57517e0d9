"""What every record has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mooring.wire.fields import item
from mooring.wire.values import WHOLE


@dataclass(frozen=True)
class Record:
    """One line of a journal. `t`: when, in seconds since the epoch of Unix."""

    t: float
    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class MemberRecord(Record):
    """A line that a member's launcher wrote."""

    epoch: int = item(WHOLE, 0, "which start of the gang it belongs to")
    attempt: int = item(WHOLE, 0, "which start of the member")

    @property
    def start(self) -> tuple[int, int]:
        """Tells one start of the member from another."""
        return self.epoch, self.attempt
