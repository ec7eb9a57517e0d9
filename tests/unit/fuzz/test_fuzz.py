"""No input from outside ends a command, a launcher or the operator, or takes longer than a second.

Few inputs each here; `make fuzz` tries many more.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz import entries_cluster, entries_files, entries_launcher
from fuzz.entry import ENTRIES, Entry, attempt
from fuzz.found import FOUND
from fuzz.making import make

EXAMPLES = int(os.environ.get("MOORING_FUZZ_EXAMPLES", "25"))
assert entries_cluster and entries_files and entries_launcher


@pytest.mark.parametrize("one", ENTRIES.values(), ids=list(ENTRIES))
def test_no_input_does_harm(one: Entry) -> None:
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def tried(number: int) -> None:
        attempt(one, make(one.seeds, number))

    tried()


@pytest.mark.parametrize(("name", "data"), FOUND.values(), ids=list(FOUND))
def test_what_was_found_once_does_no_harm(name: str, data: bytes) -> None:
    attempt(ENTRIES[name], data)


@pytest.mark.parametrize("one", ENTRIES.values(), ids=list(ENTRIES))
def test_the_seeds_are_what_the_entry_points_read(one: Entry) -> None:
    """Else the changes to them would never get past the first check."""
    accepted = 0
    for seed in one.seeds:
        try:
            one.target(seed)
            accepted += 1
        except one.refusals as error:
            refused = error
    assert accepted or one.name in ("lines to the rank agent",), refused
