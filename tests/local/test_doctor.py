"""Causes injected into real runs: the doctor names each, and is silent where nothing is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.backends.local import cgroups, netns
from mooring.doctor import Diagnosis, diagnose_run
from mooring.doctor.finding import Finding, Found
from mooring.doctor.read_run import read_run
from mooring.record.plan_file import read_holdings
from support.moor import Moor, write_job
from support.waiting import until

virtual_only = pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not()))
groups_only = pytest.mark.skipif(cgroups.find_hierarchy() is None, reason="no control groups here")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

TRAFFIC = Path(__file__).parents[2] / "benchmarks" / "jobs" / "traffic.py"
PYTHON = [sys.executable, "-S"]
#: Reports a step ten times a second for as long as a diagnosis needs, and does `body` in each.
STEPS = """
import os, threading, time
def report():
    os.write(1, b'::mooring:: {"examples": 64}\\n')
end = time.monotonic() + 4.5
%s
while time.monotonic() < end:
%s
    report()
"""


SERVERS = {"framework": "tensorflow", "roles": {"ps": {"replicas": 2}, "worker": {"replicas": 2}}}
BUSY = "mark = time.process_time() + 0.02\nwhile time.process_time() < mark: pass"


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def steps(each: str, before: str = "") -> list[str]:
    body = "\n".join(f"    {line}" for line in each.splitlines())
    return [*PYTHON, "-c", STEPS % (before, body)]


def traffic(*arguments: str) -> list[str]:
    return [*PYTHON, str(TRAFFIC), *arguments]


def diagnosis(moor: Moor) -> Diagnosis:
    return diagnose_run(read_run(moor.only_run()))


def ids(found: Diagnosis) -> list[str]:
    """Without what other programs do on the machine meanwhile: that is none of a test's."""
    return [finding.id for finding in _of_the_job(found)]


def first(found: Diagnosis) -> Found:
    return _of_the_job(found)[0].found


def _of_the_job(found: Diagnosis) -> list[Finding]:
    return [finding for finding in found.findings if finding.id != "machine-busy"]


def run(moor: Moor, job: Path, *more: str) -> Diagnosis:
    answer = moor("run", job, *more)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return diagnosis(moor)


def test_a_healthy_gang_of_servers_and_workers(moor: Moor, tmp_path: Path) -> None:
    job = write_job(tmp_path, command=traffic("--bytes", "100000"), **SERVERS)
    found = run(moor, job)
    assert ids(found) == []
    unknown = {one.id for one in found.checked if one.unknown}
    assert "ps-hot" not in unknown


def test_threads_set_by_hand_and_the_fix_in_the_file(moor: Moor, tmp_path: Path) -> None:
    """Eighty threads that all compute, because a variable says so."""
    pool = (
        "import hashlib\n"
        "def work():\n"
        "    while True: hashlib.sha256(bytes(1 << 20))\n"
        "for _ in range(int(os.environ['OMP_NUM_THREADS'])):\n"
        "    threading.Thread(target=work, daemon=True).start()\n"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps("time.sleep(0.1)", pool),
        env={"OMP_NUM_THREADS": "80"},
        roles={"worker": {}},
    )
    job.write_text(job.read_text().replace("env:", "# by hand\n  env:"))
    found = run(moor, job)
    # So many threads of Python also wait for its lock.
    assert ids(found)[0] == "cpu-threads"
    runnable = next(
        figure.value for figure in first(found).evidence if figure.what == "ready threads"
    )
    assert isinstance(runnable, float)
    assert runnable > 10
    answer = moor("doctor", "last", "--fix", "--html", tmp_path / "page.html")
    assert answer.returncode == 0, answer.stderr
    assert "cpu-threads" in (tmp_path / "page.html").read_text()
    assert "env: {}" in job.read_text()
    assert "# by hand" in job.read_text()
    assert moor("validate", job).returncode == 0


@groups_only
def test_a_quota(moor: Moor, tmp_path: Path) -> None:
    """A twentieth of a CPU for a member that would use a whole one."""
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps(BUSY),
        roles={"worker": {"resources": {"cpu": 1}}},
    )
    with moor.started("run", job) as process:
        until(moor.runs, "a run", 30)
        token = moor.only_run().info.token
        group = until(lambda: cgroups.left_tokens().get(token), "its control groups", 30)
        until(lambda: _set_quota(group, 5_000), "a quota", 30)
        assert process.wait(60) == 0
    found = diagnosis(moor)
    assert ids(found)[:1] == ["cpu-throttled"]


def _set_quota(groups: list[Path], quota_us: int) -> bool:
    for group in groups:
        for path in group.rglob("cpu.cfs_quota_us"):
            if path.parent != group:
                path.write_text(str(quota_us))
                return True
        for path in group.rglob("cpu.max"):
            if path.parent != group:
                path.write_text(f"{quota_us} 100000")
                return True
    return False


def test_one_server_with_most_of_the_bytes(moor: Moor, tmp_path: Path) -> None:
    job = write_job(tmp_path, command=traffic("--bytes", "300000,30000"), **SERVERS)
    found = run(moor, job)
    assert ids(found) == ["ps-hot"]
    assert first(found).members == ("ps-0",)


def test_servers_that_serve_nothing(moor: Moor, tmp_path: Path) -> None:
    roles = {"ps": {"replicas": 4}, "worker": {"replicas": 2}}
    command = traffic("--bytes", "100000,0,100000,0")
    found = run(moor, write_job(tmp_path, framework="tensorflow", command=command, roles=roles))
    assert ids(found) == ["ps-idle"]
    assert first(found).members == ("ps-1", "ps-3")


def test_a_server_without_a_cpu_left(moor: Moor, tmp_path: Path) -> None:
    command = traffic("--bytes", "20000", "--spin", "0.02", "--narrow", "--pause", "0")
    roles = {"ps": {}, "worker": {"replicas": 2}}
    job = write_job(tmp_path, framework="tensorflow", command=command, roles=roles)
    assert ids(run(moor, job)) == ["ps-cpu"]


@virtual_only
def test_a_full_card_and_what_more_workers_would_gain(moor: Moor, tmp_path: Path) -> None:
    roles = {"ps": {"nodeName": "node-0"}, "worker": {"replicas": 2, "nodeName": "node-1"}}
    command = traffic("--bytes", "500000", "--pause", "0")
    job = write_job(tmp_path, framework="tensorflow", command=command, roles=roles)
    assert ids(run(moor, job, "--nodes", "2", "--nic-mbps", "20")) == ["ps-nic", "ps-scaling"]


@virtual_only
def test_two_servers_behind_one_card(moor: Moor, tmp_path: Path) -> None:
    roles = {
        "ps": {"replicas": 2, "nodeName": "node-0"},
        "worker": {"replicas": 2, "nodeName": "node-1"},
    }
    command = traffic("--bytes", "250000", "--pause", "0")
    job = write_job(tmp_path, framework="tensorflow", command=command, roles=roles)
    found = run(moor, job, "--nodes", "3", "--nic-mbps", "20")
    assert ids(found)[0] == "ps-one-nic"
    assert first(found).members == ("ps-0", "ps-1")


@virtual_only
def test_cards_with_room(moor: Moor, tmp_path: Path) -> None:
    job = write_job(tmp_path, command=traffic("--bytes", "2000"), **SERVERS)
    found = run(moor, job, "--nodes", "2", "--nic-mbps", "100")
    assert ids(found) == []
    answered = {one.id for one in found.checked if not one.unknown}
    assert {"ps-nic", "ps-one-nic", "ps-scaling"} <= answered


def test_a_worker_that_is_slower(moor: Moor, tmp_path: Path) -> None:
    command = traffic("--bytes", "10000", "--pause", "0.03", "--slow", "1")
    found = run(moor, write_job(tmp_path, command=command, **SERVERS))
    assert ids(found) == ["straggler"]
    assert first(found).members == ("worker-1",)
    assert "costs more CPU time" in first(found).says


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_members_that_bind_themselves_to_the_same_cpu(moor: Moor, tmp_path: Path) -> None:
    bind = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps(BUSY, bind),
        roles={"worker": {"replicas": 2}},
    )
    found = run(moor, job)
    assert ids(found) == ["cpu-overlap"]
    assert first(found).members == ("worker-0", "worker-1")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_a_neighbour_on_exclusive_cpus(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps(BUSY),
        pinning="exclusive",
        roles={"worker": {"resources": {"cpu": 1}}},
    )
    burners: list[subprocess.Popen[bytes]] = []
    with moor.started("run", job) as process:
        try:
            until(lambda: moor.runs() and moor.only_run().plan_file.exists(), "a plan", 30)
            [cpu] = read_holdings(moor.only_run().plan_file)[0].slot.cpus
            burn = f"import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass"
            # Together three times as heavy as a CPU that was asked for. In a session of its own
            # each: Linux weighs all processes of one session as one.
            burners += [
                subprocess.Popen([*PYTHON, "-c", burn], start_new_session=True) for _ in range(24)
            ]
            assert process.wait(60) == 0
        finally:
            for burner in burners:
                burner.kill()
                burner.wait()
    assert ids(diagnosis(moor))[:1] == ["cpu-neighbour"]


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")
def test_more_work_than_cpus_of_its_own(moor: Moor, tmp_path: Path) -> None:
    """A loader process beside the trainer, both computing without end, on one CPU."""
    fork = "if os.fork() == 0:\n    while time.monotonic() < end: pass\n    os._exit(0)"
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps(BUSY, fork),
        pinning="exclusive",
        roles={"worker": {"resources": {"cpu": 1}}},
    )
    assert "cpu-starved" in ids(run(moor, job))


def test_cpus_that_nobody_uses(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps("time.sleep(0.1)"),
        roles={"worker": {"resources": {"cpu": 2}}},
    )
    found = run(moor, job)
    assert ids(found) == ["cpu-idle"]
    assert moor("doctor", "last", "--fix").returncode == 0
    assert "cpu: 1" in job.read_text()


@groups_only
def test_memory_close_to_its_limit(moor: Moor, tmp_path: Path) -> None:
    fill = (
        "blocks = []\n"
        "def used(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "while used() < 0.93 * (64 << 20): blocks.append(bytearray(b'x' * (1 << 20)))"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps("time.sleep(0.1)", fill),
        roles={"worker": {"resources": {"memory": "64Mi"}}},
    )
    assert ids(run(moor, job)) == ["mem-limit"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small /dev/shm")
def test_shared_memory_that_is_full(moor: Moor, tmp_path: Path) -> None:
    fill = "open('/dev/shm/batch', 'wb').write(bytes(15 << 19))"
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps("time.sleep(0.1)", fill),
        roles={"worker": {}},
    )
    mount = 'mount -t tmpfs -o size=8m tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-m", "mooring"]
    answer = subprocess.run(
        [*command, "run", str(job)], env=moor.env, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert ids(diagnosis(moor)) == ["shm-full"]


def test_this_machine_as_json(moor: Moor) -> None:
    answer = moor("doctor", "--node", "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["of"] == os.uname().nodename
    assert document["checked"]


@pytest.mark.parametrize("arguments", [(), ("nothing-like-it",), ("x", "--node")])
def test_bad_input_is_said(moor: Moor, arguments: tuple[str, ...]) -> None:
    answer = moor("doctor", *arguments)
    assert answer.returncode == 2
    assert "moor" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_two_runs_side_by_side(moor: Moor, tmp_path: Path) -> None:
    """The same job with a pause that is four times as long."""
    for name, pause in (("quick", 0.05), ("slow", 0.2)):
        command = steps(f"time.sleep({pause})")
        job = write_job(
            tmp_path, name=name, framework="indexed", command=command, roles={"worker": {}}
        )
        assert moor("run", job).returncode == 0
    answer = moor("compare", "quick", "slow", "-o", "json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    rows = {row["name"]: row for family in document["families"] for row in family["measures"]}
    assert rows["examples/s"]["ratio"] < 0.5
    assert "spec.command" in {one["what"] for one in document["differences"]}
    assert moor("compare", "quick", "slow").returncode == 0


def test_two_runs_without_steps_side_by_side(moor: Moor, tmp_path: Path) -> None:
    """Of what reports nothing there are time and CPU time; what only one job sets is named."""
    spin = "import time; end = time.process_time() + SECONDS\nwhile time.process_time() < end: pass"
    for name, seconds, more in (("little", "0.2", {}), ("much", "1.2", {"env": {"A": "1"}})):
        command = [*PYTHON, "-c", spin.replace("SECONDS", seconds)]
        job = write_job(
            tmp_path, name=name, framework="indexed", command=command, roles={"worker": {}}, **more
        )
        assert moor("run", job).returncode == 0
    document = json.loads(moor("compare", "little", "much", "-o", "json").stdout)
    rows = {row["name"]: row for family in document["families"] for row in family["measures"]}
    assert rows["CPU time in all"]["ratio"] > 2
    assert rows["duration in all"]["ratio"] > 1
    assert {"what": "spec.env.A", "a": "not set", "b": "1"} in document["differences"]


def test_a_run_that_is_probed_fixed_and_measured(moor: Moor, tmp_path: Path) -> None:
    """Each step costs as many pauses as threads were told: fewer threads, faster steps."""
    step = "time.sleep(0.002 * int(os.environ['OMP_NUM_THREADS']))"
    command = steps(step)
    command[-1] = command[-1].replace("+ 4.5", "+ 8")
    job = write_job(
        tmp_path, framework="indexed", command=command, threads=80, roles={"worker": {}}
    )
    before = job.read_text()
    answer = moor("run", job, "--fix", "--probe", "4")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "cpu-threads" in answer.stdout
    assert "3 pairs of probes compare the job before and after: about" in answer.stdout
    assert "the speed (" in answer.stdout
    assert "+  threads: auto" in answer.stdout or "-  threads: 80" in answer.stdout
    assert job.read_text() == before
    report = moor.report()
    assert report["before"]["remedies"] == ["cpu-threads"]
    assert report["phase"] == "Succeeded"
    # 80 pauses of 2 ms a step against as many as there are CPUs.
    pairs = report["before"]["speeds"]["pairs"]
    assert len(pairs) == 3
    assert all(after > 3 * before for before, after in pairs)
    # The first probe is one of the six; the run is the seventh.
    assert len(moor.runs()) == 7
    probe = moor.report(report["before"]["probe"])
    assert (probe["phase"], probe["reason"]) == ("Stopped", "the probe has seen enough")


def test_a_remedy_that_makes_it_slower_is_not_kept(moor: Moor, tmp_path: Path) -> None:
    """The more threads, the faster: what the finding believes is wrong of this program."""
    command = steps("time.sleep(0.5 / int(os.environ['OMP_NUM_THREADS']))")
    job = write_job(
        tmp_path, framework="indexed", command=command, threads=80, roles={"worker": {}}
    )
    answer = moor("run", job, "--fix", "--probe", "3")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "the changed job is slower (" in answer.stdout
    assert "it runs as it was" in answer.stdout
    assert moor.report()["before"] is None
    assert (
        "threads: 80" in max(moor.runs(), key=lambda run: run.info.created_s).job_file.read_text()
    )


def test_without_a_remedy_no_gain_is_stated(moor: Moor, tmp_path: Path) -> None:
    """The run after the probe is the same job: whatever its speed is, nothing was gained."""
    command = steps("time.sleep(0.02)")
    job = write_job(tmp_path, framework="indexed", command=command, roles={"worker": {}})
    answer = moor("run", job, "--fix", "--probe", "3")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "no remedy that the job can carry: it runs as it is" in answer.stdout
    assert "×" not in answer.stdout
    assert moor.report()["before"] is None
    assert len(moor.runs()) == 2


def test_a_remedy_that_has_no_place_is_left_out(moor: Moor, tmp_path: Path) -> None:
    """Twice as many processes as CPUs of its own, which are all that there are."""
    cpus = len(os.sched_getaffinity(0))
    spin = "if os.fork() == 0:\n    while time.monotonic() < end: pass\n    os._exit(0)"
    command = steps(BUSY, "\n".join([spin] * (2 * cpus - 1)))
    command[-1] = command[-1].replace("+ 4.5", "+ 7")
    job = write_job(
        tmp_path,
        framework="indexed",
        command=command,
        pinning="exclusive",
        roles={"worker": {"resources": {"cpu": cpus}}},
    )
    answer = moor("run", job, "--fix", "--probe", "3")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "it runs as it was" in answer.stdout
    assert moor.report()["before"] is None


def test_a_job_that_ends_within_its_probe_is_left_alone(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path, framework="indexed", command=[*PYTHON, "-c", "print(1)"], roles={"worker": {}}
    )
    answer = moor("run", job, "--fix")
    assert answer.returncode == 0
    assert "ended within the probe" in answer.stdout
    assert len(moor.runs()) == 1


@pytest.mark.parametrize(
    ("answers", "processes", "wanted"),
    [
        ({}, 1, []),
        ({"STUB_NVML_BUSY": "12"}, 1, ["gpu-idle"]),
        ({"STUB_NVML_INIT": "999"}, 1, ["gpu-lost"]),
        ({"STUB_NVML_PROCESSES": "2"}, 2, ["gpu-shared"]),
        # 23 of 24 GiB, alone and with a stranger's process on the card.
        ({"STUB_NVML_USED_GIB": "23"}, 1, ["gpu-reserved"]),
        ({"STUB_NVML_USED_GIB": "23", "STUB_NVML_PROCESSES": "2"}, 1, ["gpu-reserved"]),
        # 5 GB/s over four lanes of 985 MB/s each.
        ({"STUB_NVML_LANES": "4"}, 1, ["gpu-pcie"]),
        # The card waits for a link that is full: the cause comes first.
        ({"STUB_NVML_LANES": "4", "STUB_NVML_BUSY": "12"}, 1, ["gpu-pcie", "gpu-idle"]),
    ],
)
def test_gpus_through_a_library_in_place_of_nvml(
    moor: Moor,
    tmp_path: Path,
    nvml: Path,
    answers: dict[str, str],
    processes: int,
    wanted: list[str],
) -> None:
    job = write_job(
        tmp_path,
        framework="pytorch",
        command=steps("time.sleep(0.1)"),
        roles={"worker": {"processes": processes}},
    )
    answer = moor("run", job, env={"LD_LIBRARY_PATH": str(nvml), **answers})
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert ids(diagnosis(moor)) == wanted


def test_gpus_and_their_links_in_the_report(moor: Moor, tmp_path: Path, nvml: Path) -> None:
    job = write_job(
        tmp_path, framework="indexed", command=steps("time.sleep(0.1)"), roles={"worker": {}}
    )
    answer = moor("run", job, env={"LD_LIBRARY_PATH": str(nvml), "STUB_NVML_CARDS": "2"})
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "PCIe in, MB/s" in answer.stdout
    cards = moor.report()["cards"]
    assert [(card["gpu"], card["received_mbytes_per_s"]) for card in cards] == [
        ("0", 5000.0),
        ("1", 5000.0),
    ]
    assert "GPU receives over PCIe" in moor("report", "last", "-o", "html").stdout


def test_a_container_that_lost_its_gpus(moor: Moor, nvml: Path) -> None:
    env = {"LD_LIBRARY_PATH": str(nvml), "STUB_NVML_INIT": "999"}
    document = json.loads(moor("doctor", "--node", "--json", env=env).stdout)
    assert "node-gpu-lost" in [finding["id"] for finding in document["findings"]]


def test_a_run_is_followed_until_it_ends(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        framework="indexed",
        command=steps("time.sleep(0.1)"),
        threads=80,
        roles={"worker": {}},
    )
    with moor.started("run", job) as process:
        until(lambda: moor.runs() and moor.only_run().plan_file.exists(), "a plan", 30)
        answer = moor("doctor", "last", "--live")
        assert process.wait(60) == 0
    assert answer.returncode == 0, answer.stderr
    assert "cpu-threads" in answer.stdout


def test_a_program_that_sits_still_after_its_last_step(moor: Moor, tmp_path: Path) -> None:
    """Silent where it ends at once: test_a_healthy_gang_of_servers_and_workers."""
    lines = "import os, time\nfor step in range(1, 4):\n    time.sleep(0.5)\n"
    lines += '    os.write(1, b\'::mooring:: {"step": %d, "total": 3}\\n\' % step)\n'
    command = [*PYTHON, "-c", lines + "time.sleep(7)"]
    job = write_job(tmp_path, framework="indexed", command=command, roles={"worker": {}})
    answer = moor("run", job)
    assert "work done, waiting for worker-0 to end" in answer.stdout
    assert "of it after the last step" in answer.stdout
    [found] = [one.found for one in diagnosis(moor).findings if one.id == "end-late"]
    assert found.says.startswith("worker-0 waited for ")


#: In a file: the doctor names its lines. Most of a step is in one function.
FUNCTIONS = """
import os, time
def spam(until):
    total = 0
    while time.monotonic() < until:
        for number in range(2000):
            if number %% 3:
                total += number
    return total
def eggs(until):
    time.sleep(max(0.0, until - time.monotonic()))
def grow(until, kept=[]):
    kept.append(bytearray(b"x") * (3 << 20))
    spam(until)
def train():
    mark = time.process_time() + 0.02
    while time.process_time() < mark:
        pass
end = time.monotonic() + %s
while time.monotonic() < end:
    train()
    %s(time.monotonic() + 0.06)
    os.write(1, b'::mooring:: {"examples": 64}\\n')
"""


@pytest.mark.parametrize(
    ("function", "seconds", "id"),
    [("spam", 8, "own-code"), ("eggs", 8, "program-waits"), ("grow", 10, "mem-grows")],
)
def test_functions_whatever_they_are_called(
    moor: Moor, tmp_path: Path, function: str, seconds: int, id: str
) -> None:
    program = tmp_path / "ham.py"
    program.write_text(FUNCTIONS % (seconds, function))
    job = write_job(
        tmp_path, framework="indexed", command=[*PYTHON, str(program)], roles={"worker": {}}
    )
    found = run(moor, job)
    assert ids(found)[0] == id
    finding = next(one for one in found.findings if one.id == id)
    assert f"{function}()" in finding.found.says or id == "mem-grows"
