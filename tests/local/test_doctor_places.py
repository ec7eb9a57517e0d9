"""Where things sit: causes injected into real runs on a machine that shows two NUMA cells.

One cell is all that most machines have, so /sys tells of two; processes, affinities and
/proc/PID/numa_maps are the real ones. All real memory is on cell 0, so a member that computes on
CPU 0 is near it and one that computes on CPU 1 is far away.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from disguise import root_only, two_cells, without_groups

from mooring.backends.local import netns
from mooring.doctor import Diagnosis, diagnose_run
from mooring.doctor.read_run import read_run
from support.moor import Moor, write_job

pytestmark = [pytest.mark.slow, root_only]

COMPUTE = Path(__file__).parents[2] / "benchmarks" / "jobs" / "compute.py"
#: What the library in place of NVML says of its first card.
CARD = "0000:3b:00.0"
#: A network of its own, joined by one cable to another one in which somebody takes what is sent.
MAC, PORT = "02:00:00:00:00:01", 7777
SINK = f"""
import socket
with socket.create_server(("10.77.0.2", {PORT})) as server:
    taker, _ = server.accept()
    while taker.recv(1 << 20): pass
"""
CABLE = f"""
set -e
unshare -n sleep 120 & far=$!
trap 'kill $far $sink 2>/dev/null || true' EXIT
while [ "$(readlink /proc/$far/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link set lo up
ip link add card address {MAC} type veth peer name end netns $far
ip addr add 10.77.0.1/24 dev card && ip link set card up
nsenter -t $far -n sh -c 'ip addr add 10.77.0.2/24 dev end && ip link set end up'
nsenter -t $far -n "$PYTHON" -I -S -c '{SINK}' & sink=$!
"$@"
"""
SEND = f"""
import os, socket, time
end = time.monotonic() + 4.5
os.sched_setaffinity(0, {{0}})
while True:
    try:
        to = socket.create_connection(("10.77.0.2", {PORT}))
        break
    except OSError:
        time.sleep(0.1)
while time.monotonic() < end:
    for _ in range(8): to.sendall(bytes(1 << 20))
    os.write(1, b'::mooring:: {{"examples": 8}}\\n')
"""


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def run(
    moor: Moor,
    prefix: Sequence[str],
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    **spec: object,
) -> Diagnosis:
    program = [] if "-c" in arguments else [str(COMPUTE), "--seconds", "4"]
    command = [sys.executable, "-S", *program, *arguments]
    fields = {"framework": "indexed", "roles": {"worker": {}}, "command": command, **spec}
    job = write_job(moor.home.parent, **fields)
    answer = subprocess.run(
        [*prefix, sys.executable, "-m", "mooring", "run", str(job)],
        env={**moor.env, **(env or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return diagnose_run(read_run(moor.only_run()))


def ids(found: Diagnosis) -> list[str]:
    """Without what other programs do on the machine meanwhile: that is none of a test's."""
    return [finding.id for finding in found.findings if finding.id != "machine-busy"]


def answered(found: Diagnosis) -> set[str]:
    return {one.id for one in found.checked if not one.unknown}


@pytest.mark.parametrize(("cpu", "wanted"), [("0", []), ("1", ["mem-remote"])])
def test_memory_near_and_far(moor: Moor, cpu: str, wanted: list[str]) -> None:
    found = run(moor, two_cells(), ["--seconds", "6", "--memory", "120", "--on", cpu])
    assert ids(found) == wanted
    assert "mem-remote" in answered(found)


@pytest.mark.parametrize(
    ("arguments", "wanted"), [(["--hop"], ["cpu-wandering"]), (["--on", "0"], [])]
)
def test_a_member_that_wanders(moor: Moor, arguments: list[str], wanted: list[str]) -> None:
    # What it computes, also where others wait with it, is less than a cell has.
    calm = ["--work", "0.005", "--pause", "0.05"]
    found = run(moor, two_cells(), [*calm, *arguments], threads=1)
    assert ids(found) == wanted
    assert "cpu-wandering" in answered(found)


@pytest.mark.parametrize(("cell", "wanted"), [(0, []), (1, ["gpu-far"])])
def test_a_card_near_and_far(moor: Moor, nvml: Path, cell: int, wanted: list[str]) -> None:
    prefix = two_cells({CARD: cell})
    found = run(moor, prefix, ["--on", "0"], {"LD_LIBRARY_PATH": str(nvml)})
    assert ids(found) == wanted
    assert "gpu-far" in answered(found)


@pytest.mark.parametrize(("arguments", "wanted"), [(["--widen"], ["cpu-not-pinned"]), ([], [])])
def test_a_program_that_leaves_the_cpus_that_it_was_given(
    moor: Moor, arguments: list[str], wanted: list[str]
) -> None:
    """Without a control group nothing but its affinity holds it."""
    spec = {"pinning": "exclusive", "roles": {"worker": {"resources": {"cpu": 1}}}}
    found = run(moor, without_groups(), arguments, **spec)
    # Others may use the machine while it is tested, also on a CPU that is the member's own.
    assert [one for one in ids(found) if one != "cpu-neighbour"] == wanted
    assert "cpu-not-pinned" in answered(found)


@pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not()))
@pytest.mark.parametrize(("cell", "found"), [(0, False), (1, True)])
def test_a_network_card_near_and_far(moor: Moor, cell: int, found: bool) -> None:
    """The member computes on cell 0."""
    network = ["unshare", "-n", "sh", "-c", CABLE, "sh"]
    prefix = [*network, *two_cells(nic=f"card={MAC}={cell}")]
    told = run(moor, prefix, ["-c", SEND], {"PYTHON": sys.executable})
    assert ("nic-far" in ids(told)) is found
    assert "nic-far" in answered(told)
