"""The contract as backends write it is what the launcher, which stands alone, reads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.launcher import contract as launcher
from mooring.wire.contract import (
    CONTRACT_VERSION,
    Contract,
    LocalProcess,
    Meeting,
    Peer,
    RankAgent,
    StepsWanted,
    contract_document,
)
from mooring.wire.fields import formats_of

#: What pods need before the contract is read, and what has parts of its own.
_IN_PODS = {"packed_env", "files", "files_dir", "archive"}
_WITH_PARTS = {"processes", "peers", "steps", "meeting", "agent"}


def read(contract: Contract) -> launcher.Contract:
    document: dict[str, Any] = json.loads(json.dumps(contract_document(contract)))
    return launcher.Contract(document)


def simple(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


LEAST = {"member": "worker-0", "argv": ("true",), "log_path": "/l", "sample_path": "/s"}


def test_defaults_are_the_same_on_both_sides() -> None:
    written = Contract(**LEAST)  # type: ignore[arg-type]
    there = read(written)
    for each in formats_of(Contract):
        if each.name not in _IN_PODS | _WITH_PARTS | {"look_sharers"}:
            assert getattr(there, each.name) == simple(getattr(written, each.name)), each.name
    assert there.look_sharers == there.sharers
    assert (there.step_source, there.step_pattern) == ("sdk", None)
    assert there.processes == [(0, {})]
    assert there.agent_port is None
    assert there.peers == []


def test_what_is_written_is_read() -> None:
    written = Contract(
        **LEAST,  # type: ignore[arg-type]
        run="r", job="j", role="worker", index=3, epoch=1, attempt=2, env={"A": "b"}, cwd="/w",
        gate="meeting", cgroup_procs=("/g",), netns="/n", hosts_file="/h", cpus=(0, 2),
        exclusive=True, cells=(1,), cpu_millis=1500, memory_bytes=7, gpus=(), threads=4,
        share_threads=3, sharers=2, resolve_timeout_s=5.0, sample_interval_s=0.5, grace_s=0.0,
        looks=False, look_sharers=6, watcher=9, echo=True,
        processes=(LocalProcess(0, {"R": "0"}), LocalProcess(1)),
        peers=(Peer("ps-0", "a", (1, 2)), Peer("worker-{}", "w-{}.x", (3,), first=4, count=2)),
        steps=StepsWanted("regex", "(?P<step>[0-9]+)", 8),
        agent=RankAgent(11, "secret"),
    )  # fmt: skip
    document = contract_document(written)
    document["meeting"] = {"host": "h", "port": 5, "leads": True, "members": 2, "token": "t"}
    there = launcher.Contract(json.loads(json.dumps(document)))
    for each in formats_of(Contract):
        if each.name not in _IN_PODS | _WITH_PARTS:
            assert getattr(there, each.name) == simple(getattr(written, each.name)), each.name
    assert there.processes == [(0, {"R": "0"}), (1, {})]
    assert [(one.member, one.host, one.ports) for one in there.peers] == [
        ("ps-0", "a", [1, 2]),
        ("worker-4", "w-4.x", [3]),
        ("worker-5", "w-5.x", [3]),
    ]
    assert (there.step_source, there.examples_per_step) == ("regex", 8)
    assert (there.agent_port, there.agent_token) == (11, "secret")


def test_a_meeting_is_written_without_its_token() -> None:
    meeting = Meeting("h", 5, leads=True, members=2, token_env="TOKEN")
    written = contract_document(Contract(meeting=meeting))["meeting"]
    assert written == {"host": "h", "port": 5, "leads": True, "members": 2, "token_env": "TOKEN"}


def test_versions_agree_and_another_one_is_refused() -> None:
    assert launcher.VERSION == CONTRACT_VERSION
    document = {**contract_document(Contract(**LEAST)), "version": 99}  # type: ignore[arg-type]
    with pytest.raises(launcher.LaunchError, match="version is 99"):
        launcher.Contract(document)
