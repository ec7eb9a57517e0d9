"""What kind of program a run is of, from what was seen inside it."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.doctor.facts import Trait
from mooring.doctor.told import mapping
from mooring.record.journal import Line


def read_traits(lines: Iterable[Line]) -> frozenset[Trait]:
    """Of all members; a trait that this version does not know is left out."""
    told = {
        mapping(line, "program").get("trait") for line in lines if line.get("kind") == "program"
    }
    return frozenset(trait for trait in Trait if trait.value in told)
