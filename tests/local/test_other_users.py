"""Other users of the machine: what they put into their own processes and folders harms nobody, and
what a run writes is not theirs to read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from mooring.backends.local import owners
from mooring.backends.local.processes import left_processes
from mooring.record.process_mark import mark_of
from support.moor import Moor, processes_of, write_job
from support.waiting import until

NOBODY = 65534
DEAD = f"{2**22 + 1}:{mark_of(os.getpid())}"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@contextmanager
def sleeper(run_id: str, owner: str, uid: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a user that says to belong to a run."""
    env = {"MOORING_RUN": run_id, "MOORING_OWNER": owner}
    process = subprocess.Popen(["/bin/sleep", "600"], env=env, user=uid, cwd="/")
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def endless(folder: Path, release: Path) -> Path:
    """A job whose member ends once a file exists."""
    program = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)"
    command = [sys.executable, "-S", "-c", program, str(release)]
    return write_job(folder, framework="indexed", command=command, roles={"worker": {}})


@as_root
def test_a_mark_in_a_process_of_another_user_ends_no_run(tmp_path: Path) -> None:
    moor, release = Moor(tmp_path / "home"), tmp_path / "release"
    with moor.started("run", endless(tmp_path, release)) as running:
        until(lambda: moor.runs() and len(processes_of(moor.only_run().info.id)) > 1, "a member")
        run = moor.only_run()
        mine = {process.pid for process in processes_of(run.info.id)}
        with sleeper(run.info.id, DEAD, NOBODY) as forged:
            answer = moor("clean")
            assert answer.returncode == 0, answer.stderr
            assert forged.poll() is None
            assert mine <= {process.pid for process in processes_of(run.info.id)}
        release.touch()
        assert running.wait(30) == 0


@as_root
def test_of_a_dead_run_only_its_owners_processes_are_ended(tmp_path: Path) -> None:
    moor, release = Moor(tmp_path / "home"), tmp_path / "release"
    with moor.started("run", endless(tmp_path, release)) as running:
        until(lambda: moor.runs() and len(processes_of(moor.only_run().info.id)) > 1, "a member")
        run = moor.only_run()
        running.kill()
        running.wait()
    owner = owners.name_of(run.info.pid, run.info.start_mark)
    with (
        sleeper(run.info.id, owner, 0) as left,
        sleeper(run.info.id, owner, NOBODY) as foreign,
        sleeper(run.info.id, owners.name_of(os.getpid(), mark_of(os.getpid())), 0) as supervised,
        sleeper(run.info.id, "garbage", 0) as unclear,
    ):
        said = moor("clean").stdout
        assert f"processes of {run.info.id}" in said
        assert left.wait(10) == -9
        assert [foreign.poll(), supervised.poll(), unclear.poll()] == [None, None, None]
        assert moor("stop", run.info.id).returncode == 0
        assert [foreign.poll(), supervised.poll(), unclear.poll()] == [None, None, None]


@contextmanager
def contained(run_id: str, owner: str) -> Iterator[psutil.Process]:
    """The same in a pid namespace of its own; beside it stays the process that made that."""
    env = {"MOORING_RUN": run_id, "MOORING_OWNER": owner, "PATH": os.defpath}
    command = ["unshare", "--pid", "--fork", "--kill-child", "/bin/sleep", "600"]
    outer = subprocess.Popen(command, env=env, cwd="/")
    try:
        [inner] = until(lambda: psutil.Process(outer.pid).children(), "it is in its namespace")
        until(lambda: inner.name() == "sleep", "the program")
        yield inner
    finally:
        outer.kill()
        outer.wait()


@as_root
def test_which_processes_a_dead_run_has_left() -> None:
    """Those that are wholly its owner's, of this pid namespace, and whose supervisor is certainly
    dead: what another one says of itself ends nothing."""
    run_id, alive = "which-0101-000000-abcd", owners.name_of(os.getpid(), mark_of(os.getpid()))
    with (
        sleeper(run_id, DEAD, 0) as left,
        sleeper(run_id, DEAD, NOBODY),
        sleeper(run_id, alive, 0),
        sleeper(run_id, "garbage", 0),
        contained(run_id, DEAD) as inner,
    ):
        found = {each.pid for each in left_processes(run_id, {run_id: 0})}
        assert found == {left.pid, inner.ppid()}


@as_root
def test_a_folder_of_another_user_names_no_process_to_stop(open_folder: Path) -> None:
    """Root is asked to stop a run in a folder that its owner wrote by hand."""
    moor = Moor(open_folder / "home")
    victim = subprocess.Popen(["/bin/sleep", "600"], cwd="/")
    try:
        job = write_job(open_folder, framework="indexed", command=["true"], roles={"worker": {}})
        forged = open_folder / "forged"
        assert moor("run", job, "-o", forged).returncode == 0
        document = json.loads((forged / "run.json").read_text())
        document.update(pid=victim.pid, pid_mark=mark_of(victim.pid))
        (forged / "run.json").write_text(json.dumps(document))
        (forged / "events.jsonl").write_text("")
        os.chown(forged, NOBODY, NOBODY)
        answer = moor("stop", forged)
        assert answer.returncode == 2 and "not of the folder's owner" in answer.stderr
        assert victim.poll() is None
        for token in ("../../../tmp/x", "abcde", 7, None):
            (forged / "run.json").write_text(json.dumps({**document, "token": token}))
            answer = moor("stop", forged)
            assert answer.returncode == 2 and "found no run directory" in answer.stderr
    finally:
        victim.kill()
        victim.wait()


@as_root
def test_nothing_of_a_run_is_readable_by_others(open_folder: Path) -> None:
    moor = Moor(open_folder / "home")
    (open_folder / "home").mkdir(mode=0o755)
    (open_folder / "train.py").write_text("import os; print('secret'); open('x', 'w')")
    job = write_job(
        open_folder,
        framework="indexed",
        command=["python", "train.py"],
        files=["train.py"],
        roles={"worker": {"replicas": 2}},
    )
    chosen = open_folder / "chosen"
    chosen.mkdir()
    chosen.chmod(0o777)
    before = os.umask(0)
    try:
        assert moor("run", job, "-o", chosen).returncode == 0
        assert moor("run", job, "--detach").returncode == 0
        assert moor("attach", "last").returncode == 0
    finally:
        os.umask(before)
    # The program keeps the umask that its user has.
    assert (chosen / "files" / "x").stat().st_mode & 0o777 == 0o666
    roots = [chosen, next(run.root for run in moor.runs() if run.root.parent != open_folder)]
    for root in roots:
        look = ["find", str(root), "-type", "f", "-readable"]
        seen = subprocess.run(
            look, capture_output=True, text=True, user=NOBODY, group=NOBODY, extra_groups=[]
        )
        assert seen.stdout == "" and "Permission denied" in seen.stderr
        journals = [path for path in root.rglob("*") if path.is_dir() or "jsonl" in path.name]
        journals += [*root.glob("*.json"), *root.glob("*.yaml"), *root.glob("logs/*")]
        assert len(journals) > 12
        assert [path for path in journals if path.stat().st_mode & 0o077] == []


@as_root
def test_a_folder_of_another_user_is_no_place_for_a_run(open_folder: Path) -> None:
    theirs = open_folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    job = write_job(open_folder, framework="indexed", command=["true"], roles={"worker": {}})
    answer = Moor(open_folder / "home")("run", job, "-o", theirs)
    assert answer.returncode == 2 and "a folder of another user" in answer.stderr
    assert list(theirs.iterdir()) == [] and theirs.stat().st_mode & 0o777 == 0o755


def test_the_callers_variables_are_not_kept(tmp_path: Path) -> None:
    """Also not the PATH that ranks of MPI are found by."""
    moor = Moor(tmp_path / "home")
    tools = tmp_path / "canary-tools"
    tools.mkdir()
    (tools / "mpirun").write_text("#!/bin/sh\ncommand -v moor-rsh && echo $PLAIN\n")
    (tools / "mpirun").chmod(0o755)
    roles = {"launcher": {"command": ["mpirun"]}, "worker": {"replicas": 1}}
    job = write_job(tmp_path, framework="mpi", roles=roles)
    env = {"PATH": f"{tools}{os.pathsep}{moor.env['PATH']}", "PLAIN": "canary", "API_KEY": "canary"}
    answer = moor("run", job, env=env)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    run = moor.only_run()
    lines = moor("logs", "last").stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == [f"{run.root}/bin/moor-rsh", "canary"]
    run.log_file("launcher-0").unlink()
    kept = [path for path in moor.home.rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert [path for path in kept if b"canary" in path.read_bytes()] == []


def test_a_step_of_the_clock_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mooring.record import create_run, holding_runs

    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    run = create_run("clock", directory=None, virtual_nodes=0, source="", version="0")
    with sleeper(run.info.id, owners.name_of(os.getpid(), run.info.start_mark), os.getuid()) as one:
        # What psutil tells of a start is the boot's time by the wall clock and the ticks since.
        started = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: started(self) + 2.5)
        assert run.alive() and not run.is_dead()
        assert [each.info.id for each in holding_runs()] == [run.info.id]
        assert left_processes(run.info.id) == []
        assert one.poll() is None


def test_a_container_that_shares_the_folder_does_not_end_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process ids of another pid namespace say nothing here."""
    from mooring.record.retention import ended_runs

    monkeypatch.setenv("MOORING_HOME", str(tmp_path))
    boot, namespace, ticks = mark_of(os.getpid()).split("/")
    elsewhere = f"{boot}/{int(namespace) + 1}/{ticks}"
    assert not owners.is_dead(owners.name_of(2**22 + 1, elsewhere))
    assert owners.is_dead(owners.name_of(2**22 + 1, mark_of(os.getpid())))
    assert owners.is_dead(owners.name_of(os.getpid(), f"another-boot/{namespace}/{ticks}"))
    from mooring.record import create_run

    run = create_run("there", directory=None, virtual_nodes=0, source="", version="0")
    document = json.loads((run.root / "run.json").read_text())
    document.update(pid=2**22 + 1, pid_mark=elsewhere)
    (run.root / "run.json").write_text(json.dumps(document))
    assert ended_runs() == []
    run.released_file.touch()
    assert [each.run.info.id for each in ended_runs()] == [run.info.id]
