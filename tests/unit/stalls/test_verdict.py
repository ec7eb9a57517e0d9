"""Who waits for whom, from stacks as PyTorch's ranks have them."""

from __future__ import annotations

import json
from dataclasses import replace

from mooring.stacks.classify import Frame, Stack
from mooring.stalls import StandingProcess, judge
from mooring.stalls.standing import parse_dump

TORCH = "/v/lib/python3.11/site-packages/torch"
MODULE = Frame("<module>", "/job/train.py", 36)
BACKWARD: Stack = (
    MODULE,
    Frame("main", "/job/train.py", 30),
    Frame("Tensor.backward", f"{TORCH}/_tensor.py", 623),
    Frame("_engine_run_backward", f"{TORCH}/autograd/graph.py", 979),
)
BARRIER: Stack = (
    MODULE,
    Frame("main", "/job/train.py", 26),
    Frame("wrapper", f"{TORCH}/distributed/c10d_logger.py", 83),
    Frame("barrier", f"{TORCH}/distributed/distributed_c10d.py", 5356),
)
SLEEP: Stack = (MODULE, Frame("main", "/job/train.py", 19), Frame("fetch", "/job/train.py", 8))
EVALUATE: Stack = (MODULE, Frame("evaluate", "/job/train.py", 80))
SERVE: Stack = (MODULE, Frame("join", "/v/tensorflow/python/training/server_lib.py", 9))


def rank(
    number: int,
    stack: Stack,
    cpus: float = 0.0,
    state: str = "sleeping",
    kernel: str = "futex_do_wait",
) -> StandingProcess:
    threads = (("MainThread", stack),) if stack else ()
    return StandingProcess(f"worker-{number}", 100 + number, state, cpus, threads, kernel)


def test_who_sleeps_elsewhere_has_not_arrived() -> None:
    found = judge([rank(0, BACKWARD), rank(1, SLEEP, kernel="hrtimer_nanosleep")])
    assert found.hang
    assert found.missing == ("worker-1",)
    assert found.says == (
        "worker-1 has not arrived: it sleeps in fetch (train.py:8); "
        "worker-0 waits in backward, main (train.py:30)"
    )


def test_who_computes_is_waited_for_and_does_not_hang() -> None:
    found = judge([rank(0, EVALUATE, cpus=1.0, state="running"), rank(1, BARRIER)])
    assert not found.hang
    assert found.missing == ("worker-0",)
    assert "worker-0 has not arrived: it computes in evaluate (train.py:80)" in found.says


def test_a_rank_that_computes_its_step_has_not_arrived() -> None:
    """Within the step, a rank waits only if it uses no CPU."""
    found = judge([rank(0, BACKWARD, cpus=0.9, state="running"), rank(1, BACKWARD)])
    assert not found.hang
    assert found.missing == ("worker-0",)


def test_a_rank_that_spins_in_a_collective_has_arrived() -> None:
    found = judge([rank(0, BARRIER, cpus=1.0, state="running"), rank(1, SLEEP)])
    assert found.hang
    assert found.missing == ("worker-1",)


def test_a_stopped_process_is_named_wherever_it_is() -> None:
    found = judge([rank(0, BACKWARD), rank(1, BACKWARD, state="stopped")])
    assert found.hang
    assert found.missing == ("worker-1",)
    assert "process 101 is stopped (SIGSTOP)" in found.says


def test_a_stopped_server_is_named_and_one_that_serves_is_not() -> None:
    chief = rank(0, BARRIER)
    serving = StandingProcess("ps-0", 7, "sleeping", 0.0, (("MainThread", SERVE),), serves=True)
    stopped = StandingProcess("ps-1", 8, "stopped", 0.0, (("MainThread", SERVE),), serves=True)
    assert judge([chief, serving, stopped]).missing == ("ps-1",)
    assert judge([chief, serving]).missing == ()


def test_different_collectives() -> None:
    found = judge([rank(0, BARRIER), rank(1, BACKWARD), rank(2, BACKWARD)])
    assert found.hang
    assert found.missing == ("worker-0",)
    assert "worker-0 in barrier, main (train.py:26)" in found.says
    # Of two, neither is more likely to be the one.
    assert judge([rank(0, BARRIER), rank(1, BACKWARD)]).missing == ()


def test_all_in_the_same_collective() -> None:
    found = judge([rank(0, BARRIER), rank(1, BARRIER)])
    assert found.hang
    assert found.missing == ()
    assert "all 2 wait in barrier, main (train.py:26)" in found.says


def test_who_ended_is_missed_by_those_who_wait_alone() -> None:
    gone = StandingProcess("worker-1", state="ended", exit_code=0)
    found = judge([rank(0, BACKWARD), gone])
    assert found.hang
    assert found.missing == ("worker-1",)
    assert "worker-1 has not arrived: it ended with exit code 0" in found.says
    evaluating = judge([rank(0, EVALUATE, cpus=1.0, state="running"), gone])
    assert not evaluating.hang


def test_nobody_computes_and_nobody_waits() -> None:
    found = judge([rank(0, SLEEP, kernel="hrtimer_nanosleep")])
    assert found.hang
    assert "worker-0 sleeps in fetch (train.py:8)" in found.says


def test_without_stacks_nobody_is_blamed() -> None:
    note = "py-spy is not installed"
    blind = [
        StandingProcess(f"worker-{i}", i, "sleeping", 0.0, kernel="futex", note=note)
        for i in (0, 1)
    ]
    found = judge(blind)
    assert found.missing == ()
    assert note in found.says
    assert "worker-0 is sleeping in futex" in found.says


def test_a_dump_is_read_with_the_main_thread_first() -> None:
    frames = [
        {"name": "inner", "filename": "/a.py", "line": 2},
        {"name": "outer", "filename": "/a.py"},
    ]
    text = json.dumps(
        [
            {"thread_name": "pin", "os_thread_id": 8, "frames": frames},
            {"thread_name": None, "os_thread_id": 7, "frames": frames},
            {"thread_name": "gone", "os_thread_id": 9, "frames": []},
        ]
    )
    threads = parse_dump(text, 7)
    assert [name for name, _ in threads] == ["7", "pin"]
    assert [frame.name for frame in threads[0][1]] == ["outer", "inner"]
    kept = StandingProcess("worker-0", 7, "sleeping", 0.0, threads, "futex").text()
    assert "worker-0 (process 7): sleeping, 0 % of a CPU, in the kernel: futex" in kept
    assert kept.index("inner (/a.py:2)") < kept.index("outer (/a.py:0)")


def test_ranks_of_one_member_are_told_apart_by_their_processes() -> None:
    both = [
        replace(one, member="worker-0", alone=False) for one in (rank(0, BACKWARD), rank(1, SLEEP))
    ]
    found = judge(both)
    assert found.missing == ("worker-0",)
    assert "worker-0 (process 101) has not arrived" in found.says
    assert "worker-0 (process 100) waits in backward" in found.says
