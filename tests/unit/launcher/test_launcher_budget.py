"""The CPU and memory budget, from trees that look like the ones real systems show."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.launcher import budget, cgroups

V2_MOUNT = "30 23 0:26 {root} {mount} rw,nosuid - cgroup2 cgroup2 rw"
V1_MOUNT = "31 23 0:27 {root} {mount} rw,nosuid - cgroup cgroup rw,{controllers}"


class Machine:
    """A /proc and cgroup mounts below a temporary folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc = folder / "proc"
        (self.proc / "self").mkdir(parents=True)
        self._mounts: list[str] = []
        self._groups: list[str] = []

    def v2(self, own: str, root: str = "/") -> Path:
        mount = self.folder / "cgroup"
        mount.mkdir()
        self._mounts.append(V2_MOUNT.format(root=root, mount=mount))
        self._groups.append(f"0::{own}")
        return mount

    def v1(self, controllers: str, own: str, root: str = "/") -> Path:
        mount = self.folder / f"cgroup-{controllers}"
        mount.mkdir()
        self._mounts.append(V1_MOUNT.format(root=root, mount=mount, controllers=controllers))
        self._groups.append(f"{len(self._groups) + 2}:{controllers}:{own}")
        return mount

    def find(self) -> dict[str, cgroups.ControlGroup]:
        (self.proc / "self" / "mountinfo").write_text("\n".join(self._mounts) + "\n")
        (self.proc / "self" / "cgroup").write_text("\n".join(self._groups) + "\n")
        return cgroups.find(str(self.proc))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def group(path: Path, **files: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text + "\n")


def test_v2_takes_the_tightest_quota_of_the_hierarchy(machine: Machine) -> None:
    mount = machine.v2("/slice/job/member")
    group(mount / "slice", cpu__max="150000 100000", memory__max="4096")
    group(mount / "slice/job", cpu__max="max 100000", memory__max="max")
    group(mount / "slice/job/member", cpu__max="400000 100000", memory__max="8192")
    groups = machine.find()
    assert cgroups.quota_millis(groups["cpu"]) == 1500
    assert cgroups.memory_limit(groups["memory"]) == 4096


def test_v1_takes_the_tightest_quota_of_the_hierarchy(machine: Machine) -> None:
    cpu = machine.v1("cpu,cpuacct", "/kube/pod/container")
    group(cpu, cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    group(cpu / "kube/pod", cpu__cfs_quota_us="250000", cpu__cfs_period_us="100000")
    group(cpu / "kube/pod/container", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    memory = machine.v1("memory", "/kube/pod")
    group(memory, memory__limit_in_bytes="9223372036854771712")
    group(memory / "kube/pod", memory__limit_in_bytes="1073741824")
    groups = machine.find()
    assert cgroups.quota_millis(groups["cpu"]) == 2500
    assert cgroups.memory_limit(groups["memory"]) == 1 << 30


def test_without_limits_there_are_none(machine: Machine) -> None:
    mount = machine.v2("/")
    group(mount)
    cpu = machine.v1("cpu", "/")
    group(cpu, cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    groups = machine.find()
    assert cgroups.quota_millis(groups["cpu"]) is None
    assert cgroups.memory_limit(groups["memory"]) is None
    assert cgroups.cpuset(groups["cpuset"]) is None


def test_a_container_that_is_told_the_hosts_path_uses_its_part_of_it(machine: Machine) -> None:
    cpu = machine.v1("cpu", "/docker/abc/inner", root="/docker/abc")
    group(cpu, cpu__cfs_quota_us="300000", cpu__cfs_period_us="100000")
    group(cpu / "inner", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    assert cgroups.quota_millis(machine.find()["cpu"]) == 500


@pytest.mark.parametrize("own", ["/somewhere/else", "/../../other", "/docker/gone"])
def test_a_path_that_is_not_mounted_falls_back_to_the_mount(machine: Machine, own: str) -> None:
    mount = machine.v2(own, root="/docker" if own.startswith("/docker") else "/pods")
    group(mount, cpu__max="100000 100000")
    assert cgroups.quota_millis(machine.find()["cpu"]) == 1000


def test_v1_controllers_win_over_an_empty_v2_hierarchy(machine: Machine) -> None:
    """Hybrid systems mount both."""
    group(machine.v2("/"))
    cpu = machine.v1("cpu", "/")
    group(cpu, cpu__cfs_quota_us="100000", cpu__cfs_period_us="50000")
    groups = machine.find()
    assert groups["cpu"].version == 1
    assert groups["memory"].version == 2
    assert cgroups.quota_millis(groups["cpu"]) == 2000


def test_mount_points_with_blanks(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "with blank")
    group(machine.v2("/"), cpu__max="100000 100000")
    machine.find()
    info = machine.proc / "self" / "mountinfo"
    info.write_text(info.read_text().replace("with blank", "with\\040blank"))
    assert cgroups.quota_millis(cgroups.find(str(machine.proc))["cpu"]) == 1000


def test_counters(machine: Machine) -> None:
    stat = "usage_usec 9\nnr_periods 7\nnr_throttled 3\nthrottled_usec 1500000"
    mount = machine.v2("/m")
    group(mount / "m", cpu__stat=stat, memory__events="low 0\noom 2\noom_kill 1")
    groups = machine.find()
    assert cgroups.throttling(groups["cpu"]) == (1.5, 3, 7)
    assert cgroups.oom_kills(groups["memory"]) == 1


def test_throttling_is_counted_where_the_quota_is(machine: Machine) -> None:
    mount = machine.v2("/pod/main")
    group(mount / "pod", cpu__max="50000 100000", cpu__stat="nr_periods 9\nnr_throttled 4")
    group(mount / "pod" / "main", cpu__max="max 100000", cpu__stat="nr_periods 0\nnr_throttled 0")
    assert cgroups.throttling(machine.find()["cpu"]) == (0.0, 4, 9)


def test_counters_of_v1(machine: Machine) -> None:
    cpu = machine.v1("cpu", "/")
    group(cpu, cpu__stat="nr_periods 7\nnr_throttled 3\nthrottled_time 2500000000")
    memory = machine.v1("memory", "/")
    group(memory, memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 4")
    groups = machine.find()
    assert cgroups.throttling(groups["cpu"]) == (2.5, 3, 7)
    assert cgroups.oom_kills(groups["memory"]) == 4


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0", [0]), ("0-2,5\n", [0, 1, 2, 5]), ("", []), ("3,1", [3, 1])],
)
def test_lists_of_numbers(text: str, numbers: list[int]) -> None:
    assert cgroups.parse_list(text) == numbers


@pytest.mark.parametrize(
    ("affinity", "cpuset", "quota", "contract", "processes", "cpu_millis", "threads"),
    [
        (8, None, None, None, 1, 8000, 8),
        (8, "0-3", None, None, 1, 4000, 4),
        (8, "0-3", "250000 100000", None, 1, 2500, 3),  # ceil(2.5)
        (8, "0-3", "250000 100000", 1000, 1, 1000, 1),
        (8, None, None, 500, 1, 500, 1),  # never below one
        (8, None, None, None, 3, 8000, 2),  # floor(8 / 3): nine threads would be too many
        (2, None, None, None, 4, 2000, 1),
        (80, None, "200000 100000", None, 1, 2000, 2),  # a container on a big host
    ],
)
def test_the_tightest_bound_gives_the_threads(
    machine: Machine,
    affinity: int,
    cpuset: str | None,
    quota: str | None,
    contract: int | None,
    processes: int,
    cpu_millis: int,
    threads: int,
) -> None:
    files = {"cpuset__cpus__effective": cpuset, "cpu__max": quota}
    group(machine.v2("/m") / "m", **{name: text for name, text in files.items() if text})
    held = budget.read(
        machine.find(), contract, None, None, processes, affinity=list(range(affinity))
    )
    assert (held.cpu_millis, held.threads) == (cpu_millis, threads)
    assert held.sources["affinity"] == affinity
    assert ("cpuset" in held.sources) == (cpuset is not None)
    assert ("quota_millis" in held.sources) == (quota is not None)


@pytest.mark.parametrize(
    ("share_threads", "sharers", "threads", "source"),
    [
        (None, 1, 8, "budget"),
        (3, 1, 3, "share"),
        # More than the CPUs that it really got.
        (16, 1, 8, "budget"),
        # 8 / 3: two each are six on eight CPUs, three each would be nine.
        (None, 3, 2, "share"),
        (None, 20, 1, "share"),
    ],
)
def test_who_shares_cpus_has_a_part_of_the_threads(
    share_threads: int | None, sharers: int, threads: int, source: str
) -> None:
    held = budget.read(
        {},
        None,
        None,
        None,
        1,
        affinity=list(range(8)),
        share_threads=share_threads,
        sharers=sharers,
    )
    assert (held.threads, held.sources["threads"]) == (threads, source)
    assert held.cpu_millis == 8000


def test_a_number_of_threads_in_the_contract_is_taken_as_it_is(machine: Machine) -> None:
    held = budget.read({}, None, None, 6, 4, affinity=[0, 1])
    assert held.threads == 6
    assert held.sources["threads"] == "contract"


def test_the_memory_budget_is_the_tighter_limit(machine: Machine) -> None:
    group(machine.v2("/m") / "m", memory__max="1000")
    groups = machine.find()
    for asked, expected in ((None, 1000), (500, 500), (2000, 1000)):
        held = budget.read(groups, None, asked, None, 1, affinity=[0])
        assert held.memory_bytes == expected


@pytest.mark.parametrize("threads", [1, 2, 16])
def test_inter_op_threads_never_fall_to_where_servers_hang(threads: int) -> None:
    env = budget.thread_env(threads)
    assert int(env["TF_NUM_INTEROP_THREADS"]) >= max(2, threads)
    assert env["OMP_NUM_THREADS"] == env["TF_NUM_INTRAOP_THREADS"] == str(threads)
