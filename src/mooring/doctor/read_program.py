"""What kind of program a run is of, from what was seen inside it."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.doctor.facts import Trait
from mooring.wire.members import Program


def read_traits(programs: Iterable[Program]) -> frozenset[Trait]:
    """Of all members; a trait that this version does not know is left out."""
    traits = {record.program.trait for record in programs}
    return frozenset(trait for trait in Trait if trait.value in traits)
