"""What users get wrong, as they meet it: one sentence, the field's path, exit 2, nothing left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mooring.backends.local import netns
from mooring.launcher.journal import AttemptJournal as LauncherJournal
from mooring.wire import Record, read_journal
from mooring.wire.members import Exit
from support.moor import Moor, leftovers, write_job

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

GOOD: dict[str, Any] = {
    "framework": "indexed",
    "command": ["true"],
    "roles": {"worker": {"replicas": 1}},
}
TOO_MANY = 1 + (os.cpu_count() or 1)


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def with_(**changes: Any) -> dict[str, Any]:
    return {**GOOD, **changes}


BAD_JOBS = [
    pytest.param(with_(rolse={}), ["spec.rolse", "'roles'"], id="unknown field, near one"),
    pytest.param(with_(framework="tensorflw"), ["spec.framework", "tensorflow"], id="framework"),
    pytest.param(
        with_(roles={"worker": {"replicas": 0}}), ["spec.roles.worker.replicas", "0"], id="zero"
    ),
    pytest.param(
        with_(roles={"worker": {"replicas": "two"}}), ["spec.roles.worker.replicas"], id="type"
    ),
    pytest.param(
        with_(framework="pytorch", roles={"wroker": {}}),
        ["spec.roles.wroker", "worker"],
        id="unknown role",
    ),
    pytest.param(
        with_(placement={"preset": "sprad"}), ["spec.placement.preset", "spread"], id="preset"
    ),
    pytest.param(
        with_(roles={"worker": {"resources": {"memory": "4 gigs"}}}),
        ["spec.roles.worker.resources.memory", "4 gigs"],
        id="quantity",
    ),
    pytest.param(with_(gang=False, framework="pytorch"), ["spec.gang"], id="gang"),
    pytest.param(with_(workingDir="nowhere"), ["spec.workingDir", "nowhere"], id="workingDir"),
    pytest.param(with_(files=["gone.py"]), ["spec.files[0]", "gone.py"], id="files"),
    pytest.param(
        with_(roles={"worker": {"resources": {"cpu": TOO_MANY}}}),
        ["0/1 nodes can take worker-0", "insufficient cpu"],
        id="more CPUs than exist",
    ),
]


@pytest.mark.parametrize(("spec", "said"), BAD_JOBS)
def test_a_bad_job_is_refused_by_name(
    moor: Moor, tmp_path: Path, spec: dict[str, Any], said: list[str]
) -> None:
    answer = moor("run", write_job(tmp_path, **spec))
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    for words in said:
        assert words in answer.stderr
    assert moor.runs() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "gone.yaml"], "gone.yaml"),
        (["run", "."], "a folder"),
        (["validate", "/dev/null"], "/dev/null"),
        (["logs", "nothing"], "nothing"),
        (["report", "./nowhere"], "no run directory"),
        (["rnu"], "Did you mean 'run'?"),
        (["run"], "JOB.yaml"),
        (["init", "tensorflw"], "FRAMEWORK"),
    ],
)
def test_a_bad_command_line_is_refused(
    moor: Moor, tmp_path: Path, arguments: list[str], said: str
) -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "mooring", *arguments],
        capture_output=True,
        text=True,
        env=moor.env,
        cwd=tmp_path,
        check=False,
    )
    assert answer.returncode == 2, answer.stderr
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nodes", "0"], "--nodes"),
        (["--nodes", "many"], "--nodes"),
        (["--nic-mbps", "100"], "only with --nodes"),
        (["--set", "roles.worker.replcas=4"], "replicas"),
        (["--set", "nonsense"], "--set"),
    ],
)
def test_bad_options_are_refused(moor: Moor, tmp_path: Path, options: list[str], said: str) -> None:
    answer = moor("run", write_job(tmp_path, **GOOD), *options)
    assert answer.returncode == 2
    assert said in answer.stderr
    assert moor.runs() == []


def test_a_command_that_does_not_exist_fails_the_run_before_anything_starts(
    moor: Moor, tmp_path: Path
) -> None:
    mark = tmp_path / "started"
    job = write_job(
        tmp_path,
        framework="indexed",
        roles={"good": {"command": ["touch", str(mark)]}, "bad": {"command": ["no-such-thing"]}},
    )
    answer = moor("run", job)
    assert answer.returncode == 1
    assert "bad-0" in answer.stdout
    assert "'no-such-thing' not found" in answer.stdout
    # The gang starts whole or not at all: the good command never ran.
    assert not mark.exists()


def test_a_port_in_use_fails_the_run_by_name(moor: Moor, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        job = write_job(tmp_path, **with_(roles={"worker": {"ports": {"main": port}}}))
        answer = moor("run", job)
    assert answer.returncode == 1
    assert f"spec.roles.worker.ports.main: port {port} is in use" in answer.stdout
    assert leftovers(moor.only_run()) == []


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for a run's first files and no more."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@as_root
def test_a_full_disk_is_named_and_leaves_nothing(
    moor: Moor, tmp_path: Path, full_disk: Path
) -> None:
    (full_disk / "filler").write_bytes(bytes(60 * 1024))
    answer = moor("run", write_job(tmp_path, **GOOD), "-o", full_disk / "run")
    assert answer.returncode == 1
    assert "No space left on device" in answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr


@as_root
@pytest.mark.parametrize("who", ["log", "program"])
def test_the_report_says_what_a_full_disk_lost(
    moor: Moor, tmp_path: Path, small_disk: Path, who: str
) -> None:
    """Room was kept for the end: the run is not taken for one that was killed."""
    disk = small_disk
    program = f"""
import sys
if {who!r} == "program":
    with open({str(disk / "filler")!r}, "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)): pass
        except OSError:
            pass
for step in range(20000): print(f"step {{step + 1}} loss 0.5", "x" * 100)
"""
    job = write_job(tmp_path, **{**GOOD, "command": [sys.executable, "-c", program]})
    answer = moor("run", job, "-o", disk / "run")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "lines of its log were lost: the disk was full" in answer.stdout
    told = moor("report", disk / "run").stdout
    assert "Succeeded" in told and "of its log were lost: the disk was full" in told
    assert list(disk.rglob("*.part*")) == [] and list(disk.rglob("*spare*")) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> None:
    """To the last byte that a new file can have; files that are there may have some left."""
    with (disk / "filler").open("ab", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass


@as_root
def test_the_last_record_of_a_member_has_room_on_a_full_disk(small_disk: Path) -> None:
    """Also where the block that its journal ends in is full, too."""
    path = small_disk / "worker-0.jsonl"
    journal = LauncherJournal(str(path), 0, 0)
    try:
        journal.write("ready", {})
        fill(small_disk)
        while not journal.lost:
            journal.write("sample", {"text": "x" * 100})
        journal.last("exit", {"code": 0})
    finally:
        # A launcher keeps it until it ends; the disk could not be taken away.
        os.close(journal._file._fd)
    *_, last = read_journal(path, Record)
    assert isinstance(last, Exit)
    assert (last.code, last.lost_records) == (0, 1)


@as_root
def test_how_a_run_ended_has_room_on_a_full_disk(moor: Moor, small_disk: Path) -> None:
    """After so many restarts on a full disk that nothing more fits into the run's own journal."""
    restarts = {"restart": "gang", "maxRestarts": 25, "backoff": {"initial": 0, "max": 0}}
    program = f"""
with open({str(small_disk / "filler")!r}, "ab", buffering=0) as file:
    while file.write(bytes(4096)): pass
"""
    command = [sys.executable, "-S", "-c", program]
    job = write_job(
        small_disk.parent, **with_(command=command, failurePolicy=restarts, gracePeriod="1s")
    )
    answer = moor("run", job, "-o", small_disk / "run")
    assert answer.returncode == 1, answer.stdout + answer.stderr
    kinds = [each.kind for each in read_journal(small_disk / "run" / "events.jsonl", Record)]
    assert "lost" in kinds
    told = moor("report", small_disk / "run").stdout
    assert "Failed" in told and "entries of the run's own record were lost" in told
    assert "killed" not in told


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach; pytest's own is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


@as_root
def test_without_permission_for_namespaces_it_says_so(open_folder: Path) -> None:
    """As nobody: virtual nodes are refused with the reason, plain processes work."""
    python = _python_for_nobody()
    if python is None:
        pytest.skip("no interpreter that another user may run has Mooring's dependencies")
    moor = Moor(open_folder / "home")
    job = write_job(open_folder, **GOOD)
    job.chmod(0o644)

    def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
        return _as_nobody([python, "-m", "mooring", "run", str(job), *arguments], moor.env)

    refused = as_nobody("--nodes", "2")
    assert refused.returncode == 2, refused.stderr
    assert "virtual nodes need root" in refused.stderr
    fallen_back = as_nobody("--nodes", "auto")
    assert fallen_back.returncode == 0, fallen_back.stdout + fallen_back.stderr
    assert "plain processes: virtual nodes need root" in fallen_back.stdout
    assert "memory limits are not enforced" in fallen_back.stdout


def _python_for_nobody() -> str | None:
    """An interpreter of this version that nobody may run, with our packages by PYTHONPATH."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        probe = [candidate, "-c", "import mooring.app, mooring.cli.run"]
        if Path(candidate).exists() and _as_nobody(probe, dict(os.environ)).returncode == 0:
            return candidate
    return None


def _as_nobody(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    packages = [entry for entry in sys.path if entry.endswith(("site-packages", "src"))]
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            env={**env, "PYTHONPATH": os.pathsep.join(packages), "HOME": "/nonexistent"},
            user=65534,
            group=65534,
            extra_groups=[],
            check=False,
            cwd="/",
        )
    except PermissionError:
        return subprocess.CompletedProcess(argv, 126, "", "")


@pytest.mark.skipif(netns.why_not() is not None, reason=str(netns.why_not()))
def test_more_virtual_nodes_than_cpus_share_them_and_say_so(moor: Moor, tmp_path: Path) -> None:
    count = 2 * len(os.sched_getaffinity(0))
    job = write_job(
        tmp_path,
        **with_(pinning="exclusive", roles={"worker": {"resources": {"cpu": 1}}}),
    )
    answer = moor("run", job, "--nodes", str(count))
    assert answer.returncode == 2
    assert "insufficient cpu" in answer.stderr
    shared = write_job(tmp_path, **GOOD)
    assert moor("run", shared, "--nodes", str(count)).returncode == 0


@pytest.mark.parametrize(
    ("package", "module", "command"),
    [
        ("aiohttp", "aiohttp", "ps"),
        ("orjson", "orjson", "ps"),
        ("protobuf", "google.protobuf", "operator --image i"),
        ("prometheus-client", "prometheus_client", "operator --image i"),
    ],
)
def test_without_the_packages_for_clusters_it_says_what_to_install(
    package: str, module: str, command: str, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(
        "{current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}],"
        " clusters: [{name: x, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: x}]}"
    )
    code = f"import sys; sys.modules[{module!r}] = None; import mooring.cli.main as m; m.main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, *command.split(), "--context", "x"],
        env={**os.environ, "KUBECONFIG": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = f"failed: no {package} here: pip install 'mooring[kubernetes]'\n"
    assert (ran.returncode, ran.stderr) == (1, said)
