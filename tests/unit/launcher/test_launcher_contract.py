"""Every way in which a contract can be wrong is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.launcher.contract import Contract, read_document
from mooring.launcher.errors import LaunchError

SMALLEST: dict[str, Any] = {
    "version": 1,
    "member": "worker-0",
    "argv": ["true"],
    "cwd": "/",
    "log_path": "log",
    "sample_path": "samples",
}


def test_the_smallest_contract() -> None:
    contract = Contract(SMALLEST)
    assert contract.processes == [(0, {})]
    assert contract.threads is None
    assert contract.cpus is None
    assert contract.agent_port is None


def test_unknown_keys_are_for_newer_launchers() -> None:
    assert Contract({**SMALLEST, "from_the_future": {}}).member == "worker-0"


def test_peers_that_differ_by_their_index_are_written_once() -> None:
    run = {"member": "worker-{}", "host": "j-worker-{}.j.svc", "ports": [1], "first": 9, "count": 2}
    peers = Contract({**SMALLEST, "peers": [{"member": "ps-0", "host": "h"}, run]}).peers
    assert [(peer.member, peer.host, peer.ports) for peer in peers] == [
        ("ps-0", "h", []),
        ("worker-9", "j-worker-9.j.svc", [1]),
        ("worker-10", "j-worker-10.j.svc", [1]),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "version is 3; this launcher knows version 1"),
        ({"member": None}, "member is null; accepted: a string without NUL"),
        ({"argv": "true"}, 'argv is "true"; accepted: a list of strings'),
        ({"argv": []}, "argv is empty and there is no agent"),
        ({"argv": ["a\0b"]}, "accepted: a string without NUL"),
        ({"env": {"A": 1}}, 'env is {"A": 1}'),
        ({"env": {"A=B": ""}}, "names without '=' and NUL"),
        ({"gate": "shut"}, 'gate is "shut"; accepted: stdin or open'),
        ({"cpus": [-1]}, "cpus is [-1]; accepted: an integer >= 0, or null"),
        ({"cpus": [True]}, "cpus is [true]"),
        ({"cpu_millis": 0}, "cpu_millis is 0; accepted: an integer >= 1, or null"),
        ({"threads": "many"}, 'threads is "many"; accepted: "auto" or an integer >= 1'),
        ({"threads": 0}, 'threads is 0; accepted: "auto" or an integer >= 1'),
        ({"grace_s": -1}, "grace_s is -1"),
        ({"watcher": 0}, "watcher is 0; accepted: an integer >= 1, or null"),
        ({"processes": []}, "processes is empty"),
        ({"processes": [{}]}, "processes[0].local_rank is missing"),
        ({"processes": [{"local_rank": 0}, {"local_rank": 0}]}, "appears twice"),
        ({"peers": [{"member": "a", "host": 1}]}, "peers[0].host is 1"),
        ({"peers": [{"member": "a", "host": "b", "count": 0}]}, "peers[0].count is 0"),
        ({"steps": {"source": "guess"}}, "steps.source"),
        ({"steps": {"source": "regex"}}, "steps.pattern is null; accepted: a regular expression"),
        ({"steps": {"source": "regex", "pattern": "("}}, 'steps.pattern is "(": '),
        ({"agent": {"port": 1}}, "agent.token is missing"),
        ({"agent": {"port": 1, "token": ""}}, "agent.token is empty"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError) as caught:
        Contract({**SMALLEST, **change})
    assert message in caught.value.reason
    assert caught.value.reason.startswith("contract: ")
    assert caught.value.exit_code == 125


@pytest.mark.parametrize("key", ["version", "member", "cwd", "log_path", "sample_path"])
def test_what_is_missing_is_named(key: str) -> None:
    document = {name: value for name, value in SMALLEST.items() if name != key}
    with pytest.raises(LaunchError, match=f"contract: {key} is missing"):
        Contract(document)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_files_that_hold_no_object(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "contract.json"
    path.write_bytes(content)
    with pytest.raises(LaunchError, match=r"contract .*: not"):
        read_document(str(path))
