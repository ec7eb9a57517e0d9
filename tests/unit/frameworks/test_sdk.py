"""The SDK: one line a report, harmless outside Mooring, and an identity from the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from framework_jobs import make_job, render_all

from mooring import sdk


def run(code: str, **env: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MOORING_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("", {"step": None, "examples": None, "loss": None, "total": None}),
        ("64, 0.5, 3, 10", {"step": 3, "examples": 64, "loss": 0.5, "total": 10}),
        ("loss=float('nan')", {"step": None, "examples": None, "loss": None, "total": None}),
        (
            "examples=8.0, loss=float('inf')",
            {"step": None, "examples": 8, "loss": None, "total": None},
        ),
    ],
)
def test_a_report_is_one_line(call: str, expected: dict[str, Any]) -> None:
    out = run(f"import mooring; mooring.step({call})", MOORING_MEMBER="worker-0")
    assert out.startswith("::mooring:: ")
    assert out.endswith("\n")
    assert out.count("\n") == 1
    assert json.loads(out.removeprefix("::mooring:: ")) == expected


def test_a_report_comes_after_what_was_printed_before_it() -> None:
    out = run("import mooring; print('first'); mooring.step(1)", MOORING_MEMBER="worker-0")
    assert out.splitlines()[0] == "first"


def test_outside_mooring_a_report_says_nothing() -> None:
    assert (
        run("import mooring; mooring.step(1, 2.0); print(mooring.identity().world_size)") == "1\n"
    )


def test_a_reader_that_is_gone_does_not_stop_training() -> None:
    code = "import os, mooring; os.close(1); mooring.step(1); os._exit(0)"
    assert run(code, MOORING_MEMBER="worker-0") == ""


def test_the_sdk_does_not_pull_in_the_rest() -> None:
    code = (
        "import sys, mooring; mooring.step(1); mooring.identity();"
        "print([name for name in ('pydantic', 'yaml', 'click') if name in sys.modules])"
    )
    assert run(code) == "[]\n"


def test_identity_outside_mooring_is_a_single_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOORING_MEMBER", raising=False)
    me = sdk.identity()
    assert (me.rank, me.world_size, me.local_rank, me.member) == (0, 1, 0, "worker-0")


def test_identity_is_what_was_rendered(monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job("pytorch", {"worker": {"replicas": 2, "processes": 2}})
    launch = render_all(job, epoch=4)["worker-1"][1]
    for name, value in {**launch.env, **launch.processes[1].env}.items():
        monkeypatch.setenv(name, value)
    assert sdk.identity() == sdk.Identity(
        job="demo",
        role="worker",
        index=1,
        rank=3,
        world_size=4,
        local_rank=1,
        local_world_size=2,
        epoch=4,
        peers={"worker": ("127.0.0.1:7001", "127.0.0.1:7002")},
    )


def test_identity_of_a_server_has_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOORING_RANK", raising=False)
    launch = render_all(make_job("tensorflow", {"ps": {}, "worker": {}}))["ps-0"][1]
    for name, value in {**launch.env, **launch.processes[0].env}.items():
        monkeypatch.setenv(name, value)
    assert sdk.identity().rank is None


def test_identity_of_an_mpi_rank_comes_from_mpirun(monkeypatch: pytest.MonkeyPatch) -> None:
    roles = {"launcher": {}, "worker": {"replicas": 2, "processes": 2}}
    for name, value in render_all(make_job("mpi", roles))["worker-1"][1].env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "3")
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_RANK", "1")
    me = sdk.identity()
    assert (me.member, me.rank, me.world_size, me.local_rank) == ("worker-1", 3, 4, 1)


def test_the_budget_is_what_the_launcher_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MOORING_MEMBER": "worker-0",
        "MOORING_CPU_MILLIS": "1500",
        "MOORING_THREADS": "2",
        "MOORING_MEMORY_BYTES": "1024",
        "MOORING_LOCAL_RANK": "1",
        "CUDA_VISIBLE_DEVICES": "2, 3",
    }.items():
        monkeypatch.setenv(name, value)
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    assert sdk.budget() == sdk.Budget(cpus, 1500, 2, 1024, 1, ("2", "3"))


def test_outside_mooring_the_budget_is_what_the_process_sees() -> None:
    out = run(
        "import mooring, os; b = mooring.budget(); print(b.threads == len(b.cpus), b.devices)"
    )
    assert out == "True ()\n"
