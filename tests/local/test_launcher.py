"""The launcher with real processes: how it starts, ends and passes on what happened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launching import Launchers, is_gone

from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

IGNORES_SIGTERM = "trap '' TERM; echo pid $$; while :; do sleep 0.05; done"


def python_38() -> str | None:
    """On PATH, or kept by pyenv (whose stand-in on PATH works only for the version in use)."""
    candidates = [shutil.which("python3.8")]
    if shutil.which("pyenv"):
        kept = subprocess.run(
            ["pyenv", "prefix", "3.8"], capture_output=True, text=True, check=False
        )
        candidates.append(f"{kept.stdout.strip()}/bin/python3.8")
    for python in candidates:
        if python and Path(python).exists():
            works = subprocess.run([python, "-c", ""], capture_output=True, check=False)
            if works.returncode == 0:
                return python
    return None


def script(folder: Path, name: str, text: str, mode: int = 0o755) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize(
    ("command", "code", "cause"),
    [
        ("exit 0", 0, "done"),
        ("exit 3", 3, "failed"),
        ("kill -9 $$", 137, "killed"),
        ("kill -SEGV $$", 139, "failed"),
        ("kill -TERM $$", 143, "killed"),
    ],
)
def test_the_exit_code_is_passed_on_and_needs_no_words(
    launchers: Launchers, command: str, code: int, cause: str
) -> None:
    started = launchers.start(["sh", "-c", command])
    assert started.end() == code
    exit_record = started.first("exit")
    assert (exit_record["code"], exit_record["reason"]) == (code, "")
    assert exit_record["cause"] == cause
    assert exit_record["codes"] == [code]
    assert "lost_log_lines" not in exit_record


def test_who_fails_while_its_cards_do_not_answer_has_lost_them(
    launchers: Launchers, nvml: Path
) -> None:
    failing = "until grep -q kind.:.sample samples.jsonl; do sleep 0.05; done; exit 3"
    for answers, cause in (("0", "failed"), ("15", "device-lost"), ("999", "device-lost")):
        environ = {**os.environ, "LD_LIBRARY_PATH": str(nvml), "STUB_NVML_RATES": answers}
        started = launchers.start(["sh", "-c", failing], environ=environ)
        assert started.end() == 3
        record = started.first("exit")
        assert record["cause"] == cause
        assert ("do not answer" in record["reason"]) is (cause == "device-lost")


def test_commands_that_cannot_start(launchers: Launchers, tmp_path: Path) -> None:
    plain = script(tmp_path, "plain", "#!/bin/sh\n", mode=0o644)
    orphan = script(tmp_path, "orphan", "#!/no/such/interpreter\n")
    binary = script(tmp_path, "binary", "\0\1\2")
    cases = [
        (["no-such-command-here"], 127, "command 'no-such-command-here' not found on PATH"),
        (["./missing"], 127, "command './missing' not found"),
        ([orphan], 127, "interpreter"),
        ([plain], 126, "is not executable"),
        ([str(tmp_path)], 126, "is not executable"),
        ([binary], 126, "neither a program"),
    ]
    for argv, code, words in cases:
        started = launchers.start(argv)
        assert started.end() == code, argv
        assert words in started.first("error")["reason"]
        assert started.first("exit")["code"] == code
        assert words in (started.folder / "stderr").read_text()


def test_what_a_launcher_cannot_do_is_said_in_a_sentence(
    launchers: Launchers, tmp_path: Path
) -> None:
    cases = [
        ({"cwd": str(tmp_path / "nowhere")}, "working directory"),
        ({"cpus": [100_000]}, "cannot pin to CPUs 100000"),
        ({"cgroup_procs": [str(tmp_path / "no" / "cgroup.procs")]}, "cannot join control group"),
        ({"netns": str(tmp_path / "no-netns")}, "cannot enter network"),
        ({"log_path": str(tmp_path / "no" / "log")}, "No such file"),
        ({"version": 2}, "this launcher knows version 1"),
        ({"grace_s": "soon"}, 'contract: grace_s is "soon"; accepted: a number of seconds >= 0'),
    ]
    for contract, words in cases:
        started = launchers.start(["true"], **contract)
        assert started.end() == 125, contract
        assert words in started.first("error")["reason"]


def test_a_missing_contract_is_no_traceback(archive: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(archive), "run", str(tmp_path / "none.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 125
    assert done.stderr.count("\n") == 1
    assert "No such file" in done.stderr


def test_lines_go_to_the_log_and_steps_to_the_samples(launchers: Launchers) -> None:
    program = (
        "import sys\n"
        "print('out line')\n"
        "print('err line', file=sys.stderr)\n"
        'print(\'::mooring:: {"step": 7, "examples": 64, "loss": 0.5, "total": 9}\')\n'
        "sys.stdout.flush(); sys.stdout.buffer.write(b'\\xff no newline')\n"
    )
    started = launchers.start([sys.executable, "-c", program])
    assert started.end() == 0
    lines = [line.split(" ", 1) for line in started.log()]
    assert all(stamp.endswith("Z") and stamp[10] == "T" for stamp, _ in lines)
    assert sorted(text for _, text in lines) == [
        "err 0 err line",
        "out 0 out line",
        "out 0 � no newline",
    ]
    [step] = started.records("step")
    assert [step[key] for key in ("r", "step", "examples", "loss", "total", "n")] == [
        0,
        7,
        64,
        0.5,
        9,
        1,
    ]


def test_the_environment_of_local_processes(launchers: Launchers) -> None:
    names = ["MOORING_LOCAL_RANK", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_NUM_INTEROP_THREADS"]
    names += ["MOORING_MEMBER", "CUDA_VISIBLE_DEVICES", "OWN", "PYTHONUNBUFFERED"]
    show = "import os, sys; print([os.environ[name] for name in sys.argv[1:]])"
    started = launchers.start(
        [sys.executable, "-c", show, *names],
        environ={"PATH": os.environ["PATH"]},
        env={"MKL_NUM_THREADS": "5"},
        cpu_millis=3500,
        threads=2,
        gpus=[1, 3],
        processes=[{"local_rank": rank, "env": {"OWN": f"own-{rank}"}} for rank in (0, 1)],
    )
    assert started.end() == 0
    assert sorted(line.split(" ", 3)[3] for line in started.log()) == [
        f"['{rank}', '2', '5', '3', 'worker-0', '1,3', 'own-{rank}', '1']" for rank in (0, 1)
    ]
    budget = started.first("ready")["budget"]
    assert budget["threads"] == 2
    assert budget["sources"]["kept"] == {"MKL_NUM_THREADS": "5"}


def test_pinning_is_inherited_and_reported(launchers: Launchers) -> None:
    cpu = min(os.sched_getaffinity(0))
    show = "import os; print(os.sched_getaffinity(0))"
    started = launchers.start([sys.executable, "-c", show], cpus=[cpu])
    assert started.end() == 0
    assert started.wait_for_log("{") == str({cpu})
    ready = started.first("ready")
    assert ready["pinned"] is True
    assert ready["held"] == {"cpus": "shared", "why_not": None, "given": [cpu]}
    assert ready["budget"]["cpus"] == [cpu]
    assert ready["budget"]["threads"] == 1


def test_nothing_starts_before_the_gate_opens(launchers: Launchers) -> None:
    started = launchers.start(["sh", "-c", "echo ran"], gate="stdin")
    started.first("ready")
    assert started.records("running") == []
    assert started.log() == []
    started.open_gate()
    assert started.end() == 0
    assert started.wait_for_log("ran") == "ran"


def test_a_stop_at_the_gate_starts_nothing(launchers: Launchers) -> None:
    for stop in ("signal", "lifeline"):
        started = launchers.start(["sh", "-c", "echo ran"], gate="stdin")
        started.first("ready")
        if stop == "signal":
            started.process.terminate()
        else:
            started.drop_lifeline()
        assert started.end() == 143
        assert "before it started" in started.first("exit")["reason"]
        assert started.first("exit")["cause"] == "stopped"
        assert started.log() == []


def test_sigterm_lets_a_process_end_in_its_own_way(launchers: Launchers) -> None:
    started = launchers.start(
        ["sh", "-c", "trap 'echo saved; exit 9' TERM; echo up; while :; do sleep 0.02; done"]
    )
    started.wait_for_log("up")
    started.process.terminate()
    assert started.end() == 9
    assert started.wait_for_log("saved")
    assert "SIGTERM" in started.first("exit")["reason"]
    assert started.first("exit")["stopped_by"] == "SIGTERM"


def test_what_ignores_sigterm_is_killed_after_the_grace_period(launchers: Launchers) -> None:
    started = launchers.start(["sh", "-c", IGNORES_SIGTERM], grace_s=0.4)
    pid = int(started.wait_for_log("pid").split()[1])
    began = time.monotonic()
    started.process.terminate()
    assert started.end() == 143
    assert time.monotonic() - began >= 0.4
    assert is_gone(pid)
    record = started.first("exit")
    assert record["codes"] == [137]
    assert "killed after the grace period" in record["reason"]
    assert (record["cause"], record["killed"]) == ("stopped", True)


def test_a_process_whose_main_thread_has_ended_is_still_alive(launchers: Launchers) -> None:
    program = (
        "import ctypes, os, signal, threading, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "def work():\n"
        "    time.sleep(0.2)\n"
        "    print('pid', os.getpid(), flush=True)\n"
        "    time.sleep(60)\n"
        "threading.Thread(target=work).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    started = launchers.start(
        ["sh", "-c", 'python=$1; shift; "$python" -c "$@" & wait', "sh", sys.executable, program],
        grace_s=0.3,
    )
    pid = int(started.wait_for_log("pid").split()[1])
    assert (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    started.process.terminate()
    assert started.end() == 143
    assert not (Path("/proc") / str(pid)).exists()


def test_the_grace_period_holds_for_grandchildren(launchers: Launchers) -> None:
    child = "trap 'sleep 0.3; echo child saved; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    started = launchers.start(["sh", "-c", f'sh -c "{child}" & wait'])
    started.wait_for_log("up")
    started.process.terminate()
    assert started.end() == 143
    assert started.wait_for_log("child saved")


def test_one_failing_local_process_ends_the_others(launchers: Launchers) -> None:
    command = "if [ $MOORING_LOCAL_RANK = 1 ]; then exit 5; fi; echo pid $$; sleep 60"
    started = launchers.start(
        ["sh", "-c", command],
        processes=[{"local_rank": rank} for rank in (0, 1, 2)],
    )
    assert started.end() == 5
    record = started.first("exit")
    assert record["reason"] == "local rank 1 failed"
    assert record["rank"] == 1
    assert record["codes"] == [143, 5, 143]


def test_a_daemon_does_not_outlive_its_member(launchers: Launchers) -> None:
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        print('daemon', os.getpid(), flush=True)\n"
        "        time.sleep(60)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    started = launchers.start([sys.executable, "-c", program])
    daemon = int(started.wait_for_log("daemon").split()[1])
    assert started.end() == 0
    assert is_gone(daemon)


def test_what_a_failed_process_leaves_gets_no_grace(launchers: Launchers) -> None:
    leave = f"({IGNORES_SIGTERM}) & sleep 0.1; exit 6"
    started = launchers.start(["sh", "-c", leave], grace_s=60)
    assert started.end() == 6
    assert is_gone(int(started.wait_for_log("pid").split()[1]))


def test_kill_0_in_a_script_does_not_reach_its_launcher(launchers: Launchers) -> None:
    started = launchers.start(["sh", "-c", "trap 'exit 0' TERM; sleep 60 & kill 0; wait"])
    assert started.end() == 0
    assert started.first("exit")["reason"] == ""


def test_the_end_of_the_body_ends_everything(launchers: Launchers) -> None:
    started = launchers.start(["sh", "-c", IGNORES_SIGTERM], gate="stdin", grace_s=0.3)
    started.open_gate()
    pid = int(started.wait_for_log("pid").split()[1])
    started.drop_lifeline()
    assert started.end() == 143
    assert is_gone(pid)
    assert "its supervisor is gone" in started.first("exit")["reason"]
    assert started.first("exit")["stopped_by"] == "supervisor-gone"


def test_a_killed_launcher_takes_its_processes_along(launchers: Launchers) -> None:
    started = launchers.start(["sh", "-c", "echo pid $$; exec sleep 60"])
    pid = int(started.wait_for_log("pid").split()[1])
    started.process.kill()
    started.end()
    until(lambda: is_gone(pid), "the child to go with its launcher")


def test_peers_that_never_resolve_are_named(launchers: Launchers) -> None:
    peers = [
        {"member": "ps-0", "host": "127.0.0.1", "ports": [1]},
        {"member": "ps-1", "host": "no-such-host.invalid", "ports": [1]},
    ]
    started = launchers.start(["true"], peers=peers, resolve_timeout_s=0.3)
    assert started.end() == 124
    reason = started.first("error")["reason"]
    assert "ps-1 (no-such-host.invalid)" in reason
    assert "ps-0" not in reason
    assert started.records("ready") == []


def test_a_stop_while_names_are_looked_up(launchers: Launchers) -> None:
    peers = [{"member": "ps-1", "host": "no-such-host.invalid", "ports": [1]}]
    started = launchers.start(["true"], peers=peers, resolve_timeout_s=60, gate="stdin")
    until(lambda: not is_gone(started.pid), "the launcher to be up")
    started.drop_lifeline()
    assert started.end() == 143


def test_samples_count_what_the_subtree_used(launchers: Launchers) -> None:
    program = (
        "import os, time, threading\n"
        "if os.fork() == 0:\n"
        "    end = time.process_time() + 0.3\n"
        "    while time.process_time() < end: pass\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "for _ in range(50): time.sleep(0.001)\n"
        "threads = [threading.Thread(target=time.sleep, args=(0.5,)) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
    )
    started = launchers.start([sys.executable, "-c", program])
    assert started.end() == 0
    samples = started.records("sample")
    last = samples[-1]
    assert last["cpu_s"] >= 0.3
    assert last["ctx_vol"] >= 50
    assert max(sample["threads"] for sample in samples) >= 5
    assert max(sample["processes"] for sample in samples) == 2
    assert max(sample["rss_bytes"] for sample in samples) > 1 << 20
    busy = next(sample for sample in samples if sample["threads"] >= 5)
    assert sum(busy["last_cpus"].values()) >= 5
    assert last["shm_bytes"] >= last["shm_used_bytes"] >= 0
    for key in ("cpu_s", "wait_s", "ctx_vol", "ctx_invol", "tx_bytes", "rx_bytes"):
        values = [sample[key] for sample in samples]
        assert values == sorted(values), key


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity here")
def test_samples_tell_who_waits_for_a_cpu_and_which_it_may_use(launchers: Launchers) -> None:
    """Three threads' worth of work on one CPU: each waits while the others run."""
    program = (
        "import os, time\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "children = []\n"
        "for _ in range(3):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        while time.process_time() < 0.5: pass\n"
        "        time.sleep(60)\n"
        "    children.append(pid)\n"
        "time.sleep(60)\n"
    )
    started = launchers.start([sys.executable, "-c", program])
    until(lambda: any(s["cpu_s"] >= 1.2 for s in started.records("sample")), "work done", 60)
    sample = started.records("sample")[-1]
    started.process.terminate()
    started.end()
    assert sample["cpus"] == [min(os.sched_getaffinity(0))]
    # Two of three have used 0.35 s at least: while one of them ran, the other waited.
    assert sample["wait_s"] >= 0.3


def test_bytes_are_counted_by_peer(launchers: Launchers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = (
            "import socket, sys, time\n"
            f"peer = socket.create_connection(('127.0.0.1', {port}))\n"
            "peer.sendall(b'x' * 100_000)\n"
            "while peer.recv(65536): pass\n"
            "peer.close()\n"
        )
        peers = [
            {"member": "ps-0", "host": "localhost", "ports": [port]},
            {"member": "ps-1", "host": "localhost", "ports": [1]},
        ]
        started = launchers.start([sys.executable, "-c", program], peers=peers)
        connection, _ = server.accept()
        received = 0
        while received < 100_000:
            received += len(connection.recv(65536))
        connection.sendall(b"y" * 30_000)

        def counted() -> bool:
            totals = [sample["peers"].get("ps-0", [0, 0]) for sample in started.records("sample")]
            # The kernel counts the opening SYN as a byte.
            return any(100_000 <= sent <= 100_001 and got == 30_000 for sent, got in totals)

        until(counted, "the bytes to be attributed to ps-0")
        connection.close()
        assert started.end() == 0
    last = started.records("sample")[-1]
    assert last["rx_bytes"] == 30_000
    assert set(last["peers"]) == {"ps-0"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_does_not_stop_the_training(launchers: Launchers) -> None:
    started = launchers.start(["sh", "-c", "echo lost; echo too; exit 4"], log_path="/dev/full")
    assert started.end() == 4
    assert started.first("exit")["lost_log_lines"] == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_nothing_runs_that_cannot_be_observed(launchers: Launchers) -> None:
    started = launchers.start(["sh", "-c", "echo ran"], sample_path="/dev/full")
    assert started.end() == 125
    assert started.stderr() == "mooring: sample file /dev/full: No space left on device\n"
    assert started.log() == []


def test_a_flood_of_output_is_kept_whole(launchers: Launchers) -> None:
    program = "for i in range(100_000): print('line', i)"
    started = launchers.start([sys.executable, "-c", program])
    assert started.end() == 0
    texts = [line.split(" ", 3)[3] for line in started.log()]
    assert texts == [f"line {i}" for i in range(100_000)]


def test_it_runs_on_the_oldest_python(archive: Path, tmp_path: Path) -> None:
    python = python_38()
    if python is None:
        pytest.skip("no python3.8 here; `vermin` checks the sources")
    launchers = Launchers(archive, tmp_path, [python])
    try:
        peers = [{"member": "a-0", "host": "localhost", "ports": [1]}]
        started = launchers.start(["sh", "-c", "echo hi; sleep 0.3; exit 3"], peers=peers)
        assert started.end() == 3
        assert started.records("sample")
        assert json.loads((started.folder / "contract.json").read_text())["version"] == 1
    finally:
        launchers.close()


def test_a_second_signal_changes_nothing(launchers: Launchers) -> None:
    started = launchers.start(
        ["sh", "-c", "trap 'sleep 0.2; exit 0' TERM; echo up; while :; do sleep 0.02; done"]
    )
    started.wait_for_log("up")
    for _ in range(3):
        os.kill(started.pid, signal.SIGTERM)
    assert started.end() == 0, started.first("exit")
