"""What a launcher does to itself as root: networks, names, control groups."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from launching import Launchers

from support.waiting import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="needs root on Linux"),
]

CGROUP_ROOT = Path("/sys/fs/cgroup")
BUSY = "import time\nend = time.process_time() + {cpu_s}\nwhile time.process_time() < end: pass\n"


@pytest.fixture
def netns() -> Iterator[Path]:
    name = f"moor-test-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no network namespaces here: {made.stderr.decode()}")
    subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
    yield Path("/run/netns") / name
    subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.fixture
def groups() -> Iterator[dict[str, Path]]:
    """Controller -> a group of this test's own, in whichever version is mounted."""
    made: dict[str, Path] = {}
    unified = (CGROUP_ROOT / "cgroup.controllers").exists()
    name = f"moor-test-{os.getpid()}"
    try:
        for controller in ("cpu", "memory"):
            parent = CGROUP_ROOT if unified else CGROUP_ROOT / controller
            made[controller] = parent / name
            made[controller].mkdir(exist_ok=True)
    except OSError as error:
        pytest.skip(f"no control groups here: {error}")
    yield made
    for path in set(made.values()):
        for pid in (path / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        until(lambda path=path: not (path / "cgroup.procs").read_text().strip(), "an empty group")
        path.rmdir()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds no more than 16 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(folder)]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no mounts here: {made.stderr.decode()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leaves no byte free."""
    path = folder / "fill"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return path


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        pytest.skip(f"{path}: {error}")


def set_quota(group: Path, quota_us: int, period_us: int) -> None:
    if (group / "cpu.max").exists():
        write(group / "cpu.max", f"{quota_us} {period_us}")
    else:
        write(group / "cpu.cfs_period_us", str(period_us))
        write(group / "cpu.cfs_quota_us", str(quota_us))


def set_memory(group: Path, limit_bytes: int) -> None:
    unified = (group / "memory.max").exists()
    write(group / ("memory.max" if unified else "memory.limit_in_bytes"), str(limit_bytes))
    for swap in ("memory.swap.max", "memory.swappiness"):
        if (group / swap).exists():
            write(group / swap, "0")


def test_a_member_lives_in_its_network_with_its_names(
    launchers: Launchers, netns: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n127.0.0.7 job-ps-0\n")
    before = Path("/etc/hosts").read_text()
    show = (
        "import os, socket\n"
        "print(socket.gethostbyname('job-ps-0'))\n"
        "print(sorted(name for _, name in socket.if_nameindex()))\n"
    )
    started = launchers.start(
        [sys.executable, "-c", show],
        netns=str(netns),
        hosts_file=str(hosts),
        peers=[{"member": "ps-0", "host": "job-ps-0", "ports": [1]}],
        resolve_timeout_s=5,
    )
    assert started.end() == 0, (started.folder / "stderr").read_text()
    texts = [line.split(" ", 3)[3] for line in started.log()]
    assert texts[0] == "127.0.0.7"
    assert "lo" in texts[1]
    assert "eth0" not in texts[1]
    assert Path("/etc/hosts").read_text() == before


def test_the_budget_follows_the_quota_and_throttling_is_counted(
    launchers: Launchers, groups: dict[str, Path]
) -> None:
    # Little enough that it is used up on a busy machine, too.
    set_quota(groups["cpu"], 5_000, 100_000)
    started = launchers.start(
        [sys.executable, "-c", BUSY.format(cpu_s=0.1)],
        cgroup_procs=[str(groups["cpu"] / "cgroup.procs")],
    )
    assert started.end() == 0
    budget = started.first("ready")["budget"]
    assert budget["cpu_millis"] == 50
    assert budget["sources"]["quota_millis"] == 50
    assert budget["threads"] == 1
    last = started.records("sample")[-1]
    assert last["nr_throttled"] > 0
    assert last["throttled_s"] > 0


def test_going_over_the_memory_limit_is_said(launchers: Launchers, groups: dict[str, Path]) -> None:
    set_memory(groups["memory"], 64 << 20)
    eat = "blocks = []\nwhile True: blocks.append(bytearray(b'x' * (4 << 20)))\n"
    started = launchers.start(
        [sys.executable, "-c", eat],
        cgroup_procs=[str(groups["memory"] / "cgroup.procs")],
        memory_bytes=64 << 20,
    )
    assert started.end() == 137
    # What the largest process had is told where the kernel counted more than the launcher has.
    said = r"over its memory limit of 64 MiB( \(its largest process had \S+ MiB\))?"
    assert re.fullmatch(said, started.first("exit")["reason"])
    assert started.first("exit")["cause"] == "out-of-memory"
    assert started.first("exit")["memory_limit_bytes"] == 64 << 20
    assert started.first("ready")["notes"] == []


def test_a_limit_that_nothing_enforces_is_said(launchers: Launchers) -> None:
    started = launchers.start(["true"], memory_bytes=1 << 20)
    assert started.end() == 0
    assert "not enforced" in started.first("ready")["notes"][0]


def test_nothing_runs_while_the_disk_has_no_room_for_its_samples(
    launchers: Launchers, small_disk: Path, tmp_path: Path
) -> None:
    samples = small_disk / "samples.jsonl"
    samples.touch()
    fill(small_disk)
    ran = tmp_path / "ran"
    started = launchers.start(["touch", str(ran)], sample_path=str(samples))
    assert started.end() == 125
    assert started.stderr() == f"mooring: sample file {samples}: No space left on device\n"
    assert not ran.exists()


def test_a_disk_that_fills_up_before_the_gate_opens_ends_the_member(
    launchers: Launchers, small_disk: Path
) -> None:
    samples = small_disk / "samples.jsonl"
    started = launchers.start(["sleep", "60"], sample_path=str(samples), gate="stdin")
    until(lambda: samples.exists() and b'"ready"' in samples.read_bytes(), "the ready record")
    fill(small_disk)
    # What is left of the page that the ready record is in.
    with samples.open("ab", buffering=0) as file:
        file.write(b" " * (4096 - samples.stat().st_size % 4096))
    started.open_gate()
    assert started.end() == 125
    assert "No space left on device" in started.stderr()


def test_a_disk_that_fills_up_later_loses_lines_and_says_so(
    launchers: Launchers, small_disk: Path
) -> None:
    program = "for i in range(1000): print('line', i, flush=True)"
    log = small_disk / "log"
    started = launchers.start([sys.executable, "-c", program], log_path=str(log))
    assert started.end() == 0
    whole, _, _ = log.read_text().rpartition("\n")
    texts = [line.split(" ", 3)[3] for line in whole.splitlines()]
    assert texts == [f"line {i}" for i in range(len(texts))]
    assert 0 < len(texts) == 1000 - started.first("exit")["lost_log_lines"]


def test_room_that_comes_back_is_used_on_a_line_of_its_own(
    launchers: Launchers, small_disk: Path, tmp_path: Path
) -> None:
    """The disk fills up, is cleared, and the log goes on with what was lost in between."""
    flood = "for i in range(1000): print('line', i, flush=True)\nprint('::mooring:: {}')\n"
    wait = "import os, time\nwhile not os.path.exists({!r}): time.sleep(0.01)\n"
    go_on = tmp_path / "go-on"
    filled = fill(small_disk)
    filled.write_bytes(filled.read_bytes()[:8192])
    log = small_disk / "log"
    program = f"{flood}{wait.format(str(go_on))}print('after')"
    started = launchers.start([sys.executable, "-c", program], log_path=str(log))
    started.first("step")
    assert log.stat().st_size == 8192
    filled.unlink()
    go_on.touch()
    assert started.end() == 0
    lines = log.read_text().splitlines()
    lost = started.first("exit")["lost_log_lines"]
    assert lines[-1].endswith(" out 0 after")
    assert lines[-2].endswith(f" err 0 [mooring] {lost} lines lost: No space left on device")
