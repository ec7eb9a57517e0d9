"""A run as its user meets it: policies, limits, logs, stopping, following, cleaning."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mooring
from mooring.backends.local import cgroups, netns
from mooring.record import RunRecord
from mooring.wire import read_journal
from mooring.wire.events import PhaseChanged
from support.moor import Moor, leftovers, processes_of, write_job
from support.waiting import until

virtual_only = pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not()))
groups_only = pytest.mark.skipif(cgroups.find_hierarchy() is None, reason="no control groups here")


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def phases(run: RunRecord) -> list[str]:
    return [each.phase.value for each in read_journal(run.events_file, PhaseChanged)]


def is_running(moor: Moor) -> bool:
    return bool(moor.runs()) and phases(moor.only_run())[-1:] == ["Running"]


FOREVER = "import time; print('up', flush=True); time.sleep(600)"


def test_an_elastic_gang_starts_with_the_members_that_have_room(moor: Moor, tmp_path: Path) -> None:
    asked = (os.cpu_count() or 1) + 2
    job = write_job(
        tmp_path,
        framework="pytorch",
        command=python("import os; print('world', os.environ['WORLD_SIZE'])"),
        roles={"worker": {"replicas": asked, "resources": {"cpu": 1}}},
        minAvailable=1,
    )
    answer = moor("run", job)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    started = len(moor.report()["members"])
    assert 1 <= started < asked
    assert f"starts with {started} of {asked} members (minAvailable)" in answer.stdout
    assert "do not join this run later" in answer.stdout
    logs = moor("logs", "last").stdout
    assert logs.count(f"world {started}") == started
    answer = moor("run", job, "--set", f"spec.minAvailable={asked}")
    assert answer.returncode == 2
    assert "not placed" in answer.stderr


def test_a_failing_member_fails_the_job_and_ends_the_others(moor: Moor, tmp_path: Path) -> None:
    code = (
        "import os, sys, time\n"
        "if os.environ['MOORING_INDEX'] == '1': print('no data', file=sys.stderr); sys.exit(3)\n"
        "time.sleep(600)"
    )
    job = write_job(
        tmp_path, framework="indexed", command=python(code), roles={"worker": {"replicas": 3}}
    )
    answer = moor("run", job)
    assert answer.returncode == 1
    assert "worker-1 exited with code 3" in answer.stdout
    assert "worker-1 ! no data\n" in answer.stdout
    # Lines that stand just above are not repeated.
    assert "printed last" not in answer.stdout
    codes = {m["member"]: (m["state"], m["exit_code"]) for m in moor.report()["members"]}
    assert codes["worker-1"] == ("failed", 3)
    assert codes["worker-0"] == codes["worker-2"] == ("ended", 143)
    assert leftovers(moor.only_run()) == []


def test_a_member_restarts_with_a_new_attempt(moor: Moor, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = (
        "import os, pathlib, sys; mark = pathlib.Path(sys.argv[1]);\n"
        "if os.environ['MOORING_INDEX'] == '0' and not mark.exists(): mark.touch(); sys.exit(9)\n"
        "print('epoch', os.environ['MOORING_EPOCH'])"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=[*python(code), str(mark)],
        roles={"worker": {"replicas": 2}},
        failurePolicy={"restart": "member", "backoff": {"initial": "10ms"}},
    )
    assert moor("run", job).returncode == 0
    members = {m["member"]: m for m in moor.report()["members"]}
    assert (members["worker-0"]["restarts"], members["worker-1"]["restarts"]) == (1, 0)


def test_a_gang_restarts_with_a_new_epoch_and_gives_up(moor: Moor, tmp_path: Path) -> None:
    code = "import os, sys; print('epoch', os.environ['MOORING_EPOCH'], flush=True); sys.exit(5)"
    job = write_job(
        tmp_path,
        framework="indexed",
        command=python(code),
        roles={"worker": {"replicas": 2}},
        failurePolicy={"restart": "gang", "maxRestarts": 2, "backoff": {"initial": "10ms"}},
    )
    answer = moor("run", job)
    assert answer.returncode == 1
    assert "after 2 restarts" in answer.stdout
    # In each epoch one of them failed by itself; the other may have been stopped before it printed.
    logs = moor("logs", "last").stdout
    assert {line.rsplit(" ", 1)[1] for line in logs.splitlines()} == {"0", "1", "2"}


@pytest.mark.parametrize("nodes", [(), pytest.param(("--nodes", "2"), marks=virtual_only)])
def test_interrupting_stops_every_member_cleanly(
    moor: Moor, tmp_path: Path, nodes: tuple[str, ...]
) -> None:
    job = write_job(
        tmp_path,
        framework="indexed",
        command=python(FOREVER),
        roles={"worker": {"replicas": 2}},
    )
    with moor.started("run", job, *nodes) as process:
        until(lambda: is_running(moor), "running", 30)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert phases(moor.only_run())[-1] == "Stopped"
    assert leftovers(moor.only_run()) == []


def test_a_second_interrupt_does_not_wait_for_a_member_that_will_not_end(
    moor: Moor, tmp_path: Path
) -> None:
    stubborn = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"
    job = write_job(
        tmp_path,
        framework="indexed",
        command=python(stubborn),
        roles={"worker": {}},
        gracePeriod="10m",
    )
    with moor.started("run", job) as process:
        until(lambda: is_running(moor), "running", 30)
        until(lambda: "up" in moor("logs", "last").stdout, "its handler is set", 30)
        process.send_signal(signal.SIGINT)
        until(lambda: "Stopping" in phases(moor.only_run()), "stopping", 30)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert leftovers(moor.only_run()) == []


def test_another_process_lists_follows_and_stops_a_run(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path, name="far", framework="indexed", command=python(FOREVER), roles={"worker": {}}
    )
    with moor.started("run", job) as process:
        until(lambda: is_running(moor), "running", 30)
        listed = json.loads(moor("ps", "-o", "json").stdout)
        assert [(row["phase"], row["members"]) for row in listed] == [("Running", "1/1")]
        with moor.started("logs", "far", "-f") as follower:
            assert follower.stdout is not None
            assert "up" in follower.stdout.readline()
            stopped = moor("stop", "far")
            assert stopped.returncode == 0, stopped.stderr
            assert follower.wait(30) == 0
        assert process.wait(30) == 130
    assert moor("ps").stdout.startswith("nothing is running")
    assert "has ended already" in moor("stop", "last").stdout


def test_the_time_limit_ends_a_job(moor: Moor, tmp_path: Path) -> None:
    job = write_job(
        tmp_path,
        framework="indexed",
        command=python(FOREVER),
        roles={"worker": {}},
        timeLimit="500ms",
    )
    answer = moor("run", job)
    assert answer.returncode == 1
    assert "over its time limit" in answer.stdout


@groups_only
def test_the_memory_limit_is_enforced_and_named(moor: Moor, tmp_path: Path) -> None:
    code = "x = bytearray(400 << 20); import time; time.sleep(600)"
    job = write_job(
        tmp_path,
        framework="indexed",
        command=python(code),
        roles={"worker": {"resources": {"memory": "100Mi"}}},
    )
    answer = moor("run", job)
    assert answer.returncode == 1
    assert "over its memory limit of 100 MiB" in answer.stdout


def test_exclusive_members_hold_disjoint_cpus(moor: Moor, tmp_path: Path) -> None:
    count = len(os.sched_getaffinity(0))
    code = "import os; print(*sorted(os.sched_getaffinity(0)))"
    job = write_job(
        tmp_path,
        framework="indexed",
        command=python(code),
        pinning="exclusive",
        roles={"worker": {"replicas": count, "resources": {"cpu": 1}}},
    )
    assert moor("run", job).returncode == 0
    lines = moor("logs", "last").stdout.splitlines()
    held = [line.split("| ")[1] for line in lines]
    assert len(set(held)) == count
    assert all(" " not in cpus for cpus in held)


def test_threads_follow_the_budget_unless_the_user_says(moor: Moor, tmp_path: Path) -> None:
    code = (
        "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['TF_NUM_INTRAOP_THREADS'],"
        " os.environ['TF_NUM_INTEROP_THREADS'])"
    )
    base = {"framework": "indexed", "command": python(code)}
    env = {"OMP_NUM_THREADS": "7"}
    small = write_job(
        tmp_path,
        name="small",
        **base,
        roles={"a": {"resources": {"cpu": "1"}}, "b": {"resources": {"cpu": "1"}, "env": env}},
    )
    assert moor("run", small, "--set", "pinning=exclusive").returncode == 0
    # One CPU each: one thread; TensorFlow's inter-op never below 3: with 1, parameter servers hang.
    assert "a-0 | 1 1 3" in moor("logs", "last", "a").stdout
    assert "b-0 | 7 1 3" in moor("logs", "last", "b").stdout
    assert moor("run", small, "--set", "threads=5").returncode == 0
    assert "a-0 | 5 5 5" in moor("logs", "last", "a").stdout


def test_steps_are_recognised_by_a_pattern(moor: Moor, tmp_path: Path) -> None:
    code = (
        "import time\n"
        "for i in range(1, 6): print(f'step {i} loss {1 / i:.2f}', flush=True); time.sleep(0.25)"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=python(code),
        roles={"worker": {}},
        stepMetrics={
            "source": "regex",
            "pattern": r"step (?P<step>\d+) loss (?P<loss>[\d.]+)",
            "examplesPerStep": 100,
        },
    )
    assert moor("run", job).returncode == 0
    report = moor.report()
    assert (report["steps"], report["examples"]) == (5, 500)
    assert (report["first_loss"], report["last_loss"]) == (1.0, 0.2)
    # Four steps of 100 examples in four pauses of 0.25 s: 400 a second, less what Python adds.
    assert 100 < report["examples_per_s"] < 450


def test_files_are_copied_and_become_the_working_folder(moor: Moor, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("import os; print(os.getcwd())")
    job = write_job(
        tmp_path,
        framework="indexed",
        command=[sys.executable, "code/train.py"],
        files=["code"],
        roles={"worker": {}},
    )
    assert moor("run", job, "-o", tmp_path / "kept").returncode == 0
    assert f"| {tmp_path / 'kept' / 'files'}" in moor("logs", "last").stdout
    assert (tmp_path / "kept" / "files" / "code" / "train.py").exists()
    assert moor("report", tmp_path / "kept").returncode == 0


def test_members_that_need_no_gang_start_as_room_appears(moor: Moor, tmp_path: Path) -> None:
    count = len(os.sched_getaffinity(0))
    job = write_job(
        tmp_path,
        framework="indexed",
        gang=False,
        pinning="exclusive",
        command=python("import time; time.sleep(0.1)"),
        roles={"worker": {"replicas": 2 * count + 1, "resources": {"cpu": 1}}},
    )
    answer = moor("run", job)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert [m["exit_code"] for m in moor.report()["members"]] == [0] * (2 * count + 1)


@virtual_only
def test_two_runs_on_virtual_nodes_at_once_do_not_meet(moor: Moor, tmp_path: Path) -> None:
    release = tmp_path / "release"
    code = (
        "import os, pathlib, socket, sys, time\n"
        "me = socket.gethostbyname(socket.gethostname()); print('at', me, flush=True)\n"
        "while not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=[*python(code), str(release)],
        roles={"worker": {"replicas": 2}},
    )
    arguments = ("run", job, "--nodes", "2", "--nic-mbps", "100")
    with moor.started(*arguments) as first, moor.started(*arguments) as second:

        def printed() -> list[list[str]]:
            logs = [moor("logs", run.info.id).stdout for run in moor.runs()]
            return [log.splitlines() for log in logs]

        until(lambda: [len(lines) for lines in printed()] == [2, 2], "both runs print", 60)
        logs = printed()
        release.touch()
        assert (first.wait(60), second.wait(60)) == (0, 0)
    addresses = [{line.split()[-1] for line in lines} for lines in logs]
    assert [len(found) for found in addresses] == [2, 2]
    assert addresses[0].isdisjoint(addresses[1])
    assert all(leftovers(run) == [] for run in moor.runs())


@virtual_only
def test_the_nic_limit_holds_both_ways(moor: Moor, tmp_path: Path) -> None:
    """Two members send 5 MB to each other through NICs of 40 Mbit/s: about a second each way."""
    script = tmp_path / "send.py"
    script.write_text(
        "import json, os, socket, threading, time\n"
        "peers = json.loads(os.environ['MOORING_PEERS'])['worker']\n"
        "index = int(os.environ['MOORING_INDEX'])\n"
        "port = int(peers[index].rsplit(':', 1)[1])\n"
        "host, other = peers[1 - index].rsplit(':', 1)\n"
        "server = socket.create_server(('0.0.0.0', port))\n"
        "def serve():\n"
        "    connection, _ = server.accept(); n = 0\n"
        "    while n < 5_000_000: n += len(connection.recv(1 << 16))\n"
        "    connection.sendall(b'k')\n"
        "    time.sleep(1.2)\n"  # so that a sample sees the socket
        "thread = threading.Thread(target=serve); thread.start()\n"
        "deadline = time.monotonic() + 20\n"
        "while True:\n"
        "    try: client = socket.create_connection((host, int(other))); break\n"
        "    except ConnectionRefusedError:\n"
        "        assert time.monotonic() < deadline; time.sleep(0.05)\n"
        "begin = time.monotonic(); client.sendall(bytes(5_000_000)); client.recv(1)\n"
        "print('mbps', 40 / (time.monotonic() - begin)); thread.join()\n"
    )
    job = write_job(
        tmp_path,
        framework="indexed",
        command=[sys.executable, str(script)],
        roles={"worker": {"replicas": 2}},
    )
    answer = moor("run", job, "--nodes", "2", "--nic-mbps", "40")
    assert answer.returncode == 0, answer.stdout
    rates = [float(line.split()[-1]) for line in moor("logs", "last").stdout.splitlines()]
    # The bucket lets a burst pass at once, so a short transfer is a little faster than the rate.
    assert all(rate < 48 for rate in rates)
    report = moor.report()
    for node in report["nodes"]:
        assert 5_000_000 < node["received_bytes"] < 6_000_000
    for member in report["members"]:
        assert 5_000_000 <= member["sent_bytes"] < 5_600_000
    flows = {(f["opened_by"], f["peer"]): f["sent_bytes"] for f in report["flows"]}
    assert flows[("worker-0", "worker-1")] >= 5_000_000


def test_the_python_api_does_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOORING_HOME", str(tmp_path / "home"))
    path = write_job(
        tmp_path, framework="indexed", command=python("print('hi')"), roles={"worker": {}}
    )
    job = mooring.Job.from_file(path, set=["roles.worker.replicas=2"])
    result = mooring.run(job, directory=tmp_path / "kept")
    assert result.succeeded
    assert [m.exit_code for m in result.report.members] == [0, 0]
    assert json.loads((tmp_path / "kept" / "report.json").read_text())["phase"] == "Succeeded"


def test_a_run_is_readable_after_moor_was_killed(moor: Moor, tmp_path: Path) -> None:
    job = write_job(tmp_path, framework="indexed", command=python(FOREVER), roles={"worker": {}})
    with moor.started("run", job) as process:
        until(lambda: is_running(moor), "running", 30)
        until(lambda: "up" in moor("logs", "last").stdout, "its first line", 30)
        process.kill()
        process.wait()
    run = moor.only_run()
    until(lambda: not processes_of(run.info.id), "members end by themselves", 20)
    assert moor.report()["phase"] == "Lost"
    assert "Lost" in moor("ps").stdout
    assert "up" in moor("logs", "last").stdout
    assert moor("clean").returncode == 0
    assert moor.report()["phase"] == "Failed"
    assert leftovers(run) == []
    assert moor("clean", "--runs").returncode == 0
    assert moor.runs() == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_a_sharing_run_gives_way_to_an_exclusive_one_and_grows_back(
    moor: Moor, tmp_path: Path
) -> None:
    every = os.sched_getaffinity(0)
    shared = write_job(
        tmp_path, name="shared", framework="indexed", command=python(FOREVER), roles={"worker": {}}
    )
    alone = write_job(
        tmp_path,
        name="alone",
        framework="indexed",
        command=python(FOREVER),
        pinning="exclusive",
        roles={"worker": {"resources": {"cpu": 1}}},
    )

    def cpus_of(run: RunRecord) -> set[int]:
        members = [p for p in processes_of(run.info.id) if "-S" in p.cmdline()[1:2]]
        return set.union(set(), *(os.sched_getaffinity(p.pid) for p in members))

    with moor.started("run", shared) as first:
        until(lambda: is_running(moor), "running", 30)
        run = moor.only_run()
        assert cpus_of(run) == every
        with moor.started("run", alone) as second:
            until(lambda: len(moor.runs()) == 2, "a second run", 30)
            [other] = [each for each in moor.runs() if each.info.job == "alone"]
            until(lambda: len(cpus_of(other)) == 1, "the exclusive member runs", 30)
            until(lambda: cpus_of(run) == every - cpus_of(other), "the first gives way", 10)
            # One CPU is always left to those who share: all of them cannot be had.
            most = len(every)
            refused = moor("plan", alone, "--set", f"roles.worker.replicas={most}")
            assert refused.returncode == 2
            assert f"held by run {other.info.id} (worker-0), exclusively" in refused.stderr
            second.send_signal(signal.SIGINT)
            assert second.wait(30) == 130
        until(lambda: cpus_of(run) == every, "the first grows back", 10)
        first.send_signal(signal.SIGINT)
        assert first.wait(30) == 130


def test_cleaning_leaves_members_of_pods_alone(moor: Moor) -> None:
    """On a node of a cluster their processes are visible, and carry the mark of their run."""
    env = {**os.environ, "MOORING_RUN": f"pod-{os.getpid()}", "MOORING_MEMBER": "worker-0"}
    env.pop("MOORING_OWNER", None)
    with subprocess.Popen(["sleep", "600"], env=env) as member:
        try:
            until(lambda: processes_of(env["MOORING_RUN"]), "it runs", 20)
            cleaned = moor("clean")
            left = member.poll()
        finally:
            member.kill()
    assert cleaned.returncode == 0, cleaned.stderr
    assert left is None, cleaned.stdout
