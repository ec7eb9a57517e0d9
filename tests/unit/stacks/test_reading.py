"""What is read, by /proc's texts and by this process itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.stacks.reading import (
    Counts,
    Reading,
    file_system,
    parse_io,
    parse_mounts,
    parse_wanted_s,
)
from mooring.stacks.sources import Sources
from mooring.stacks.tool import complaint, looks
from mooring.stacks.trainers import Process, children, loaders_of, trainers
from support.waiting import until

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:25 / /data rw shared:2 - nfs4 server:/export rw,vers=4.2
31 22 0:26 / /data/my\\040cache rw - tmpfs tmpfs rw
32 22 0:27 / /mnt/hdfs rw - fuse.hadoop-fuse hdfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/train/1.jpg", "nfs4"),
        ("/data/my cache/1.jpg", "tmpfs"),
        ("/database/x", "ext4"),
        ("/mnt/hdfs/x", "fuse.hadoop-fuse"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert file_system(path, parse_mounts(MOUNTS)) == kind


def test_counts_of_a_process() -> None:
    text = "rchar: 1000\nwchar: 5\nsyscr: 4\nsyscw: 1\nread_bytes: 512\nwrite_bytes: 0\n"
    assert parse_io(text) == Counts(1000, 4, 512)
    assert parse_io("") == Counts()


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="no /proc/PID/io")
def test_reading_of_this_process(tmp_path: Path) -> None:
    reading = Reading()
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(100_000))
    reading.look([os.getpid()], 10.0)
    with path.open("rb") as file:
        assert len(file.read()) == 100_000
        reading.look([os.getpid()], 12.0)
    told = reading.document()
    asked = told["asked_bytes"]
    assert isinstance(asked, int)
    assert asked >= 100_000
    assert (told["span_s"], told["loaders"]) == (2.0, 0)
    assert str(path) in reading.names


def test_a_process_that_is_gone_changes_nothing() -> None:
    reading = Reading()
    reading.look([2**22 + 1], 1.0)
    assert reading.document()["calls"] == 0


def test_lines_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("one\ntwo\n")
    sources = Sources(str(tmp_path))
    assert sources.line("train.py", 2) == "two"
    assert sources.line(str(tmp_path / "train.py"), 1) == "one"
    assert [sources.line("train.py", 3), sources.line("gone.py", 1)] == ["", ""]
    assert sources.line("/dev/zero", 1) == ""


PYTHON = "python3.11"
TREES: dict[str, tuple[dict[int, list[Process]], list[int]]] = {
    # launcher (0) -> python -> loaders
    "a trainer with loaders": (
        {0: [Process(1, PYTHON)], 1: [Process(2, PYTHON), Process(3, PYTHON)]},
        [1],
    ),
    "two ranks": ({0: [Process(1, PYTHON), Process(2, PYTHON)]}, [1, 2]),
    "a shell in between": ({0: [Process(1, "bash")], 1: [Process(2, PYTHON)]}, [2]),
    "torchrun": (
        {
            0: [Process(1, PYTHON, (PYTHON, "/venv/bin/torchrun", "train.py"))],
            1: [Process(2, PYTHON, (PYTHON, "train.py")), Process(3, PYTHON)],
        },
        [2, 3],
    ),
    "mpirun": (
        {0: [Process(1, "orted")], 1: [Process(2, PYTHON), Process(3, PYTHON)]},
        [2, 3],
    ),
    "no Python": ({0: [Process(1, "train")]}, []),
}


@pytest.mark.parametrize("name", TREES)
def test_who_trains(name: str) -> None:
    tree, wanted = TREES[name]
    assert trainers(tree[0], lambda pid: tree.get(pid, [])) == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Permission Denied: Try running again with elevated permissions", "may not read"),
        ("Error: Failed to find python version from target process", "no Python"),
        ("Error: something else\nReason: why", "py-spy: Reason: why"),
        ("", "without a word"),
    ],
)
def test_what_py_spy_complains_about(text: str, says: str) -> None:
    assert says in complaint(text)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loaders_are_the_pythons_below_but_for_helpers() -> None:
    waits = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    commands = (waits, [*waits, "resource_tracker"], ["sleep", "600"])
    started = [subprocess.Popen(command, stdin=subprocess.PIPE) for command in commands]
    try:
        until(lambda: {one.pid for one in started} <= {*pids()}, "three children", 10)
        found = loaders_of(os.getpid())
    finally:
        for one in started:
            one.kill()
            one.communicate()
    assert started[0].pid in found
    assert not {started[1].pid, started[2].pid} & {*found}


def pids() -> list[int]:
    """Children that already run their own program."""
    return [one.pid for one in children(os.getpid()) if one.arguments[:2] != tuple(sys.argv[:2])]


def test_how_often_py_spy_looked() -> None:
    assert looks("py-spy> Wrote chrome trace to 'x.json'. Samples: 49 Errors: 0") == 49
    assert looks("Error: no such process") is None


def test_a_thread_wants_a_cpu_while_it_runs_and_while_it_has_none() -> None:
    # Ran for 1.5 s, was ready for 0.5 s, in 7 slices.
    assert parse_wanted_s("1500000000 500000000 7\n") == 2.0
