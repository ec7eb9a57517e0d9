"""`moor doctor --node` in places that are made: small shared memory, a quota, a memory limit, other
clocks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from disguise import other_clocks, root_only

from mooring.backends.local import cgroups, owners
from support.moor import Moor

pytestmark = [pytest.mark.slow, root_only]
groups_only = pytest.mark.skipif(cgroups.find_hierarchy() is None, reason="no control groups here")

MIB = 1 << 20
PERIOD_US = 100_000
NO_LIMITS = cgroups.Limits(None, None, None, None)
_HOLD = """
import sys
held = bytearray(int(sys.argv[1]))
for at in range(0, len(held), 4096): held[at] = 1
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def look(
    moor: Moor, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Finding -> what it says."""
    answer = subprocess.run(
        [*prefix, sys.executable, "-m", "mooring", "doctor", "--node", "--json"],
        env={**moor.env, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return {one["id"]: one["says"] for one in json.loads(answer.stdout)["findings"]}


@contextmanager
def group(limits: cgroups.Limits, quota_us: int | None = None) -> Iterator[list[str]]:
    """What to put before a command for it to run in a control group of its own."""
    hierarchy = cgroups.find_hierarchy()
    assert hierarchy is not None
    token = f"look{os.getpid()}"
    groups = cgroups.RunGroups(hierarchy, token)
    # Another test may call `moor clean` meanwhile.
    owners.claim(token)
    try:
        joins = groups.make("place", limits)
        if quota_us is not None:
            _set_quota([Path(file).parent for file in joins], quota_us)
        join = "; ".join(f"echo $$ > {file}" for file in joins)
        yield ["sh", "-c", f'{join}; exec "$@"', "sh"]
    finally:
        groups.close()
        owners.release(token)


def _set_quota(folders: Sequence[Path], quota_us: int) -> None:
    for folder in folders:
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
        elif (folder / "cpu.cfs_quota_us").exists():
            (folder / "cpu.cfs_quota_us").write_text(str(quota_us))


@pytest.mark.parametrize(("size", "found"), [("32m", True), ("1g", False)])
def test_shared_memory_of_a_container(moor: Moor, size: str, found: bool) -> None:
    mount = f'mount -t tmpfs -o size={size} t /dev/shm && exec "$@"'
    assert ("node-shm" in look(moor, ["unshare", "-m", "sh", "-c", mount, "sh"])) is found


@groups_only
def test_a_quota_of_one_cpu_on_several(moor: Moor) -> None:
    """As an engine gives it: the time of one CPU, on all of them."""
    with group(NO_LIMITS, PERIOD_US) as prefix:
        found = look(moor, prefix, {"OMP_NUM_THREADS": "1"})
    assert "1 CPUs of time on" in found["node-not-pinned"]
    assert "node-threads" not in found


@groups_only
def test_a_quota_of_one_cpu_with_a_cpu_of_its_own(moor: Moor) -> None:
    cpu = str(min(os.sched_getaffinity(0)))
    with group(cgroups.Limits(cpu, None, None, None), PERIOD_US) as prefix:
        found = look(moor, prefix, {"OMP_NUM_THREADS": "1"})
    assert not {"node-not-pinned", "node-threads"} & set(found)


@pytest.mark.parametrize(("threads", "found"), [("80", True), ("1", False)])
def test_thread_counts_in_the_environment(moor: Moor, threads: str, found: bool) -> None:
    says = look(moor, env={"OMP_NUM_THREADS": threads}).get("node-threads", "")
    assert says.startswith("OMP_NUM_THREADS is 80") is found


@groups_only
def test_half_a_cpu_is_less_than_libraries_see(moor: Moor) -> None:
    with group(NO_LIMITS, PERIOD_US // 2) as prefix:
        found = look(moor, prefix)
    assert "where 0.5 can be used" in found["node-threads"]


@groups_only
@pytest.mark.parametrize(("held", "found"), [(890 * MIB, True), (300 * MIB, False)])
def test_memory_against_the_limit_of_the_place(moor: Moor, held: int, found: bool) -> None:
    """1,000 MiB for a program that holds most of it and the doctor that looks."""
    with group(cgroups.Limits(None, None, None, 1000 * MIB)) as prefix:
        holds = [*prefix, sys.executable, "-I", "-S", "-c", _HOLD, str(held)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(holds, **pipes) as process:  # type: ignore[call-overload]
            process.stdout.readline()
            says = look(moor, prefix)
    assert ("node-memory" in says) is found


@pytest.mark.parametrize(("governor", "found"), [("powersave", True), ("performance", False)])
def test_clocks_that_are_held_down(moor: Moor, tmp_path: Path, governor: str, found: bool) -> None:
    says = look(moor, other_clocks(tmp_path, governor, 1200, 3000))
    assert ("node-clock" in says) is found
