"""Lists of objects, as `kubectl get -o yaml` prints them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mooring.importers import import_manifests, problems_of
from mooring.model.errors import BadInput


def indexed(name: str, **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "train:1", "command": ["python", "a.py"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [container], **more},
            },
        },
    }


def listed(*items: Any, kind: str = "List", version: str = "v1", **more: Any) -> str:
    metadata = {"resourceVersion": "", "selfLink": ""}
    whole = {"apiVersion": version, "kind": kind, "metadata": metadata, "items": list(items)}
    return yaml.safe_dump({**whole, **more}, sort_keys=False)


def test_each_item_becomes_a_job_and_a_list_may_stand_in_a_list() -> None:
    inner = yaml.safe_load(listed(indexed("b"), indexed("c")))
    found = import_manifests([("all.yaml", listed(indexed("a"), inner))])
    assert [one.name for one in found] == ["a", "b", "c"]
    assert problems_of(found) == []
    assert [one.accounts[0].source for one in found] == [f"all.yaml#{n}" for n in (1, 2, 3)]


def test_a_list_of_one_kind_says_it_once() -> None:
    bare = {key: value for key, value in indexed("a").items() if key not in ("kind", "apiVersion")}
    [one] = import_manifests([("jobs.yaml", listed(bare, kind="JobList", version="batch/v1"))])
    assert (one.name, one.text is not None) == ("a", True)


def test_what_an_item_cannot_keep_is_named_with_its_line_in_the_file() -> None:
    text = listed(indexed("a"), indexed("b", hostNetwork=True))
    line = 1 + next(n for n, one in enumerate(text.splitlines()) if "hostNetwork" in one)
    [refused] = problems_of(import_manifests([("all.yaml", text)]))
    assert refused.source == "all.yaml#2"
    assert f"spec.template.spec.hostNetwork (line {line})" in str(refused)


def test_items_of_other_kinds_can_be_left_out() -> None:
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    text = listed(indexed("a"), other)
    with pytest.raises(BadInput, match="--skip KIND"):
        import_manifests([("all.yaml", text)])
    [one] = import_manifests([("all.yaml", text)], skip=("Service",))
    assert one.name == "a"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (listed(), "items: found an empty list"),
        (listed(indexed("a"), spec={"x": 1}), "spec: found a field that no list has"),
        (listed("nonsense"), "kind: found"),
        (yaml.safe_dump({"kind": "List", "items": {"a": 1}}), "items: found"),
    ],
)
def test_a_list_that_is_none(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        import_manifests([("all.yaml", text)])
