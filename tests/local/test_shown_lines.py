"""What a user sees of what members print while a job runs: on a terminal, and in a pipe."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.moor import Moor, write_job
from support.terminal import terminal
from support.waiting import until


@pytest.fixture
def moor(tmp_path: Path) -> Moor:
    return Moor(tmp_path / "home")


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def job_of(folder: Path, code: str, replicas: int = 2) -> Path:
    return write_job(
        folder,
        framework="indexed",
        command=python(code),
        roles={"worker": {"replicas": replicas}},
    )


def member_lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if re.match(r"worker-\d [│!]", line)]


def moor_in(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "mooring", *map(str, arguments)]


def test_a_pipe_gets_every_line_whole_and_plain(moor: Moor, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "print('same'); print('same'); print('x' * 300, os.environ['MOORING_INDEX'])\n"
        "print('\\x1b[31mred\\x1b[0m \\x07')\n"
        "print('::mooring:: {\"step\": 1}')\n"
        "print('bad', file=sys.stderr)"
    )
    answer = moor("run", job_of(tmp_path, code))
    assert answer.returncode == 0, answer.stderr
    for index in "01":
        own = [line for line in member_lines(answer.stdout) if line.startswith(f"worker-{index}")]
        assert [line for line in own if "│" in line] == [
            f"worker-{index} │ same",
            f"worker-{index} │ same",
            f"worker-{index} │ {'x' * 300} {index}",
            f"worker-{index} │ red \\x07",
        ]
        assert f"worker-{index} ! bad" in own
    assert "::mooring::" not in answer.stdout
    assert "\x1b" not in answer.stdout


def test_lines_come_while_the_job_runs(moor: Moor, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.mkdir()
    code = (
        "import os, time\nprint('first', flush=True)\n"
        f"while not os.path.exists({str(gate / 'open')!r}): time.sleep(0.02)\nprint('second')"
    )
    with moor.started("run", job_of(tmp_path, code, 1)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == "worker-0 │ first\n":
                (gate / "open").touch()
                break
        rest = process.stdout.read()
        assert process.wait(60) == 0
    assert "worker-0 │ second\n" in rest


def test_only_shows_the_members_that_are_named(moor: Moor, tmp_path: Path) -> None:
    job = job_of(tmp_path, "print('up')", 3)
    answer = moor("run", job, "--only", "worker-1")
    assert member_lines(answer.stdout) == ["worker-1 │ up"]
    answer = moor("run", job, "--only", "worker")
    assert sorted(member_lines(answer.stdout)) == [f"worker-{index} │ up" for index in range(3)]
    answer = moor("run", job, "--only", "ps")
    assert answer.returncode == 2
    assert "--only: found 'ps'; accepted: one of worker-0, worker-1, worker-2" in answer.stderr
    assert len(moor.runs()) == 2


def test_quiet_shows_only_how_it_ended(moor: Moor, tmp_path: Path) -> None:
    answer = moor("run", "--quiet", job_of(tmp_path, "print('up')"))
    assert answer.returncode == 0
    [line] = answer.stdout.splitlines()
    assert line.startswith(f"{moor.only_run().info.id} Succeeded: ")
    assert answer.stderr == ""


def test_quiet_says_what_a_failed_member_printed_last(moor: Moor, tmp_path: Path) -> None:
    answer = moor("run", "-q", job_of(tmp_path, "raise SystemExit('no data \\x1b[31mhere')", 1))
    assert answer.returncode == 1
    assert answer.stdout.startswith("worker-0 printed last:\n  no data here\n")
    assert "Failed: worker-0 exited with code 1" in answer.stdout


def test_a_flood_is_cut_and_its_last_lines_are_shown(moor: Moor, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for n in range(0, 120000, 1000):\n"
        "    sys.stdout.write(''.join(f'line {k}\\n' for k in range(n, n + 1000)))\n"
        "sys.exit('the reason')"
    )
    answer = moor("run", job_of(tmp_path, code, 1))
    assert answer.returncode == 1
    lines = answer.stdout.splitlines()
    cut = [line for line in lines if "lines not shown, all are in `moor logs " in line]
    assert cut
    skipped = sum(int(line.split()[1].replace(",", "")) for line in cut)
    shown = member_lines(answer.stdout)
    assert skipped + len(shown) == 120_001
    assert "worker-0 ! the reason" in shown
    assert "printed last" not in answer.stdout
    log = moor.only_run().log_file("worker-0").read_bytes()
    assert log.count(b"\n") == 120_001


def test_a_reader_that_leaves_does_not_end_the_job(moor: Moor, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    code = (
        "import os, time\n"
        f"while not os.path.exists({str(mark)!r}): print('more', flush=True); time.sleep(0.02)"
    )
    process = subprocess.Popen(
        moor_in("run", job_of(tmp_path, code, 1)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=moor.env,
    )
    assert process.stdout is not None and process.stderr is not None
    with process:
        assert process.stdout.readline()
        process.stdout.close()
        assert "it goes on" in process.stderr.readline()
        mark.touch()
        assert process.wait(60) == 0
    assert moor.report()["phase"] == "Succeeded"


@pytest.mark.parametrize("columns", [60, 80])
def test_on_a_terminal_lines_scroll_above_the_table(
    moor: Moor, tmp_path: Path, columns: int
) -> None:
    gate = tmp_path / "open"
    code = (
        "import os, sys, time\n"
        "print('hello from the program'); [print('again') for _ in range(12)]\n"
        "print('y' * 200)\n"
        'print(\'::mooring:: {"step": 3, "examples": 8, "loss": 0.5, "total": 9}\')\n'
        "if os.environ['MOORING_INDEX'] == '1': print('alone', file=sys.stderr)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
        "print('last words', file=sys.stderr); sys.exit(4)"
    )
    command = moor_in("run", job_of(tmp_path, code))
    with terminal(columns, 24, command, moor.env) as window:
        shown = ("worker-1 ! alone", "3/9 steps")
        until(lambda: all(words in window.screen() for words in shown), "lines and steps", 60)
        until(lambda: window.screen().count(" running ") == 2, "both running", 60)
        screen = window.screen().splitlines()
        table = next(n for n, line in enumerate(screen) if line.startswith("member"))
        assert [line.split()[0] for line in screen[table + 1 :] if line] == ["worker-0", "worker-1"]
        assert not any("…" in line for line in screen if "yyyy" not in line)
        assert screen.index("worker-1 ! alone") < table
        # Both print the same at about the same time; whether within one look depends on them.
        assert any(line.endswith("│ hello from the program") for line in screen)
        assert any("│ again (×12)" in line for line in screen)
        assert any("yyyy…" in line for line in screen)
        gate.touch()
        until(lambda: window.exit_code() is not None, "the end", 60)
        assert window.exit_code() == 1
        everything = window.everything()
        assert "! last words" in everything
        assert "printed last" not in everything
        report = window.screen()
        assert "4 failed" in report and "peak memory" in report
        assert "…" not in report.rpartition("Failed")[2]


def test_lines_that_were_written_at_once_are_followed_in_their_order(
    moor: Moor, tmp_path: Path
) -> None:
    code = "import sys; sys.stdout.write('Traceback:\\n  File b\\n  File a\\nError\\n')"
    assert moor("run", "-q", job_of(tmp_path, code, 1)).returncode == 0
    for follow in ((), ("--follow",)):
        lines = moor("logs", "last", *follow).stdout.splitlines()
        assert [line.partition("| ")[2] for line in lines] == [
            "Traceback:",
            "  File b",
            "  File a",
            "Error",
        ]
        assert moor("logs", "last", "-n", "1", *follow).stdout == "worker-0 | Error\n"


def test_an_output_that_nobody_reads_does_not_hold_up_the_job(moor: Moor, tmp_path: Path) -> None:
    """Far more than a pipe holds: the view waits to write, the job ends all the same."""
    code = "for n in range(20000): print('a line of the program', n)"
    process = subprocess.Popen(
        moor_in("run", job_of(tmp_path, code, 1)), stdout=subprocess.PIPE, text=True, env=moor.env
    )
    with process:
        until(lambda: moor.runs() and "Succeeded" in events(moor), "the job's end", 60)
        assert process.poll() is None
        assert process.stdout is not None
        shown = process.stdout.read()
        assert process.wait(60) == 0
    assert len(member_lines(shown)) == 20000
    assert f"{moor.only_run().info.id}  Succeeded" in shown


def events(moor: Moor) -> str:
    try:
        return moor.only_run().events_file.read_text()
    except FileNotFoundError:
        return ""


def test_closed_standard_streams_do_not_matter(moor: Moor, tmp_path: Path) -> None:
    command = " ".join(moor_in("run", job_of(tmp_path, "print('up')", 1)))
    for closed in ("<&-", ">&-", ">&- 2>&- <&-"):
        answer = subprocess.run(
            ["sh", "-c", f"{command} {closed}"],
            capture_output=True,
            text=True,
            env=moor.env,
            timeout=60,
            check=False,
        )
        assert (answer.returncode, answer.stderr) == (0, "")
    assert {line for run in moor.runs() for line in run.log_file("worker-0").open()}


def test_lines_of_several_processes_in_a_member_say_which_one(moor: Moor, tmp_path: Path) -> None:
    code = "import os; print('rank', os.environ['RANK'])"
    job = write_job(
        tmp_path,
        framework="pytorch",
        command=python(code),
        roles={"worker": {"replicas": 2, "processes": 2}},
    )
    answer = moor("run", job)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    lines = [line for line in answer.stdout.splitlines() if "│" in line]
    assert sorted(lines) == [
        "worker-0:0 │ rank 0",
        "worker-0:1 │ rank 1",
        "worker-1:0 │ rank 2",
        "worker-1:1 │ rank 3",
    ]
