"""System calls that Python has no function for, made for real in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_naming_a_watcher_never_fails() -> None:
    """Neither on a kernel without Yama nor for a process that is gone."""
    done = run("linux.allow_watcher(1)\nlinux.allow_watcher(2**22 + 1)\nprint('fine')")
    assert (done.returncode, done.stdout) == (0, "fine\n")


@pytest.mark.skipif(
    not Path("/proc/sys/kernel/yama/ptrace_scope").exists()
    or Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip() != "1"
    or os.geteuid() == 0,
    reason="needs Yama in mode 1, and not root",
)
def test_a_watcher_may_read_a_process_that_is_no_child_of_its_own() -> None:
    """Over exec: the target names this process, which another child of this process belongs to."""
    target = (
        "import os, sys\nfrom mooring.launcher import linux\n"
        "linux.allow_watcher(os.getppid())\n"
        "os.execv(sys.executable, [sys.executable, '-c', 'print(1, flush=True); input()'])"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", target], stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        reader = f"open('/proc/{process.pid}/mem', 'rb').close()"
        done = subprocess.run([sys.executable, "-c", reader], capture_output=True, check=False)
        process.stdin.close()
    assert done.returncode == 0, done.stderr
