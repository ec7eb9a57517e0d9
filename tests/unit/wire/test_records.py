"""Records: what is written is read again; what is none gives the one error; versions count."""

from __future__ import annotations

import dataclasses
import json
import resource
import types
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.launcher import journal as launcher_journal
from mooring.model.errors import BadInput
from mooring.model.status import Phase
from mooring.wire import (
    RECORDS,
    VERSION,
    Journal,
    JournalTail,
    NewerVersion,
    Record,
    UnknownRecord,
    UnreadableRecord,
    read_journal,
    read_record,
    to_json,
)
from mooring.wire.events import NodeTraffic, NoStacks, NotesLost, PhaseChanged
from mooring.wire.fields import formats_of
from mooring.wire.members import EndCause, Exit, Held, HeldCpus, Ready, Step, WhyNotHeld
from mooring.wire.samples import Sample

_WHOLES = st.integers(-(2**62), 2**62)
_NUMBERS = st.floats(-(2.0**62), 2.0**62)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field of that type."""
    plain = {int: _WHOLES, float: _NUMBERS, str: st.text(max_size=20), bool: st.booleans()}
    if hint in plain:
        return plain[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(*(values_of(each) for each in arguments))
    if hint is type(None):
        return st.none()
    if origin is tuple and arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*(values_of(each) for each in arguments))
    if origin is Mapping:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    fields = get_type_hints(hint)
    fields.pop("kind", None)
    return st.builds(hint, **{name: values_of(each) for name, each in fields.items()})


records = st.one_of(*(values_of(each) for each in RECORDS.values()))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda below: (
        st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=8), below, max_size=4)
    ),
    max_leaves=12,
)
#: Objects with keys of real records, and anything in them.
keys = st.sampled_from(
    sorted({each.key for kind in RECORDS.values() for each in formats_of(kind)} | {"v", "t"})
)
documents = st.builds(
    lambda fields, kind, t: {**fields, "kind": kind, "t": t},
    st.dictionaries(keys, json_values, max_size=6),
    st.sampled_from(sorted(RECORDS)) | st.text(max_size=5),
    _NUMBERS | json_values,
)


@given(records)
def test_what_is_written_is_read_again(record: Record) -> None:
    document = to_json(record)
    assert document["v"] == VERSION
    read = read_record(json.loads(json.dumps(document)))
    assert read == record
    assert to_json(read) == document


@given(json_values | documents)
def test_anything_is_a_record_or_the_one_error(document: Any) -> None:
    try:
        record = read_record(json.loads(json.dumps(document)))
    except UnreadableRecord as error:
        assert "accepted: " in str(error)
    else:
        json.dumps(to_json(record))


def test_the_launcher_which_stands_alone_writes_the_same_version() -> None:
    assert launcher_journal.VERSION == VERSION


def test_an_error_says_where_it_is_what_was_found_and_what_is_accepted() -> None:
    with pytest.raises(UnreadableRecord, match=r"^sample\.cpu_s: found 'x'; accepted: number$"):
        read_record({"t": 1, "kind": "sample", "v": VERSION, "cpu_s": "x"})
    with pytest.raises(UnreadableRecord, match=r"^t: found null; accepted"):
        read_record({"kind": "sample", "v": VERSION})


def test_unknown_kinds_and_fields_are_passed_over() -> None:
    later = {"t": 1.0, "kind": "dream", "v": VERSION, "of": ["sheep"]}
    record = read_record(later)
    assert isinstance(record, UnknownRecord)
    assert to_json(record) == later
    step = read_record({"t": 1, "kind": "step", "v": VERSION, "step": 3, "mood": "good"})
    assert step == Step(1.0, step=3)


def test_numbers_that_nobody_can_count_with_count_as_missing() -> None:
    line = '{"t":1,"kind":"sample","v":2,"cpu_s":NaN,"wait_s":1e999,"rx_bytes":1' + "0" * 30 + "}"
    assert read_record(json.loads(line)) == Sample(1.0)


@pytest.mark.parametrize("version", [VERSION + 1, 10**9])
def test_a_newer_version_is_refused(version: int) -> None:
    with pytest.raises(NewerVersion, match=f"found {version}; accepted: up to {VERSION}"):
        read_record({"t": 1, "kind": "phase", "v": version, "phase": "Running"})


@pytest.mark.parametrize("version", [0, -1, "2", 1.5, True, None, [2]])
def test_what_is_no_version_is_unreadable(version: object) -> None:
    with pytest.raises(UnreadableRecord, match=r"^v: found "):
        read_record({"t": 1, "kind": "phase", "v": version, "phase": "Running"})


def test_journals_of_before_versions_are_read_with_the_facts_of_their_sentences() -> None:
    def ended(code: int, reason: str) -> Exit:
        record = read_record(
            {"t": 1, "kind": "exit", "epoch": 0, "attempt": 1, "code": code, "reason": reason}
        )
        assert isinstance(record, Exit)
        assert (record.code, record.reason, record.attempt) == (code, reason, 1)
        return record

    over = ended(137, "local rank 3: over its memory limit of 1 GiB")
    assert (over.cause, over.rank) == (EndCause.OUT_OF_MEMORY, 3)
    assert ended(0, "").cause is EndCause.DONE
    assert ended(1, "").cause is EndCause.FAILED
    stopped = ended(143, "stopped: SIGTERM; killed after the grace period")
    assert (stopped.cause, stopped.killed) == (EndCause.STOPPED, True)

    def held(*notes: str) -> Held:
        record = read_record({"t": 1, "kind": "ready", "pid": 4, "notes": list(notes)})
        assert isinstance(record, Ready)
        assert record.notes == notes
        return record.held

    other = held("memory not bound to cells 0: no", "asked for CPUs 0,1, holds 1")
    assert (other.why_not, other.given) == (WhyNotHeld.OTHER_CPUS, (0, 1))
    none = held("not pinned: this system has no CPU affinity")
    assert (none.cpus, none.why_not) == (HeldCpus.UNPINNED, WhyNotHeld.NO_AFFINITY)
    assert held() == Held()


def write(path: Path, *recorded: Record) -> None:
    journal = Journal(path)
    for record in recorded:
        journal.append(record)
    journal.close()


def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    written = [PhaseChanged(1.0, Phase.RUNNING, reason="ü"), NotesLost(2.0, 3)]
    write(path, *written)
    with path.open("ab") as file:
        file.write(b'{"t": 3, "kind": "phase", "pha')
    assert list(read_journal(path, Record)) == written
    assert list(read_journal(path, NotesLost)) == written[1:]
    assert JournalTail(path).read() == written


def test_a_disk_that_is_full_tears_no_line(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: it also takes lines in part."""
    path = tmp_path / "events.jsonl"
    journal = Journal(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    first, last = NoStacks(1.0, "x" * 50), NoStacks(2.0, "y")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (150, before[1]))
        journal.append(first)
        for _ in range(2):
            with pytest.raises(OSError, match=r"No space|too large"):
                journal.append(NoStacks(1.5, "z" * 120))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.append(last)
    journal.close()
    assert list(read_journal(path, Record)) == [first, last]


def test_half_of_a_surrogate_pair_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, NoStacks(1.0, "w\ud800"), NodeTraffic(1.0, {"\udfff": (1, 2)}))
    assert list(read_journal(path, Record)) == [
        NoStacks(1.0, "w?"),
        NodeTraffic(1.0, {"?": (1, 2)}),
    ]


def test_a_missing_journal_is_empty(tmp_path: Path) -> None:
    assert list(read_journal(tmp_path / "none", Record)) == []
    assert JournalTail(tmp_path / "none").read() == []


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    deep = "[" * 100_000
    long = "x" * (3 << 20)
    lines = ["", "[]", "null", deep, long, '{"t":1,"kind":"phase","phase":"Dreaming"}']
    path.write_text("\n".join(lines) + "\n" + '{"t":2,"kind":"phase","phase":"Running"}')
    expected = [PhaseChanged(2.0, Phase.RUNNING)]
    assert list(read_journal(path, Record)) == expected
    with path.open("a") as file:
        file.write("\n")
    assert JournalTail(path).read() == expected


def test_a_journal_of_a_newer_version_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, PhaseChanged(1.0, Phase.RUNNING))
    with path.open("a") as file:
        file.write('{"t":2,"kind":"phase","v":99,"phase":"Running"}\n')
    for read in (lambda: list(read_journal(path, PhaseChanged)), JournalTail(path).read):
        with pytest.raises(BadInput, match=r"events\.jsonl: v: found 99.*accepted: up to"):
            read()


def test_every_field_of_every_record_says_what_it_means() -> None:
    for kind, record_type in RECORDS.items():
        assert record_type.__doc__, kind
        names = {each.name for each in dataclasses.fields(record_type)} - {"t"}
        assert names == {each.name for each in formats_of(record_type)}
        assert all(each.meaning for each in formats_of(record_type))
