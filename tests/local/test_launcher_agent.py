"""The rank agent and its caller: commands in another member's slot, without ssh."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from launching import Launchers, Started, is_gone

from support.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

TOKEN = "a token of the job"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start_agent(launchers: Launchers, port: int, **contract: object) -> Started:
    started = launchers.start(
        member="rank-0",
        agent={"port": port, "token": TOKEN},
        peers=[{"member": "rank-0", "host": "127.0.0.1", "ports": [port]}],
        **contract,
    )
    started.first("running")
    return started


def call_env(launchers: Launchers, folder: Path, port: int, token: str = TOKEN) -> dict[str, str]:
    hosts = folder / "hosts.json"
    hosts.write_text(json.dumps({"rank-host": ["127.0.0.1", port]}))
    return {**os.environ, "MOORING_RANK_HOSTS": str(hosts), "MOORING_RANK_TOKEN": token}


def rsh(launchers: Launchers, *words: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(launchers.archive), "rsh", *words]


def call(
    launchers: Launchers, env: dict[str, str], words: Sequence[str]
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        rsh(launchers, *words), env=env, capture_output=True, timeout=30, check=False
    )


def test_a_command_runs_in_the_other_member(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    agent = start_agent(launchers, port, env={"ONLY_THERE": "yes"}, cpu_millis=1000)
    env = call_env(launchers, tmp_path, port)
    done = call(
        launchers,
        env,
        [
            "user@rank-host",
            "echo",
            "$ONLY_THERE",
            "$OMP_NUM_THREADS;",
            "pwd;",
            "echo oops >&2; exit 7",
        ],
    )
    assert done.returncode == 7
    assert done.stdout.decode().split("\n") == ["yes 1", str(agent.folder), ""]
    assert done.stderr == b"oops\n"
    agent.process.terminate()
    assert agent.end() == 0
    assert agent.first("exit")["code"] == 0


def test_two_members_as_in_a_job(launchers: Launchers, tmp_path: Path) -> None:
    """The caller is itself a process of a member, as mpirun is."""
    port = free_port()
    agent = start_agent(launchers, port)
    env = call_env(launchers, tmp_path, port)
    variables = {name: env[name] for name in ("MOORING_RANK_HOSTS", "MOORING_RANK_TOKEN")}
    caller = launchers.start(
        rsh(launchers, "rank-host", "echo from the rank; exit 5"), env=variables
    )
    assert caller.end() == 5
    assert caller.wait_for_log("from the rank")
    agent.process.terminate()
    assert agent.end() == 0


def test_large_output_arrives_whole(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    start_agent(launchers, port)
    env = call_env(launchers, tmp_path, port)
    done = call(
        launchers, env, ["rank-host", "head -c 20000000 /dev/zero; head -c 3000 /dev/zero >&2"]
    )
    assert (done.returncode, len(done.stdout), len(done.stderr)) == (0, 20_000_000, 3000)


def test_many_callers_at_once(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    start_agent(launchers, port)
    env = call_env(launchers, tmp_path, port)
    callers = [
        subprocess.Popen(
            rsh(launchers, "rank-host", f"sleep 0.2; echo {number}"),
            env=env,
            stdout=subprocess.PIPE,
        )
        for number in range(12)
    ]
    answers = [caller.communicate(timeout=30)[0] for caller in callers]
    assert answers == [b"%d\n" % number for number in range(12)]


@pytest.mark.parametrize("token", ["", "another token"])
def test_without_the_token_nothing_runs(launchers: Launchers, tmp_path: Path, token: str) -> None:
    port = free_port()
    start_agent(launchers, port)
    done = call(
        launchers,
        call_env(launchers, tmp_path, port, token),
        ["rank-host", f"touch {tmp_path / 'ran'}"],
    )
    assert done.returncode == 255
    assert not (tmp_path / "ran").exists()


def test_noise_on_the_port_does_no_harm(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    agent = start_agent(launchers, port)
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"r\xff\xff\xff\xff" + b"x" * 100):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(noise)
    done = call(launchers, call_env(launchers, tmp_path, port), ["rank-host", "echo fine"])
    assert (done.returncode, done.stdout) == (0, b"fine\n")
    assert agent.process.poll() is None


def test_unknown_hosts_and_missing_agents_are_named(launchers: Launchers, tmp_path: Path) -> None:
    env = call_env(launchers, tmp_path, free_port())
    done = call(launchers, env, ["elsewhere", "true"])
    assert done.returncode == 255
    assert b"no member of this job is called elsewhere (known: rank-host)" in done.stderr
    del env["MOORING_RANK_TOKEN"]
    done = call(launchers, env, ["rank-host", "true"])
    assert done.returncode == 255
    assert b"MOORING_RANK_TOKEN" in done.stderr


def test_signals_reach_the_command(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    start_agent(launchers, port)
    caller = subprocess.Popen(
        rsh(launchers, "rank-host", "trap 'exit 33' TERM; echo up; while :; do sleep 0.02; done"),
        env=call_env(launchers, tmp_path, port),
        stdout=subprocess.PIPE,
    )
    assert caller.stdout is not None
    assert caller.stdout.readline() == b"up\n"
    caller.terminate()
    assert caller.wait(20) == 33
    caller.stdout.close()


def test_a_caller_that_dies_takes_its_command_along(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    agent = start_agent(launchers, port)
    caller = subprocess.Popen(
        rsh(launchers, "rank-host", "echo $$; trap '' TERM; sleep 60 & echo $!; wait; sleep 60"),
        env=call_env(launchers, tmp_path, port),
        stdout=subprocess.PIPE,
    )
    assert caller.stdout is not None
    pids = [int(caller.stdout.readline()) for _ in range(2)]
    caller.kill()
    caller.wait()
    caller.stdout.close()
    until(lambda: all(is_gone(pid) for pid in pids), "the command's processes to be gone")
    assert agent.process.poll() is None


def test_what_a_command_daemonises_ends_with_the_member(
    launchers: Launchers, tmp_path: Path
) -> None:
    port = free_port()
    agent = start_agent(launchers, port)
    env = call_env(launchers, tmp_path, port)
    done = call(
        launchers, env, ["rank-host", "setsid sh -c 'echo $$; exec sleep 60' & sleep 0.2; exit 0"]
    )
    assert done.returncode == 0
    daemon = int(done.stdout)
    assert not is_gone(daemon)
    agent.process.terminate()
    assert agent.end() == 0
    assert is_gone(daemon)


def test_a_taken_port_is_known_before_the_gang_runs(launchers: Launchers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        started = launchers.start(
            member="rank-0",
            agent={"port": port, "token": TOKEN},
            peers=[{"member": "rank-0", "host": "127.0.0.1", "ports": [port]}],
        )
        assert started.end() == 125
        assert f"127.0.0.1 port {port}" in started.first("error")["reason"]


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs OpenMPI")
def test_mpirun_starts_its_ranks_through_the_agent(launchers: Launchers, tmp_path: Path) -> None:
    port = free_port()
    start_agent(launchers, port)
    caller = tmp_path / "rsh"
    caller.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {launchers.archive} rsh "$@"\n')
    caller.chmod(0o755)
    env = call_env(launchers, tmp_path, port)
    command = "mpirun --allow-run-as-root --oversubscribe --bind-to none -np 2 --host rank-host:2"
    done = subprocess.run(
        [
            *command.split(),
            *("--mca", "plm_rsh_agent", str(caller), "--mca", "plm_rsh_no_tree_spawn", "1"),
            *("sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"),
        ],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n")) == ["", "rank 0 of 2", "rank 1 of 2"]
