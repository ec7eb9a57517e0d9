"""The records of one member, sorted by what they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mooring.wire import Record
from mooring.wire.looks import Looks
from mooring.wire.members import Exit, Program, Ready, Step, Variables
from mooring.wire.samples import Sample


@dataclass
class MemberJournal:
    """`ready` and `exit` are the last ones; None if there is none."""

    steps: list[Step] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    looks: list[Looks] = field(default_factory=list)
    variables: list[Variables] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    ready: Ready | None = None
    exit: Exit | None = None
    records: list[Record] = field(default_factory=list)
    """All of them, in their order."""


def sort_records(records: Iterable[Record]) -> MemberJournal:
    journal = MemberJournal()
    for record in records:
        journal.records.append(record)
        match record:
            case Step():
                journal.steps.append(record)
            case Sample():
                journal.samples.append(record)
            case Looks():
                journal.looks.append(record)
            case Variables():
                journal.variables.append(record)
            case Program():
                journal.programs.append(record)
            case Ready():
                journal.ready = record
            case Exit():
                journal.exit = record
    return journal
