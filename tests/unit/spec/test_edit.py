"""Edits of job files: the change is there, and nothing else has moved."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.errors import BadInput
from mooring.spec.edit import Change, difference, edit

FILE = """\
# who runs what
kind: TrainingJob   # the only kind
spec:
  framework: tensorflow
  threads: 80        # was 40

  roles:
    ps: {replicas: 2, resources: {cpu: 300m}}   # servers
    worker:
      replicas: 2
      env:
        OMP_NUM_THREADS: "80"
        BATCH: "512"
      # a note at the end
  placement:
"""


@pytest.mark.parametrize(
    ("change", "removed", "added"),
    [
        (
            Change(("spec", "threads"), "auto"),
            ["  threads: 80        # was 40"],
            ["  threads: auto        # was 40"],
        ),
        (
            Change(("spec", "roles", "ps", "resources", "cpu"), 2),
            ["    ps: {replicas: 2, resources: {cpu: 300m}}   # servers"],
            ["    ps: {replicas: 2, resources: {cpu: 2}}   # servers"],
        ),
        (
            Change(("spec", "roles", "ps", "resources", "memory"), "1Gi"),
            ["    ps: {replicas: 2, resources: {cpu: 300m}}   # servers"],
            ["    ps: {replicas: 2, resources: {cpu: 300m, memory: 1Gi}}   # servers"],
        ),
        (
            Change(("spec", "roles", "worker", "resources", "cpu"), 2),
            [],
            ["      resources: {cpu: 2}"],
        ),
        (Change(("spec", "pinning"), "exclusive"), [], ["  pinning: exclusive"]),
        (
            Change(("spec", "placement", "preset"), "spread-ps"),
            ["  placement:"],
            ["  placement: {preset: spread-ps}"],
        ),
        (
            Change(("spec", "roles", "worker", "env", "OMP_NUM_THREADS"), remove=True),
            ['        OMP_NUM_THREADS: "80"'],
            [],
        ),
        (
            Change(("spec", "roles", "ps", "replicas"), remove=True),
            ["    ps: {replicas: 2, resources: {cpu: 300m}}   # servers"],
            ["    ps: {resources: {cpu: 300m}}   # servers"],
        ),
        (
            Change(("spec", "roles", "ps", "resources", "cpu"), remove=True),
            ["    ps: {replicas: 2, resources: {cpu: 300m}}   # servers"],
            ["    ps: {replicas: 2, resources: {}}   # servers"],
        ),
        (
            Change(("spec", "roles", "worker"), {"replicas": 3}),
            [
                "    worker:",
                "      replicas: 2",
                "      env:",
                '        OMP_NUM_THREADS: "80"',
                '        BATCH: "512"',
            ],
            ["    worker: {replicas: 3}"],
        ),
    ],
)
def test_only_the_lines_of_the_field_change(
    change: Change, removed: list[str], added: list[str]
) -> None:
    diff = difference(FILE, edit(FILE, [change], "job.yaml"), "job.yaml").splitlines()[2:]
    assert [line[1:] for line in diff if line.startswith("-")] == removed
    assert [line[1:] for line in diff if line.startswith("+")] == added


@pytest.mark.parametrize(
    "change",
    [
        Change(("spec", "framework"), "tensorflow"),
        Change(("spec", "env", "OMP_NUM_THREADS"), remove=True),
        Change(("spec", "roles", "worker", "env", "OTHER"), remove=True),
    ],
)
def test_what_is_so_already_changes_nothing(change: Change) -> None:
    assert edit(FILE, [change], "job.yaml") == FILE


def test_the_last_key_of_a_block_leaves_an_empty_mapping() -> None:
    text = "spec:\n  env:\n    A: x  # why\n  threads: 1\n"
    edited = edit(text, [Change(("spec", "env", "A"), remove=True)], "job.yaml")
    assert yaml.safe_load(edited) == {"spec": {"env": {}, "threads": 1}}


def test_a_value_that_several_places_share_is_not_touched() -> None:
    text = "spec:\n  a: &shared {cpu: 1}\n  b: *shared\n"
    with pytest.raises(BadInput) as caught:
        edit(text, [Change(("spec", "b", "cpu"), 2)], "job.yaml")
    assert "cannot be edited safely" in str(caught.value)


def test_a_path_through_a_value_is_refused() -> None:
    with pytest.raises(BadInput) as caught:
        edit("spec: {threads: [1]}\n", [Change(("spec", "threads", "deep"), 2)], "job.yaml")
    assert "spec.threads" in str(caught.value)


_KEYS = st.sampled_from(["a", "b", "c"])
_TREES = st.recursive(
    st.one_of(st.integers(), st.booleans(), st.text("xyz:#' ", max_size=6), st.none()),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(
    tree=st.dictionaries(_KEYS, _TREES, min_size=1, max_size=3),
    path=st.lists(_KEYS, min_size=1, max_size=3),
    value=st.one_of(st.integers(), st.text("xyz:#' ", max_size=6), st.booleans()),
    remove=st.booleans(),
    flow=st.sampled_from([None, True, False]),
)
def test_an_edit_says_what_it_means_or_is_refused(
    tree: dict[str, object], path: list[str], value: object, remove: bool, flow: bool | None
) -> None:
    """Whatever the style of the file: exactly that field is different afterwards."""
    text = yaml.safe_dump(tree, default_flow_style=flow)
    change = Change(tuple(path), None if remove else value, remove)  # type: ignore[arg-type]
    try:
        edited = yaml.safe_load(edit(text, [change], "job.yaml"))
    except BadInput:
        return
    wanted = yaml.safe_load(text)
    here = wanted
    for part in path[:-1]:
        if remove and not isinstance(here.get(part), dict):
            assert edited == wanted
            return
        if here.get(part) is None:
            here[part] = {}
        here = here[part]
    if remove:
        here.pop(path[-1], None)
    else:
        here[path[-1]] = value
    assert edited == wanted
