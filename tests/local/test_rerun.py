"""A run once more; and what a run's folder knows of the environment: no secret."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.moor import Moor, write_job

SECRETS = {"SHELL_TOKEN": "canary-shell", "FILE_TOKEN": "canary-file", "FILE_PLAIN": "canary-plain"}
OPTION = "canary-option"
#: Prints how long each is: what the program itself prints is its own affair.
COUNT = "import os; print(*[len(os.environ.get(n, '')) for n in os.environ['NAMES'].split(',')])"


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def test_members_get_the_environment_and_nobody_writes_it_down(moor: Moor, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COUNT)
    (tmp_path / "x.env").write_text(
        f"# keys\nexport FILE_TOKEN='{SECRETS['FILE_TOKEN']}'\nFILE_PLAIN={SECRETS['FILE_PLAIN']}\n"
    )
    names = ["SHELL_TOKEN", "FILE_TOKEN", "FILE_PLAIN", "OPTION_KEY"]
    answer = moor(
        *("run", "--env-file", "x.env", "--env", f"OPTION_KEY={OPTION}"),
        *("--env", f"NAMES={','.join(names)}", "--save", "job.yaml", "--", "python", "train.py"),
        cwd=tmp_path,
        env={"SHELL_TOKEN": SECRETS["SHELL_TOKEN"], "OMP_NUM_THREADS": "3"},
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    lengths = [len(value) for value in (*SECRETS.values(), OPTION)]
    assert moor("logs", "last").stdout == f"worker-0 | {' '.join(map(str, lengths))}\n"
    run = moor.only_run()
    assert moor("report", "last", "-o", "html", "--file", run.root / "r.html").returncode == 0
    written = [path for path in run.root.rglob("*") if path.is_file()]
    texts = {str(path): path.read_bytes() for path in (*written, tmp_path / "job.yaml")}
    assert any(path.endswith("contract-0-0.json") for path in texts)
    assert [path for path, text in texts.items() if b"canary" in text] == []
    assert "canary" not in answer.stdout + answer.stderr
    start = json.loads(run.start_file.read_text())
    assert start["values"]["OMP_NUM_THREADS"] == "3"
    assert set(names) <= set(start["names"])
    [contract] = run.root.glob("members/*/contract-*.json")
    env = json.loads(contract.read_text())["env"]
    assert not {"HOME", "OMP_NUM_THREADS", "MOORING_HOME"} & set(env)
    assert env["MOORING_INDEX"] == "0"


def test_a_run_is_repeated_and_says_what_has_changed(moor: Moor, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    script = folder / "train.py"
    script.write_text("import os, sys; print(os.getcwd(), sys.argv[1:], os.environ.get('DATA'))")
    env_file = folder / "x.env"
    env_file.write_text("DATA=here\n")
    first = moor(
        *("run", "--name", "demo", "--env-file", "x.env", "--", "python", "train.py", "a"),
        cwd=folder,
        env={"NCCL_DEBUG": "INFO"},
    )
    assert first.returncode == 0, first.stdout + first.stderr
    same = moor("rerun", "demo", cwd=tmp_path, env={"NCCL_DEBUG": "INFO"})
    assert same.returncode == 0, same.stdout + same.stderr
    assert "changed since" not in same.stdout
    assert moor("logs", "last").stdout == f"worker-0 | {folder} ['a'] here\n"

    script.write_text(script.read_text() + "\n# later\n")
    env_file.unlink()
    other = moor("rerun", "--set", "command=[python, train.py, b]", env={"NCCL_DEBUG": "WARN"})
    assert other.returncode == 0, other.stdout + other.stderr
    assert f"changed since: {script} has changed" in other.stdout
    assert f"changed since: {env_file} is gone" in other.stdout
    assert "changed since: not set any more: DATA" in other.stdout
    assert "changed since: NCCL_DEBUG was INFO, is WARN" in other.stdout
    assert moor("logs", "last").stdout == f"worker-0 | {folder} ['b'] None\n"

    folder.rename(tmp_path / "moved")
    gone = moor("rerun")
    assert gone.returncode == 2
    assert f"{folder}, where it ran, is gone" in gone.stderr
    assert len(moor.runs()) == 3


def test_files_that_a_run_copied_are_those_of_its_repetition(moor: Moor, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text("print('first')")
    job = write_job(
        folder,
        framework="indexed",
        command=["python", "train.py"],
        files=["train.py"],
        roles={"worker": {}},
    )
    assert moor("run", job).returncode == 0
    (folder / "train.py").write_text("print('second')")
    answer = moor("rerun", "last")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert moor("logs", "last").stdout == "worker-0 | first\n"
    folder.rename(tmp_path / "moved")
    assert moor("rerun", "last").returncode == 0
    assert moor("logs", "last").stdout == "worker-0 | first\n"


def test_a_repetition_has_the_python_of_the_run(moor: Moor, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (tmp_path / "train.py").write_text("import sys; print(sys.prefix)")
    first = moor(
        "run", "--", "python", "train.py", cwd=tmp_path, env={"PATH": f"{venv}/bin:/usr/bin:/bin"}
    )
    assert first.returncode == 0, first.stdout + first.stderr
    again = moor("rerun")
    assert f"python: {venv}/bin/python" in again.stdout
    assert moor("logs", "last").stdout == f"worker-0 | {venv}\n"
    (venv / "bin" / "python").unlink()
    replaced = moor("rerun", "last")
    assert replaced.returncode == 0
    assert f"changed since: python was {venv}/bin/python" in replaced.stdout


def test_a_run_that_does_not_say_where_it_was_started_is_refused(
    moor: Moor, tmp_path: Path
) -> None:
    job = write_job(tmp_path, framework="indexed", command=["true"], roles={"worker": {}})
    assert moor("run", job).returncode == 0
    moor.only_run().start_file.unlink()
    answer = moor("rerun")
    assert answer.returncode == 2
    assert f"moor run {moor.only_run().job_file}" in answer.stderr
    assert moor("rerun", "nothing").returncode == 2
