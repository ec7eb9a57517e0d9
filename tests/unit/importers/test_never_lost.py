"""The promise: whatever stands in a manifest is mapped, dropped with a reason, or an error."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.importers import Imported, import_manifests
from mooring.importers.tracked import LeafOutcome, leaves
from mooring.model.errors import BadInput
from support.manifests import MANIFESTS

Place = tuple[str | int, ...]


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def mappings(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where a field could be added."""
    if isinstance(value, dict):
        yield at
        for key, below in value.items():
            yield from mappings(below, (*at, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from mappings(below, (*at, index))


def with_field(documents: list[Any], at: Place, key: str, value: Any) -> str:
    changed = copy.deepcopy(documents)
    place: Any = changed
    for part in at:
        place = place[part]
    place[key] = value
    return yaml.safe_dump_all(changed)


def check(results: list[Imported], document: int, path: Place, needle: str) -> None:
    """The leaf has an outcome that tells the truth."""
    accounts = [account for one in results for account in one.accounts]
    account = accounts[min(document, len(accounts) - 1)]
    [entry] = [entry for entry in account.entries if entry.path == path]
    if entry.outcome is LeafOutcome.REFUSED:
        assert results[0].text is None
        assert account.problems
    elif entry.outcome is LeafOutcome.DROPPED:
        assert entry.note
    elif results[0].text is not None:
        assert needle in results[0].text, f"{path} is said to be mapped to {entry.to}, but is not"


def test_every_leaf_is_accounted_for(manifest: Path) -> None:
    found = documents(manifest)
    results = import_manifests([(str(manifest), manifest.read_text())])
    for document, account in zip(found, results[0].accounts, strict=True):
        assert [entry.path for entry in account.entries] == [path for path, _ in leaves(document)]


@pytest.mark.slow
def test_an_added_field_is_never_lost(manifest: Path) -> None:
    """At every mapping of every manifest, one after the other."""
    found = documents(manifest)
    for document, content in enumerate(found):
        for at in mappings(content):
            text = with_field(found, (document, *at), "zzUnknown", "needle-7f3a")
            results = import_manifests([(str(manifest), text)])
            check(results, document, (*at, "zzUnknown"), "needle-7f3a")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_field_added_somewhere_is_never_lost(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(MANIFESTS))
    found = documents(path)
    document = data.draw(st.integers(0, len(found) - 1))
    at = data.draw(st.sampled_from(list(mappings(found[document]))))
    key = data.draw(st.from_regex(r"[a-z][A-Za-z]{3,12}", fullmatch=True)) + "Zz"
    text = with_field(found, (document, *at), key, "needle-7f3a")
    check(import_manifests([(str(path), text)]), document, (*at, key), "needle-7f3a")


_PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_is_put_anywhere_is_accounted_for(data: st.DataObject) -> None:
    """Known and unknown names, values of any kind: an outcome for every leaf, or BadInput."""
    path = data.draw(st.sampled_from(MANIFESTS))
    found = documents(path)
    places = list(mappings(found[0]))
    at = data.draw(st.sampled_from(places))
    names = sorted({str(key) for place in places for key in _at(found[0], place)})
    key = data.draw(st.one_of(st.sampled_from(names), st.text(min_size=1, max_size=6)))
    value = data.draw(
        st.one_of(_PLAIN, st.lists(_PLAIN, max_size=2), st.dictionaries(st.text(), _PLAIN))
    )
    text = with_field(found, (0, *at), key, value)
    try:
        results = import_manifests([(str(path), text)])
    except BadInput:
        return  # no kind, no version, or no YAML that is safe to read
    changed = next(iter(yaml.safe_load_all(text)))
    entries = results[0].accounts[0].entries
    assert [entry.path for entry in entries] == [leaf for leaf, _ in leaves(changed)]
    refused = any(entry.outcome is LeafOutcome.REFUSED for entry in entries)
    assert not (refused and results[0].text is not None)


def _at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value
