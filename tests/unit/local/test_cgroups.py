"""Control groups of both versions, against folders laid out as the kernel does."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.backends.local import cgroups
from mooring.backends.local.cgroups import Hierarchy, Limits, RunGroups

pytestmark = pytest.mark.skipif(
    __import__("os").geteuid() != 0, reason="only root may make control groups"
)


def v1(tmp_path: Path) -> tuple[Path, Path]:
    """A mount table and /proc/self/cgroup of version 1; our own group is below memory."""
    mounts, own = tmp_path / "mounts", tmp_path / "self"
    lines, ours = [], []
    for number, controller in enumerate(("cpuset", "cpu", "memory", "freezer")):
        root = tmp_path / controller
        (root / "box").mkdir(parents=True)
        for folder in (root, root / "box"):
            (folder / "cpuset.cpus").write_text("0-3\n")
            (folder / "cpuset.mems").write_text("0\n")
        lines.append(f"cgroup {root} cgroup rw,{controller} 0 0")
        ours.append(f"{number}:{controller}:{'/box' if controller == 'memory' else '/'}")
    mounts.write_text("\n".join(lines))
    own.write_text("\n".join(ours))
    return mounts, own


def test_version_1_is_found_below_our_own_group(tmp_path: Path) -> None:
    found = cgroups.find_hierarchy(*v1(tmp_path))
    assert found is not None
    assert found.version == 1
    assert found.roots["memory"] == tmp_path / "memory" / "box"
    assert found.roots["cpuset"] == tmp_path / "cpuset"


def test_version_2_is_preferred_when_it_has_the_controllers(tmp_path: Path) -> None:
    mounts, own = tmp_path / "mounts", tmp_path / "self"
    mounts.write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0")
    own.write_text("0::/user.slice")
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    assert cgroups.find_hierarchy(mounts, own) == Hierarchy(2, {"": tmp_path})
    (tmp_path / "cgroup.controllers").write_text("")
    assert cgroups.find_hierarchy(mounts, own) is None


def test_version_1_limits(tmp_path: Path) -> None:
    hierarchy = cgroups.find_hierarchy(*v1(tmp_path))
    assert hierarchy is not None
    groups = RunGroups(hierarchy, "abc123")
    joins = groups.make("ps-0", Limits("1-2", "0", 500, 1 << 30))
    groups.make("worker-0", Limits("3", None, None, None))
    top = "mooring-abc123"
    assert (tmp_path / "cpuset" / top / "ps-0" / "cpuset.cpus").read_text() == "1-2"
    # Half a CPU that was asked for: 8 * 1024 / 2. The run: 4096 + 1024 for the other member.
    assert (tmp_path / "cpu" / top / "ps-0" / "cpu.shares").read_text() == "4096"
    assert (tmp_path / "cpu" / top / "cpu.shares").read_text() == "5120"
    limit = tmp_path / "memory" / "box" / top / "ps-0" / "memory.limit_in_bytes"
    assert limit.read_text() == str(1 << 30)
    assert all(join.endswith(f"{top}/ps-0/cgroup.procs") for join in joins)
    assert len(joins) == 4


def test_version_2_limits(tmp_path: Path) -> None:
    groups = RunGroups(Hierarchy(2, {"": tmp_path}), "abc123")
    [join] = groups.make("ps-0", Limits("0", "0", 1000, 1 << 20))
    group = tmp_path / "mooring-abc123" / "ps-0"
    assert join == str(group / "cgroup.procs")
    assert (group / "cpuset.cpus").read_text() == "0"
    assert (group / "memory.max").read_text() == str(1 << 20)
    # Eight times the 100 of a group that nobody has weighed; so weighs the run with it alone.
    assert (group / "cpu.weight").read_text() == "800"
    assert (group.parent / "cpu.weight").read_text() == "800"
    for folder in (tmp_path, tmp_path / "mooring-abc123"):
        assert "+cpuset" in (folder / "cgroup.subtree_control").read_text()
    groups.move("ps-0", "2-3")
    assert (group / "cpuset.cpus").read_text() == "2-3"


def test_version_2_weighs_a_run_that_asks_for_nothing_as_any_group(tmp_path: Path) -> None:
    groups = RunGroups(Hierarchy(2, {"": tmp_path}), "abc123")
    for member in ("worker-0", "worker-1"):
        groups.make(member, Limits(None, None, None, None))
    assert (tmp_path / "mooring-abc123" / "cpu.weight").read_text() == "100"
    assert not (tmp_path / "mooring-abc123" / "worker-0" / "cpu.weight").exists()


def test_version_1_schedules_members_that_ask_for_nothing_together(tmp_path: Path) -> None:
    hierarchy = cgroups.find_hierarchy(*v1(tmp_path))
    assert hierarchy is not None
    groups = RunGroups(hierarchy, "abc123")
    joins = groups.make("worker-0", Limits(None, None, None, None))
    top = tmp_path / "cpu" / "mooring-abc123"
    assert str(top / "cgroup.procs") in joins
    assert not (top / "worker-0").exists()
    # One that asks, in the same run, is weighed by itself.
    joins = groups.make("worker-1", Limits(None, None, 1000, None))
    assert str(top / "worker-1" / "cgroup.procs") in joins
    assert (top / "cpu.shares").read_text() == str(1024 + 8192)


def test_version_2_weighs_members_only_if_one_asks_for_cpus(tmp_path: Path) -> None:
    for token, asked in (("aaaaaa", [0, 0]), ("bbbbbb", [0, 500])):
        groups = RunGroups(Hierarchy(2, {"": tmp_path}), token)
        groups.expect(asked)
        for member, cpu_millis in enumerate(asked):
            groups.make(f"worker-{member}", Limits(None, None, cpu_millis or None, None))
        given = (tmp_path / f"mooring-{token}" / "cgroup.subtree_control").read_text()
        assert ("+cpu " in given + " ") is any(asked)
        assert "+memory" in given
        assert (tmp_path / f"mooring-{token}" / "cpu.weight").exists()


def test_weights_stay_within_what_the_kernel_accepts(tmp_path: Path) -> None:
    groups = RunGroups(Hierarchy(2, {"": tmp_path}), "abc123")
    groups.make("worker-0", Limits(None, None, 64_000, None))
    assert (tmp_path / "mooring-abc123" / "worker-0" / "cpu.weight").read_text() == "10000"
    assert (tmp_path / "mooring-abc123" / "cpu.weight").read_text() == "10000"
