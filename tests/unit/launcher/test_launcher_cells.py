"""On which NUMA cells memory is: the kernel's own files, and texts of larger machines."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.launcher import cells, cgroups

MIB = 1 << 20
TWO_CELLS = """\
00400000 default file=/usr/bin/python3.11 mapped=600 mapmax=9 N0=200 N1=400 kernelpagesize_kB=4
01c4f000 default heap anon=120 dirty=120 active=100 N0=100 N1=20 kernelpagesize_kB=4
7f0000000000 prefer:1 anon=512 dirty=512 N1=512 kernelpagesize_kB=4
7f1000000000 default huge anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=2048
7f2000000000 default file=/dev/shm/torch_17 dirty=256 N0=256 kernelpagesize_kB=4
7f2800000000 default file=/memfd:loader\\040(deleted) dirty=10 N1=10 kernelpagesize_kB=4
7ffd00000000 default stack anon=5 dirty=5 N10=5 kernelpagesize_kB=4
7ffd80000000 default
"""


def test_pages_count_by_their_size_and_files_do_not() -> None:
    assert cells.parse_maps(TWO_CELLS.encode()) == {
        # 100 of the heap, 256 of /dev/shm, one huge page.
        "0": (100 + 256) * 4096 + 2 * MIB,
        # 20 of the heap, 512 preferred there, 10 of a memfd, two huge pages.
        "1": (20 + 512 + 10) * 4096 + 4 * MIB,
        "10": 5 * 4096,
    }


@pytest.mark.parametrize(
    "text",
    ["", "\n", "garbage", "7f00 default N0= kernelpagesize_kB=4", "7f00 default Nx=3 N=4", "\xff"],
)
def test_what_is_no_such_text_counts_nothing(text: str) -> None:
    assert sum(cells.parse_maps(text.encode("latin-1")).values()) == 0


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2**40), st.sampled_from([4, 2048]))))
def test_every_line_counts(lines: list[tuple[int, int, int]]) -> None:
    text = "".join(
        f"7f{at:x} default anon={pages} N{cell}={pages} kernelpagesize_kB={size}\n"
        for at, (cell, pages, size) in enumerate(lines)
    )
    assert sum(cells.parse_maps(text.encode()).values()) == sum(
        pages * size * 1024 for _, pages, size in lines
    )


@given(st.binary())
def test_no_text_breaks_it(data: bytes) -> None:
    assert all(amount >= 0 for amount in cells.parse_maps(data).values())
    cells.parse_stat(data.decode("latin-1"))


@pytest.mark.skipif(not Path("/proc/self/numa_maps").exists(), reason="no NUMA in this kernel")
def test_memory_of_a_real_process() -> None:
    """32 MiB that it shares with nobody and 8 MiB of a memory file, beside what Python needs."""
    holds = (
        "import mmap, os, sys; a = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE); f = "
        "os.memfd_create('m'); os.ftruncate(f, 8 << 20); b = mmap.mmap(f, 8 << 20)\n"
        "for m in (a, b):\n for at in range(0, len(m), 4096): m[at] = 1\n"
        "print('done', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-I", "-S", "-c", holds]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = sum(cells.of_processes([process.pid]).values())
        assert 40 * MIB <= held < 60 * MIB
    assert cells.of_processes([process.pid]) == {}


def machine(tmp_path: Path, online: str) -> str:
    path = tmp_path / "online"
    path.write_text(online + "\n")
    return str(path)


def test_the_pauses_between_looks_grow(tmp_path: Path) -> None:
    looks = cells.Cells(None, 100.0, machine(tmp_path, "0-1"))
    pids = [os.getpid()]
    times = [now_s for now_s in range(100, 400) if looks.measure(pids, 0, float(now_s)) is not None]
    # After 1 s; then 1, 2, 4, 8, 16, 32 and at most 60 s later, unless a look was dear.
    assert times[0] == 101
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert min(pauses) >= 1
    assert pauses[-1] >= 60


@pytest.mark.parametrize(
    ("online", "resident_bytes"),
    [
        # One cell: nothing can be far.
        ("0", 0),
        # Too large to walk through without anybody noticing.
        ("0-1", 17 << 30),
    ],
)
def test_where_nobody_looks(tmp_path: Path, online: str, resident_bytes: int) -> None:
    looks = cells.Cells(None, 0.0, machine(tmp_path, online))
    assert looks.measure([os.getpid()], resident_bytes, 10.0) is None


@pytest.mark.parametrize(
    ("inside", "version", "wanted"),
    [
        ([1], 2, {"0": 3 * MIB, "1": 5 * MIB}),
        # Somebody else's process is in the group; one of the member's is elsewhere; version 1.
        ([1, 2], 2, None),
        ([], 2, None),
        ([1], 1, None),
    ],
)
def test_what_a_group_of_the_member_has_counted(
    tmp_path: Path, inside: list[int], version: int, wanted: dict[str, int] | None
) -> None:
    pids = [os.getpid(), *(2**30 + one for one in inside)]
    (tmp_path / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    (tmp_path / "memory.numa_stat").write_text(
        f"anon N0={MIB} N1={5 * MIB}\nfile N0={9 * MIB} N1=0\nshmem N0={2 * MIB} N1=0\n"
    )
    group = cgroups.ControlGroup(version, str(tmp_path), str(tmp_path))
    assert cells.own_group(group, [2**30 + 1]) == wanted


def test_a_group_that_does_not_tell(tmp_path: Path) -> None:
    assert cells.own_group(cgroups.ControlGroup(2, str(tmp_path), str(tmp_path)), [1]) is None
    assert cells.own_group(None, [1]) is None
    assert cells.parse_stat("slab 3\nanon\n") is None
