"""What do looks at trainers' stacks cost, and what do the remedies bring that follow from them?

Looks: one PyTorch trainer, with and without a py-spy that looks at it as `moor run` lets it, in
short turns: the CPU time of a step, which hardly depends on who else uses the machine; and the CPU
time that py-spy takes. Remedies: `jobs/beside.py` does something beside training; then what the
doctor says: a loader process, one file instead of many, or so many times less often.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from moored import Moor, temporary_moor
from pairs import Ratios, interleave, orders, ratios
from results import JOBS, Machine, options, say, show, write
from training import command_setting

from mooring.doctor.findings.often import times_less
from mooring.doctor.read_run import read_run
from mooring.record.runs import open_run
from mooring.stacks import Category, find_tool
from mooring.stacks.tool import command
from mooring.stacks.watch import QUICK, SLOW

BESIDE = JOBS / "beside.yaml"
_TURN_S = 3.0
OFTEN = {
    "save": Category.CHECKPOINT,
    "log": Category.LOGGING,
    "evaluate": Category.EVALUATION,
}


def main() -> None:
    parser = options(__doc__, pairs=5, seconds=6.0)
    parser.add_argument("--only", default="", help="looks, or a cause")
    arguments = parser.parse_args()
    tool = find_tool()
    if tool is None:
        raise SystemExit("py-spy is not installed")
    machine = Machine("torch")
    figures: dict[str, object] = {}
    if arguments.only in ("", "looks"):
        figures["looks"] = _looks(tool, arguments.pairs)
    rows: list[Sequence[str]] = []
    with temporary_moor() as moor:
        for cause in ("decode", "files", "save", "log", "evaluate"):
            if arguments.only not in ("", cause):
                continue
            before = partial(_speed, moor, arguments.seconds, "--cause", cause)
            remedy = _remedy(moor, cause)
            say(f"{cause}: {' '.join(remedy)}, {arguments.pairs} pairs")
            after = partial(_speed, moor, arguments.seconds, *remedy)
            pairs = interleave(before, after, arguments.pairs)
            gain = ratios(pairs, lambda speed: speed)
            rows.append([cause, " ".join(remedy), str(gain)])
            figures[cause] = {
                "remedy": list(remedy),
                "examples_per_s": [[round(one, 1) for one in pair] for pair in pairs],
                "after_over_before": gain.document(),
            }
    if rows:
        show("Remedies", ["cause", "remedy", "examples/s, after / before"], rows)
    write("stacks", machine, figures)


def _remedy(moor: Moor, cause: str) -> tuple[str, ...]:
    """As the doctor says it of a run with the cause."""
    if cause == "decode":
        return "--cause", cause, "--workers", "1"
    if cause == "files":
        return "--cause", "packed"
    run = moor.finished(BESIDE, settings=[_setting(8.0, "--cause", cause)])
    record = open_run(run.folder)
    assert record is not None
    [member] = read_run(record).members
    share = member.stacks[0].share(OFTEN[cause])
    return "--cause", cause, "--every", str(times_less(share))


def _setting(seconds: float, *more: str) -> str:
    return command_setting(["python", "beside.py", "--seconds", str(seconds), *more])


def _speed(moor: Moor, seconds: float, *more: str) -> float:
    report = moor.run(BESIDE, settings=[_setting(seconds, *more)])
    return float(report["examples_per_s"])


def _looks(tool: str, pairs: int) -> dict[str, object]:
    """CPU time of a step while somebody looks at the process and while nobody does."""
    say(f"looks: {pairs} pairs of turns for each rate")
    seconds = 15 + 2 * (2 * pairs * (_TURN_S + 1) + 10)
    argv = [sys.executable, str(JOBS / "beside.py"), "--seconds", str(seconds)]
    env = {**os.environ, "MOORING_MEMBER": "worker-0"}
    trainer = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env)
    times: list[float] = []

    def read() -> None:
        assert trainer.stdout is not None
        for _ in trainer.stdout:
            times.append(time.monotonic())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    found: dict[str, object] = {}
    rows: list[Sequence[str]] = []
    try:
        while len(times) < 100:
            time.sleep(0.05)
        for name, (turn_s, hz) in {"first seconds": QUICK, "later": SLOW}.items():
            speed = _in_turns(tool, trainer.pid, hz, times, pairs)
            cpu = _cpu_share(tool, trainer.pid, turn_s, hz)
            rows.append([name, str(hz), f"{100 * cpu:.2f} %", str(speed)])
            found[name] = {
                "hz": hz,
                "cpu_share": round(cpu, 5),
                "with_over_without": speed.document(),
            }
    finally:
        trainer.kill()
        trainer.wait()
    columns = ["looks", "a second", "CPU time of py-spy", "CPU time a step, with / without"]
    show("Looking at one trainer", columns, rows)
    return found


def _in_turns(tool: str, pid: int, hz: int, times: list[float], pairs: int) -> Ratios:
    values = []
    for order in orders(pairs):
        costs: dict[int, float] = {}
        for looked in order:
            looker = _looker(tool, pid, int(_TURN_S) + 2, hz) if looked else None
            time.sleep(0.5)
            begun_s, used_before_s = time.monotonic(), _cpu_s(pid)
            time.sleep(_TURN_S)
            ended_s, used_s = time.monotonic(), _cpu_s(pid)
            if looker is not None:
                looker.kill()
                looker.wait()
            inside = sum(begun_s <= at_s < ended_s for at_s in list(times))
            costs[looked] = (used_s - used_before_s) / inside
        values.append(costs[1] / costs[0])
    return Ratios(tuple(values))


def _cpu_s(pid: int) -> float:
    """Of all threads, to the nanosecond: /proc/PID/stat counts in ticks of 10 ms."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _looker(tool: str, pid: int, seconds: int, hz: int) -> subprocess.Popen[bytes]:
    output = Path(tempfile.gettempdir()) / f"looks-{pid}.json"
    return subprocess.Popen(
        command(tool, pid, seconds, hz, output),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _cpu_share(tool: str, pid: int, seconds: int, hz: int) -> float:
    """Of one CPU, its start included."""
    begun_s = time.monotonic()
    looker = _looker(tool, pid, seconds, hz)
    _, _, used = os.wait4(looker.pid, 0)
    looker.returncode = 0
    (Path(tempfile.gettempdir()) / f"looks-{pid}.json").unlink(missing_ok=True)
    return (used.ru_utime + used.ru_stime) / (time.monotonic() - begun_s)


if __name__ == "__main__":
    main()
