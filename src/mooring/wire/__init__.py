"""What goes over wires and into journals, as types with a version: one writer, one reader."""

from mooring.wire.errors import NewerVersion, UnreadableRecord
from mooring.wire.journals import Journal, JournalTail, newer_journal, read_journal
from mooring.wire.record import MemberRecord, Record
from mooring.wire.records import RECORDS, VERSION, UnknownRecord, read_record, to_json

__all__ = [
    "RECORDS",
    "VERSION",
    "Journal",
    "JournalTail",
    "MemberRecord",
    "NewerVersion",
    "Record",
    "UnknownRecord",
    "UnreadableRecord",
    "newer_journal",
    "read_journal",
    "read_record",
    "to_json",
]
