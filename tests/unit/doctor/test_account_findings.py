"""Findings from the account of a step: by where the time goes, not by what functions are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from building import check_run, member, run, use

from mooring.account import Account, Activity, LineShare, RankAccount
from mooring.account.types import OtherThreads
from mooring.doctor import diagnose_run
from mooring.doctor.facts import MachineFacts, NicFacts, RunFacts
from mooring.doctor.finding import CheckAnswer
from mooring.doctor.registry import NotRecognised, Unknown

A = Activity
JOB = """
apiVersion: mooring.dev/v1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: pytorch
  command: [python]
  roles:
    worker: {replicas: 2}
"""
TRAINS = {A.FRAMEWORK: 0.8, A.OTHERS: 0.1, A.OWN: 0.1}
IDLE_MACHINE = MachineFacts(cpus=8, used_cpus=2.0, available_bytes=8 << 30)


def line(function: str, number: int, **by: float) -> LineShare:
    parts = {Activity[name]: share for name, share in by.items()}
    return LineShare("/job/spam.py", number, function, sum(by.values()), parts)


def rank(
    index: int, parts: Mapping[Activity, float], *lines: LineShare, **more: Any
) -> RankAccount:
    name = f"worker-{index}"
    one = RankAccount(name, "worker", "node-0", 0, 200, 20.0, 0.1, dict(parts), lines)
    return replace(one, **more)


def facts(*ranks: RankAccount, **more: Any) -> RunFacts:
    members = [member(one.member) for one in ranks]
    known = {"account": Account(ranks), "machine": IDLE_MACHINE, **more}
    return replace(run(*members, job=JOB), **known)


def test_healthy_ranks_have_no_findings() -> None:
    found = diagnose_run(facts(rank(0, TRAINS), rank(1, TRAINS)))
    assert found.findings == ()


SLEEPS = {A.FRAMEWORK: 0.3, A.SLEEP: 0.7}
WAITS = {A.FRAMEWORK: 0.3, A.OTHERS: 0.7}


def test_all_that_sleep_are_a_program_that_waits() -> None:
    nap = line("jitter", 7, SLEEP=0.7)
    of = facts(rank(0, SLEEPS, nap), rank(1, SLEEPS, nap))
    [found] = check_run("program-waits", of)
    assert "spam.py:7 jitter()" in found.says
    # 1 / (1 - 0.7)
    assert found.gain is not None
    assert found.gain.high == pytest.approx(1 / 0.3)
    assert check_run("rank-blocked", of) == []


@pytest.mark.parametrize(
    ("parts", "id", "says"),
    [
        (SLEEPS, "rank-blocked", "it sleeps, at spam.py:7 jitter()"),
        ({A.FRAMEWORK: 0.3, A.INPUT: 0.7}, "rank-blocked", "loads data or waits for it, at spam.p"),
        ({A.FRAMEWORK: 0.3, A.DISK: 0.7}, "rank-blocked", "it reads or writes files, at spam.py:7"),
        ({A.FRAMEWORK: 0.3, A.OWN: 0.7}, "straggler", "in code of the program, at spam.py:7"),
        ({A.FRAMEWORK: 1.0}, "straggler", "it computes longer, in the framework"),
    ],
)
def test_the_one_that_does_not_wait_is_waited_for(
    parts: Mapping[Activity, float], id: str, says: str
) -> None:
    [reason] = [one for one in parts if one is not A.FRAMEWORK] or [A.FRAMEWORK]
    slow = line("jitter", 7, **{reason.name: 0.7})
    of = facts(rank(0, WAITS), rank(1, parts, slow), rank(2, WAITS))
    # Who reads or writes files has a finding for that, which explains why it is late.
    expected = ["disk-bound", id] if A.DISK in parts else [id]
    assert [one.id for one in diagnose_run(of).findings] == expected
    [found] = check_run(id, of)
    assert found.members == ("worker-1",)
    assert says in found.says
    assert found.gain is not None
    # The others wait 0.7 of a step for it.
    assert found.gain.high == pytest.approx(1 / 0.3)


@pytest.mark.parametrize(
    ("waits", "late"),
    [
        # Everybody waits for everybody in turn.
        ([0.4, 0.5, 0.45, 0.5], False),
        ([0.3, 0.35], False),
        ([0.02, 0.35], True),
        # Nobody waits long.
        ([0.0, 0.12], False),
        # Two of four.
        ([0.05, 0.06, 0.5, 0.55], True),
    ],
)
def test_ranks_that_wait_for_each_other_in_turn_are_healthy(waits: list[float], late: bool) -> None:
    ranks = [
        rank(index, {A.FRAMEWORK: 1 - share, A.OTHERS: share}) for index, share in enumerate(waits)
    ]
    assert bool(check_run("straggler", facts(*ranks))) is late


def test_a_late_rank_behind_a_full_card_is_not_named() -> None:
    card = NicFacts("node-0", 100, 95.0, 95.0, in_turns=1.0)
    slow = rank(1, {A.FRAMEWORK: 0.3, A.NETWORK: 0.7})
    of = facts(rank(0, WAITS), slow, nics=(card,))
    assert [one.id for one in diagnose_run(of).findings] == ["comm-bound"]


@pytest.mark.parametrize(
    ("parts", "lines", "found"),
    [
        # A function of its own beside the framework, by any name.
        (
            {A.OWN: 0.7, A.FRAMEWORK: 0.3},
            [line("accuracy", 41, OWN=0.65), line("main", 9, FRAMEWORK=0.3, OWN=0.05)],
            True,
        ),
        # Numpy alone: own code is the training.
        ({A.OWN: 0.99, A.FRAMEWORK: 0.01}, [line("train", 5, OWN=0.99)], False),
        # The loop that trains has own lines, too.
        ({A.OWN: 0.5, A.FRAMEWORK: 0.5}, [line("main", 9, FRAMEWORK=0.5, OWN=0.5)], False),
        # A forward pass with operators alone.
        (
            {A.OWN: 0.35, A.FRAMEWORK: 0.65},
            [line("forward", 5, OWN=0.35), line("main", 9, FRAMEWORK=0.65)],
            False,
        ),
    ],
)
def test_own_code_is_named_where_a_framework_trains(
    parts: Mapping[Activity, float], lines: list[LineShare], found: bool
) -> None:
    of = facts(rank(0, parts, *lines))
    assert bool(check_run("own-code", of)) is found


def test_what_has_no_name_is_not_excluded() -> None:
    of = facts(rank(0, {A.OWN: 0.3, A.FRAMEWORK: 0.7}, line("spam", 3, OWN=0.3)))
    member_with_stacks = replace(of.members[0], stacks=())
    of = replace(of, members=(member_with_stacks,))
    with pytest.raises((NotRecognised, Unknown)):
        check_run("checkpoint-often", of)
    checked = {one.id: one for one in diagnose_run(of).checked}
    assert checked["checkpoint-often"].answer is not CheckAnswer.EXCLUDED


@pytest.mark.parametrize(
    ("wait", "threads", "found"), [(0.4, 3, True), (0.4, 1, False), (0.2, 3, False)]
)
def test_threads_in_python(wait: float, threads: int, found: bool) -> None:
    of = facts(rank(0, TRAINS, threads=OtherThreads(threads, wait)))
    assert bool(check_run("gil-bound", of)) is found


@pytest.mark.parametrize(("share", "found"), [(0.3, True), (0.05, False)])
def test_files(share: float, found: bool) -> None:
    parts = {A.DISK: share, A.FRAMEWORK: 1 - share}
    of = facts(rank(0, parts, line("keep", 30, DISK=share)))
    assert bool(check_run("disk-bound", of)) is found


@pytest.mark.parametrize(("share", "found"), [(0.5, True), (0.15, False)])
def test_input_by_the_account(share: float, found: bool) -> None:
    parts = {A.INPUT: share, A.FRAMEWORK: 1 - share}
    ranks = [rank(index, parts, line("fetch", 30, INPUT=share)) for index in range(2)]
    try:
        seen = check_run("input-bound", facts(*ranks))
    except Unknown:
        seen = []
    assert bool(seen) is found
    assert not found or "spam.py:30 fetch()" in seen[0].says


BUSY = MachineFacts(cpus=2, used_cpus=2.0, available_bytes=1 << 30)


@pytest.mark.parametrize(
    ("machine", "cpus", "wanted", "found"),
    [
        # Others use 1.2 of 2 CPUs; each of two members wanted one and got 0.4.
        (BUSY, 0.8, 2.0, True),
        # The members use the machine themselves.
        (BUSY, 1.9, 4.0, False),
        # Others use much, and the members want no more than they get.
        (BUSY, 0.8, 0.9, False),
        (MachineFacts(8, 3.0), 2.0, 3.0, False),
    ],
)
def test_a_machine_that_others_use(
    machine: MachineFacts, cpus: float, wanted: float, found: bool
) -> None:
    half = use(cpu_s=5 * cpus, wait_s=5 * (wanted - cpus))
    members = [member("worker-0", half), member("worker-1", half)]
    of = replace(run(*members, job=JOB), machine=machine)
    assert bool(check_run("machine-busy", of)) is found


MEBI = 1 << 20


@pytest.mark.parametrize(
    ("amounts", "found"),
    [
        ([200 + 10 * at for at in range(30)], True),
        # Fills up and stays.
        ([200 + min(300, 30 * at) for at in range(30)], False),
        ([200] * 30, False),
        # Up and down.
        ([200 + 100 * (at % 2) for at in range(30)], False),
        ([2000 + at // 10 for at in range(30)], False),
        ([200 + 10 * at for at in range(5)], None),
    ],
)
def test_memory_that_grows(amounts: list[int], found: bool | None) -> None:
    points = tuple((float(at), amount * MEBI) for at, amount in enumerate(amounts))
    of = facts(rank(0, TRAINS))
    of = replace(of, members=(replace(of.members[0], memory=points),))
    if found is None:
        with pytest.raises(Unknown):
            check_run("mem-grows", of)
        return
    seen = check_run("mem-grows", of)
    assert bool(seen) is found
    # 8 GiB left at 10 MiB/s
    assert not found or "14 min" in seen[0].says


CARD = NicFacts("node-0", 100, 60.0, 60.0, in_turns=0.9)


@pytest.mark.parametrize(
    ("card", "waiting", "found"),
    [
        (CARD, 0.8, True),
        # Hidden behind computing.
        (CARD, 0.05, False),
        (NicFacts("node-0", 100, 20.0, 20.0, in_turns=0.3), 0.6, False),
    ],
)
def test_an_exchange_that_fills_a_card(card: NicFacts, waiting: float, found: bool) -> None:
    parts = {A.FRAMEWORK: 1 - waiting, A.NETWORK: waiting}
    seen = check_run("comm-bound", facts(rank(0, parts), rank(1, parts), nics=(card,)))
    assert bool(seen) is found
    if found:
        # Half of 0.64 to 0.9 of a step is freed: 1 / 0.68 to 1 / 0.55
        assert "1.5 to 1.8× the examples a second" in seen[0].remedy.does
        # One of two ranks does half of the work, and waits for nobody: 0.5 / (1 - 0.8)
        assert "one process alone 2.5× (faster than 2 ranks)" in seen[0].remedy.does


EXCHANGE = {A.FRAMEWORK: 0.15, A.OTHERS: 0.6, A.NETWORK: 0.25}


@pytest.mark.parametrize(
    ("step_s", "machine", "small", "alone"),
    [
        (0.01, IDLE_MACHINE, True, True),
        # Long steps.
        (0.5, IDLE_MACHINE, False, True),
        # More ranks than CPUs: they wait for those who have one.
        (0.01, MachineFacts(2, 1.9), False, False),
    ],
)
def test_steps_that_are_all_exchange(
    step_s: float, machine: MachineFacts, small: bool, alone: bool
) -> None:
    ranks = [rank(index, EXCHANGE, step_s=step_s) for index in range(4)]
    of = facts(*ranks, machine=machine)
    assert bool(check_run("batch-small", of)) is small
    seen = check_run("one-process", of)
    assert bool(seen) is alone
    if alone:
        # 4 × 0.15 of a step
        assert "60 % of the time" in seen[0].says


@pytest.mark.parametrize(
    ("examples_per_s", "found"), [(200.0, True), (6400.0, False), (None, False)]
)
def test_a_batch_of_few_examples(examples_per_s: float | None, found: bool) -> None:
    # 200 examples a second in steps of 10 ms: 2 in each
    of = facts(rank(0, TRAINS, step_s=0.01))
    of = replace(of, members=(replace(of.members[0], examples_per_s=examples_per_s),))
    assert bool(check_run("batch-small", of)) is found


@pytest.mark.parametrize(
    ("loads", "ids"),
    [
        # A star: what the first carries is what the others do together.
        ((90.0, 45.0, 45.0), ["ps-nic"]),
        # A ring.
        ((90.0, 88.0, 86.0), ["comm-bound"]),
        ((20.0, 10.0, 10.0), []),
    ],
)
def test_a_member_that_serves_the_others_without_the_role(
    loads: tuple[float, ...], ids: list[str]
) -> None:
    members = [member(f"worker-{index}", node=f"node-{index}") for index in range(3)]
    nics = tuple(NicFacts(f"node-{at}", 100, load, load) for at, load in enumerate(loads))
    of = replace(run(*members, job=JOB), nics=nics)
    assert [one.id for one in diagnose_run(of).findings] == ids


@pytest.mark.parametrize(
    ("computing", "waiting", "ids"),
    [
        # It computes more, and waits for a CPU while it does.
        (0.43, 0.5, ["straggler"]),
        # It is only served last on CPUs that all share.
        (0.15, 0.8, []),
    ],
)
def test_who_waits_for_shared_cpus_is_chance(
    computing: float, waiting: float, ids: list[str]
) -> None:
    slow = rank(1, {A.OWN: computing, A.CPU_WAIT: waiting, A.OTHERS: 1 - computing - waiting})
    other = rank(0, {A.OWN: 0.1, A.CPU_WAIT: 0.1, A.OTHERS: 0.8})
    assert [one.id for one in diagnose_run(facts(other, slow)).findings] == ids
