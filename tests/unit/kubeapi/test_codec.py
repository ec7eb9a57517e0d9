"""What the fast reader and writer of JSON refuse is sent all the same, or an error."""

from __future__ import annotations

import json
from types import MappingProxyType

import pytest

from mooring.backends.kubernetes.api import codec
from mooring.backends.kubernetes.api.document import Json


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, True, None, "ä\n\x00"], "": {}},
        ["half a surrogate: \ud800"],
        {"more than 64 bits": 2**70},
        "text",
        None,
    ],
)
def test_what_is_written_is_what_python_itself_reads(value: Json) -> None:
    assert json.loads(codec.write(value)) == value


def test_any_mapping_is_written_as_an_object() -> None:
    inner = MappingProxyType({"b": 1})
    assert codec.write({"a": inner}) == b'{"a":{"b":1}}'


def test_what_is_no_json_is_an_error_and_no_crash() -> None:
    for raw in (b"", b"{", b'{"a":1}{', b"\xff", b"[" * 100_000, b"NaN"):
        with pytest.raises(ValueError):
            codec.read(raw)


def test_a_pod_is_read_as_it_was_written() -> None:
    pod: Json = {"metadata": {"labels": {"x": "\u2028 'é'"}}, "spec": {"priority": -(2**31)}}
    assert codec.read(codec.write(pod)) == pod
