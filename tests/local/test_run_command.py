"""`moor run -- COMMAND`: a job without a file, as a user starts it from a shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from mooring.cli.main import cli, main
from mooring.spec import load_job
from support.moor import Moor

TELL = (
    "import os; print('index', os.environ['MOORING_INDEX'], os.getcwd(), os.environ.get('STEPS'))"
)
#: Beside the script it is found before any other torch.
STUB = "def ones(): return 1\n"


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(TELL)
    return folder


def test_a_command_runs_in_the_current_folder_and_is_saved_as_it_ran(
    moor: Moor, here: Path
) -> None:
    answer = moor(
        *("run", "--workers", "2", "--env", "STEPS=100", "--memory", "1Gi", "--save", "job.yaml"),
        *("--", "python", "train.py", "--set", "x"),
        cwd=here,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "framework: indexed (train.py imports no engine)" in answer.stdout
    assert "wrote job.yaml" in answer.stdout
    lines = sorted(line.partition("| ")[2] for line in moor("logs", "last").stdout.splitlines())
    assert lines == [f"index {index} {here} 100" for index in range(2)]
    saved = here / "job.yaml"
    assert load_job(saved) == load_job(moor.only_run().job_file)
    assert "moor run --workers 2 --memory 1Gi -- python train.py --set x\n" in saved.read_text()
    assert load_job(saved).spec.command == ("python", "train.py", "--set", "x")
    assert moor("validate", saved).returncode == 0
    before = saved.read_text()
    again = moor("run", "--save", "job.yaml", "--", "true", cwd=here)
    assert (again.returncode, saved.read_text()) == (2, before)
    assert "job.yaml, which exists" in again.stderr


def test_a_job_that_is_saved_elsewhere_still_runs_in_the_current_folder(
    moor: Moor, here: Path
) -> None:
    (here / "jobs").mkdir()
    assert moor("run", "--save", "jobs/j.yaml", "--", "pwd", cwd=here).returncode == 0
    assert moor("run", here / "jobs" / "j.yaml").returncode == 0
    assert moor("logs", "last").stdout == f"worker-0 | {here}\n"
    assert moor("logs", moor.runs()[0].info.id).stdout == f"worker-0 | {here}\n"


def test_the_framework_is_seen_from_the_imports(moor: Moor, here: Path) -> None:
    (here / "torch.py").write_text(STUB)
    (here / "model.py").write_text("import torch\n")
    (here / "train.py").write_text(
        "import os, model\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'])\n"
    )
    answer = moor("run", "--workers", "2", "--processes", "2", "--", "python", "train.py", cwd=here)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "framework: pytorch (train.py imports torch)" in answer.stdout
    lines = {line.partition("| ")[2] for line in moor("logs", "last").stdout.splitlines()}
    assert lines == {f"{rank} 4" for rank in range(4)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train.py"], "moor run -- python train.py"),
        (["--workers", "2", "train.py", "--lr", "1"], "--workers 2 -- python train.py --lr 1"),
        (["python", "train.py"], "moor run -- python train.py"),
        (["r.sh", "x"], "moor run -- sh r.sh x"),
        (["prog"], "moor run -- ./prog"),
        (["--", "train.py"], "moor run -- python train.py"),
        (["x" * 300], "file name too long"),
        (["--"], "no command after '--'"),
        (["job.yaml", "--", "true"], "one of the two"),
        (["job.yaml", "--workers", "3"], "--set roles.worker.replicas=3"),
        (["job.yaml", "--save", "x.yaml"], "--save"),
        (["--", "python", "gone.py"], "'gone.py', which is not in"),
        (["--ps", "1", "--framework", "pytorch", "--", "true"], "--ps"),
        (["--cpus", "lots", "--", "true"], "--cpus: found the text 'lots'"),
        (["--name", "Upper", "--", "true"], "--name"),
        (["--framework", "torch", "--", "true"], "did you mean 'pytorch'"),
        (["--framework", "pytorch", "--env", "RANK=1", "--", "true"], "RANK"),
        (["--env", "hunter2", "--", "true"], "KEY=VALUE"),
        (["--env", "MOORING_X=1", "--", "true"], "MOORING_X"),
        (["--env-file", "bad.env", "--", "true"], "line (line 2)"),
        (["--env-file", "rank.env", "--framework", "pytorch", "--", "true"], "RANK"),
        (["--save", "gone/job.yaml", "--", "true"], "--save"),
    ],
)
def test_a_bad_command_line_is_refused_with_what_would_work(
    moor: Moor,
    here: Path,
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (here / "job.yaml").write_text("never read")
    (here / "prog").write_text("#!/bin/sh\n")
    (here / "bad.env").write_text("A=1\nhunter2\n")
    (here / "rank.env").write_text("RANK=hunter2\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("MOORING_HOME", str(moor.home))
    monkeypatch.setattr(sys, "argv", ["moor", "run", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    stderr = capsys.readouterr().err
    assert ended.value.code == 2, stderr
    assert said in stderr
    assert "hunter2" not in stderr
    assert moor.runs() == []


def test_a_shell_completes_an_unfinished_line(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    for line, found in (
        (["run", "train.py", "--wor"], "--workers"),
        (["run", "--framework", "py"], "pytorch"),
        (["run", "--", "python", "tr"], None),
    ):
        *words, unfinished = line
        complete = ShellComplete(cli, {}, "moor", "_MOOR_COMPLETE")
        items = [item.value for item in complete.get_completions(words, unfinished)]
        assert found is None or found in items


@pytest.mark.framework
def test_ranks_of_mpi_without_a_job_file(moor: Moor, here: Path) -> None:
    (here / "train.py").write_text(
        "from mpi4py import MPI\nw = MPI.COMM_WORLD\nprint('sum', w.allreduce(w.rank), w.size)\n"
    )
    answer = moor("run", "--workers", "2", "--", "python", "train.py", cwd=here)
    assert answer.returncode == 0, answer.stdout + moor("logs", "last").stdout
    assert "framework: mpi (train.py imports mpi4py)" in answer.stdout
    assert moor("logs", "last").stdout.count("sum 1 2") == 2
