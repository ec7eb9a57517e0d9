"""Every kind of record, and the one reader and writer of them.

A version changes when an older reader would take a record for something else. New kinds and new
fields do not change it: readers pass over what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, cast

from mooring.wire.earlier import with_fields_of_now
from mooring.wire.errors import NewerVersion, UnreadableRecord
from mooring.wire.events import EVENTS
from mooring.wire.fields import describe, read_values, write_values
from mooring.wire.looks import Looks
from mooring.wire.members import Exit, LauncherError, Program, Ready, Running, Step, Variables
from mooring.wire.record import MemberRecord, Record
from mooring.wire.samples import Sample
from mooring.wire.values import LARGEST

if TYPE_CHECKING:
    from mooring.record.journal import JsonValue

#: Journals without a version are of the first.
FIRST_VERSION = 1
VERSION = 2

MEMBER_RECORDS: tuple[type[MemberRecord], ...] = (
    Ready,
    Running,
    Step,
    Variables,
    Program,
    Sample,
    Looks,
    LauncherError,
    Exit,
)
RECORDS: Mapping[str, type[Record]] = {each.kind: each for each in (*EVENTS, *MEMBER_RECORDS)}


@dataclass(frozen=True)
class UnknownRecord(Record):
    """Of a kind that this version does not have; `document` is all of it."""

    kind: ClassVar[str] = ""
    document: Mapping[str, JsonValue] = field(default_factory=lambda: MappingProxyType({}))


def read_record(document: object) -> Record:
    """The record in a JSON object. Raises UnreadableRecord, and nothing else."""
    if type(document) is not dict:
        raise UnreadableRecord(f"found {describe(document)}; accepted: an object")
    version = document.get("v", FIRST_VERSION)
    if version != VERSION:
        document = _of_now(document, version)
    t = document.get("t")
    if not (type(t) is float or type(t) is int) or not -LARGEST <= t <= LARGEST:
        raise UnreadableRecord(f"t: found {describe(t)}; accepted: seconds since 1970")
    kind = document.get("kind")
    record_type = RECORDS.get(kind) if type(kind) is str else None
    if record_type is None:
        if type(kind) is not str:
            raise UnreadableRecord(f"kind: found {describe(kind)}; accepted: text")
        return UnknownRecord(float(t), cast("dict[str, JsonValue]", document))
    try:
        return record_type(float(t), **read_values(record_type, document))
    except UnreadableRecord as error:
        raise UnreadableRecord(f"{kind}.{error}") from None


def _of_now(document: dict[str, object], version: object) -> dict[str, object]:
    """A record of an earlier version as this one would have written it."""
    if type(version) is not int or version < FIRST_VERSION:
        raise UnreadableRecord(f"v: found {describe(version)}; accepted: a version")
    if version > VERSION:
        raise NewerVersion(version, VERSION)
    return with_fields_of_now(document)


def to_json(record: Record) -> dict[str, JsonValue]:
    """The JSON object of a record, with its time, its kind and the version."""
    if isinstance(record, UnknownRecord):
        return dict(record.document)
    return {"t": record.t, "kind": record.kind, "v": VERSION, **write_values(record)}
