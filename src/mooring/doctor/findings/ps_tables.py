"""Tables of the parameter servers that rows are taken from. No check itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from mooring.doctor.facts import RunFacts
from mooring.doctor.finding import Figure
from mooring.doctor.findings.measured import MEBIBYTE, SAMPLES, servers_of
from mooring.doctor.registry import Unknown
from mooring.variables import Maker, PartFacts

#: Below this a table costs next to nothing, whole or not.
LEAST_BYTES = 4 * MEBIBYTE
#: Tables that a finding names.
_MOST_NAMED = 4


@dataclass(frozen=True)
class ShardedVariable:
    """A variable with all its parts."""

    name: str
    parts: tuple[PartFacts, ...]

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)

    @property
    def maker(self) -> Maker | None:
        return self.parts[0].maker

    @property
    def keras_layer(self) -> bool:
        return all(part.keras_layer for part in self.parts)

    @property
    def keras_adam(self) -> bool:
        return all(part.keras_adam for part in self.parts)


def tables_of(facts: RunFacts) -> list[ShardedVariable]:
    """Those that rows are taken from, largest first. Raises Unknown where the program told none."""
    servers_of(facts)
    if not facts.variables:
        raise Unknown("the program told nothing of its variables")
    if all(part.looked_up is None for part in facts.variables):
        raise Unknown("the program told nothing of its lookups")
    found: dict[str, list[PartFacts]] = {}
    for part in facts.variables:
        if part.looked_up:
            found.setdefault(part.variable, []).append(part)
    tables = [ShardedVariable(name, tuple(parts)) for name, parts in found.items()]
    return sorted(tables, key=lambda table: -table.size_bytes)


def large_tables(facts: RunFacts, wanted: Callable[[PartFacts], bool]) -> list[ShardedVariable]:
    """Tables that are not small and of which `wanted` holds for a part."""
    return [
        table
        for table in tables_of(facts)
        if table.size_bytes >= LEAST_BYTES and any(wanted(part) for part in table.parts)
    ]


def sizes(tables: Sequence[ShardedVariable]) -> Iterator[Figure]:
    for table in tables[:_MOST_NAMED]:
        yield Figure(table.name, table.size_bytes / MEBIBYTE, "MiB", SAMPLES)


def named(tables: Iterable[ShardedVariable]) -> str:
    names = [table.name for table in tables]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
