"""Pods in protobuf are read to what the server's JSON would say; all else is an error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.backends.kubernetes.api import codec, protobuf
from mooring.backends.kubernetes.api.document import mapping
from mooring.backends.kubernetes.objects.pods import parse_pod
from support.wire import entry, envelope, event, message

METADATA = message(
    (1, "p"),
    (3, "space"),
    (5, "uid-1"),
    (6, "17"),
    (8, message((1, 1_700_000_000), (2, 0))),
    (9, message((1, 1_700_000_030))),
    entry(11, "app", "x"),
    entry(11, "tier", "é"),
    entry(12, "note", b"half \xff of it"),
    (17, message((1, "a manager"), (7, b"\x01\x02"))),
)
CPU = message((1, "cpu"), (2, message((1, "1500m"))))
CONTAINER = message(
    (1, "member"),
    (2, "an/image"),
    (6, message((1, "web"), (2, 8080), (3, 80))),
    (8, message((1, CPU), (2, CPU))),
)
VOLUMES = (
    message((1, "data"), (2, message((10, message((1, "claim"), (2, 1)))))),
    message((1, "disk"), (2, message((3, message((1, "pd"), (4, 0)))))),
    message((1, "scratch"), (2, message((2, b"")))),
    message((1, "own"), (2, message((29, message((1, message((2, b"")))))))),
)
SPEC = message(
    *((1, one) for one in VOLUMES),
    (2, CONTAINER),
    (10, "node-1"),
    (20, message((1, "first"))),
    (32, CPU),
)
STATUS = message(
    (1, "Running"),
    (2, message((1, "PodScheduled"), (2, "False"), (5, "Unschedulable"), (6, "no room"))),
    (3, "said"),
    (4, "why"),
    (
        8,
        message(
            (1, "member"),
            (2, message((2, message((1, b""))))),
            (3, message((3, message((1, -9), (3, "Error"))))),
            (5, 2),
        ),
    ),
    (9, "Guaranteed"),
)
POD = message((1, METADATA), (2, SPEC), (3, STATUS))
READ = {
    "metadata": {
        "name": "p",
        "namespace": "space",
        "uid": "uid-1",
        "resourceVersion": "17",
        "creationTimestamp": "2023-11-14T22:13:20Z",
        "deletionTimestamp": "2023-11-14T22:13:50Z",
        "labels": {"app": "x", "tier": "é"},
        "annotations": {"note": "half \ufffd of it"},
    },
    "spec": {
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
            {"name": "disk", "gcePersistentDisk": {"pdName": "pd", "readOnly": False}},
            {"name": "scratch"},
            {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}},
        ],
        "containers": [
            {"ports": [{"hostPort": 8080}], "resources": {"requests": {"cpu": "1500m"}}}
        ],
        "nodeName": "node-1",
        "initContainers": [{}],
        "overhead": {"cpu": "1500m"},
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no room",
            }
        ],
        "message": "said",
        "reason": "why",
        "containerStatuses": [
            {
                "name": "member",
                "state": {"running": {"startedAt": None}},
                "lastState": {"terminated": {"exitCode": -9, "reason": "Error"}},
                "restartCount": 2,
            }
        ],
        "qosClass": "Guaranteed",
    },
}


def test_a_pod() -> None:
    assert protobuf.read(envelope("Pod", POD)) == READ


def test_a_list_of_pods() -> None:
    listed = message((1, message((2, "90"), (3, "more"))), (2, POD), (2, b""))
    assert protobuf.read(envelope("PodList", listed)) == {
        "metadata": {"resourceVersion": "90", "continue": "more"},
        "items": [READ, {}],
    }


def test_a_change_and_the_end_of_a_watch() -> None:
    watch = f"{codec.PROTOBUF};stream=watch"
    assert codec.read(event("ADDED", "Pod", POD)[4:], watch) == {"type": "ADDED", "object": READ}
    refusal = message((2, "Failure"), (3, "too old"), (4, "Expired"), (6, 410))
    assert codec.read(event("ERROR", "Status", refusal)[4:], watch) == {
        "type": "ERROR",
        "object": {"status": "Failure", "message": "too old", "reason": "Expired", "code": 410},
    }


@pytest.mark.parametrize("seconds", [10**12, 2**63 - 1, -(2**63)])
def test_a_pod_that_may_take_for_ever_to_end_is_on_its_way_out(seconds: int) -> None:
    # Whoever deletes a pod chooses its grace period: 10^12 s are 31,700 years.
    raw = envelope("Pod", message((1, message((1, "p"), (9, message((1, seconds)))))))
    view = parse_pod(mapping(protobuf.read(raw)))
    assert view.deleting
    assert view.delete_by_s == 0.0


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"k8s\0",
        b"k8s\0\xff",
        envelope("Secret", b""),
        envelope("", POD),
        envelope("Pod", POD[:-1]),
        envelope("Pod", message((1, 7))) + b"\x0b",
    ],
)
def test_what_is_no_pod_is_an_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        protobuf.read(raw)


@given(at=st.integers(0, len(POD) - 1), byte=st.integers(0, 255), cut=st.integers(0, 40))
def test_a_damaged_pod_is_an_error_or_another_pod(at: int, byte: int, cut: int) -> None:
    damaged = bytearray(POD)
    damaged[at] = byte
    raw = envelope("Pod", bytes(damaged[: len(damaged) - cut]))
    with contextlib.suppress(ValueError):
        parse_pod(mapping(protobuf.read(raw)))


@given(st.binary())
def test_anything_is_an_error_or_an_object(raw: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(protobuf.read(envelope("PodList", raw)), dict)
    with contextlib.suppress(ValueError):
        protobuf.read_event(raw)
