"""Kill any part at a random moment: the policy's outcome, and nothing left behind.

A hundred rounds, each from its own seed; a failing round names it. The victim is a member's
process, its launcher, or `moor` itself; the policy restarts nothing, the member or the gang;
the nodes are plain processes or, as root, virtual nodes.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import psutil
import pytest

from mooring.backends.local import netns
from mooring.model.status import MemberState
from mooring.record import RunRecord
from mooring.wire import read_journal
from mooring.wire.events import MemberChanged, PhaseChanged
from support.moor import Moor, leftovers, processes_of, write_job
from support.waiting import until

ROUNDS = 100
_MEMBER = Path(__file__).parent / "member.py"
_VIRTUAL = netns.why_not() is None

Victim = Literal["process", "launcher", "moor"]


def _start_of(process: psutil.Process) -> str | None:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return None


def _victims(run: RunRecord, kind: Victim) -> list[psutil.Process]:
    wanted = {"process": str(_MEMBER), "launcher": "launcher.pyz"}
    return [p for p in processes_of(run.info.id) if wanted[kind] in (_start_of(p) or "")]


def _phases(run: RunRecord) -> list[str]:
    return [each.phase.value for each in read_journal(run.events_file, PhaseChanged)]


def _all_up_again(run: RunRecord, count: int) -> bool:
    """Every member has printed that it is up as often as it was started."""
    changes = read_journal(run.events_file, MemberChanged)
    state = {change.member: change.state for change in changes}
    return list(state.values()) == [MemberState.RUNNING] * count


def _ports(run: RunRecord) -> list[int]:
    ports = []
    for contract in run.root.glob("members/*/contract-*.json"):
        with suppress(ValueError):
            for peer in json.loads(contract.read_text())["peers"]:
                ports += peer["ports"]
    return sorted(set(ports))


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_killed_part_leaves_nothing_and_the_policy_decides(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    victim: Victim = chance.choice(["process", "process", "launcher", "launcher", "moor"])
    restart = chance.choice(["never", "member", "gang"])
    virtual = _VIRTUAL and chance.random() < 0.4
    members = chance.randint(1, 3)
    # Up to two seconds covers planning, starting, the gate, running and, for late ones, the end.
    delay_s = chance.uniform(0.0, 2.0)
    release = tmp_path / "release"
    moor = Moor(tmp_path / "home")
    job = write_job(
        tmp_path,
        name="kill",
        framework="indexed",
        command=[sys.executable, "-S", str(_MEMBER), str(release)],
        roles={"worker": {"replicas": members}},
        failurePolicy={
            "restart": restart,
            "maxRestarts": 2,
            "backoff": {"initial": "50ms", "factor": 1.0, "max": "50ms"},
        },
        gracePeriod="2s",
    )
    nodes = ("--nodes", "2") if virtual else ()
    with moor.started("run", job, *nodes) as process:
        begun_s = time.monotonic()
        until(lambda: moor.runs() or process.poll() is not None, "a run directory", 30)
        assert process.poll() is None, process.stdout and process.stdout.read()
        run = moor.only_run()
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, delay_s - (time.monotonic() - begun_s)))
        killed = _kill(run, victim, process, chance)
        if victim == "moor":
            _check_orphans_end(run, process)
            clean = moor("clean")
            assert clean.returncode == 0, clean.stderr
        else:
            _check_outcome(run, process, killed, restart, members, release)
    assert leftovers(run) == []
    assert [port for port in _ports(run) if not virtual and not _bindable(port)] == []
    answer = moor("report", "last")
    assert answer.returncode == 0, answer.stderr


def _kill(
    run: RunRecord, victim: Victim, process: subprocess.Popen[str], chance: random.Random
) -> bool:
    if victim == "moor":
        process.kill()
        return True
    candidates = _victims(run, victim)
    if not candidates:
        return False
    with suppress(psutil.NoSuchProcess):
        chance.choice(candidates).kill()
        return True
    return False


def _check_orphans_end(run: RunRecord, process: subprocess.Popen[str]) -> None:
    """Without anybody's help: the launchers see that their supervisor is gone."""
    assert process.wait(10) == -signal.SIGKILL
    until(lambda: not processes_of(run.info.id), "the members of a killed moor end", 20)


def _check_outcome(
    run: RunRecord,
    process: subprocess.Popen[str],
    killed: bool,
    restart: str,
    members: int,
    release: Path,
) -> None:
    if killed and restart == "never":
        assert process.wait(30) == 1
        assert _phases(run)[-1] == "Failed"
        return
    until(
        lambda: _all_up_again(run, members) and len(_victims(run, "process")) == members,
        "all members run (again)",
        30,
    )
    release.touch()
    assert process.wait(30) == 0, _phases(run)
    assert _phases(run)[-1] == "Succeeded"
    changes = read_journal(run.events_file, MemberChanged)
    attempts = [(change.epoch, change.attempt) for change in changes]
    epochs, tries = {epoch for epoch, _ in attempts}, {attempt for _, attempt in attempts}
    if not killed:
        assert (epochs, tries) == ({0}, {0})
    elif restart == "gang":
        assert epochs == {0, 1}
    else:
        assert (epochs, tries) == ({0}, {0, 1})


def test_a_second_run_starts_after_a_killed_one(tmp_path: Path) -> None:
    """What a killed run held (CPUs, ports) does not stand in the way of the next."""
    release = tmp_path / "release"
    moor = Moor(tmp_path / "home")
    job = write_job(
        tmp_path,
        framework="indexed",
        command=[sys.executable, "-S", str(_MEMBER), str(release)],
        pinning="exclusive",
        roles={"worker": {"replicas": len(os.sched_getaffinity(0)), "resources": {"cpu": 1}}},
    )
    with moor.started("run", job) as process:
        until(lambda: moor.runs() and "Running" in _phases(moor.only_run()), "running", 30)
        second = moor("run", job)
        assert second.returncode == 2
        assert "insufficient cpu" in second.stderr
        process.kill()
        process.wait()
    release.touch()
    assert moor("run", job).returncode == 0
