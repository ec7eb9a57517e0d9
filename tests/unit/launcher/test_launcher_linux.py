"""System calls that Python has no function for, made for real in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux system calls")


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from mooring.launcher import linux\n{program}"],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("mode", "shown"), [("MPOL_BIND", "bind:0"), ("MPOL_PREFERRED", "prefer")])
def test_memory_is_bound_to_a_cell(mode: str, shown: str) -> None:
    done = run(
        f"linux.set_memory_policy(linux.{mode}, [0])\nprint(open('/proc/self/numa_maps').read())"
    )
    if done.returncode != 0:
        pytest.skip(done.stderr.splitlines()[-1])
    assert shown in done.stdout


def test_a_refusal_carries_the_systems_reason() -> None:
    done = run("linux.prctl(-1, 0)")
    assert "Invalid argument" in done.stderr
