"""Does the doctor find what is wrong, and keep silent where nothing is?

Every cause is injected into a real run on this machine; the finding that names it must come first.
Healthy runs must have none. Causes that need root (virtual nodes, control groups, mounts) or py-spy
are left out without it, and counted as such.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import yaml
from injections import Case, healthy, injected
from moored import Moor, temporary_moor
from results import Machine, say, show, write

from mooring.doctor import diagnose_run
from mooring.doctor.read_run import read_run
from mooring.record.runs import open_run
from mooring.stacks import find_tool

_TIMEOUT_S = 400


def findings(moor: Moor, case: Case) -> list[str]:
    """Run the case and return what the doctor finds, worst first."""
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=moor.home))
    job = case.job if isinstance(case.job, Path) else _write(case, moor.home)
    command = [*case.prefix, sys.executable, "-m", "mooring", "run", str(job), "-o", str(folder)]
    for setting in case.settings:
        command += ["--set", setting]
    if case.nodes:
        command += ["--nodes", str(case.nodes), "--nic-mbps", str(case.nic_mbps)]
    bench = {"BENCH_OUT": tempfile.mkdtemp(prefix="out-", dir=moor.home)}
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=moor.env({**bench, **case.env}),
    )
    try:
        with case.disturb(folder) if case.disturb else nullcontext():
            output, _ = process.communicate(timeout=_TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"{case.name}: moor run failed:\n{output}")
    run = open_run(folder)
    assert run is not None
    return [finding.id for finding in diagnose_run(read_run(run)).findings]


def _write(case: Case, folder: Path) -> Path:
    head = {"apiVersion": "mooring.dev/v1", "kind": "TrainingJob", "metadata": {"name": "case"}}
    path = Path(tempfile.mkdtemp(prefix="job-", dir=folder)) / "job.yaml"
    path.write_text(yaml.safe_dump({**head, "spec": dict(case.job)}, sort_keys=False))  # type: ignore[call-overload]
    return path


def _needs_stacks(case: Case) -> bool:
    return case.finding == "input-bound" or case.finding.endswith("-often")


def _needs_root(case: Case) -> bool:
    return bool(case.nodes or case.disturb or case.prefix or case.finding == "mem-limit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    only = parser.parse_args().only
    machine = Machine("tensorflow-cpu", "torch")
    rows, left_out = [], []
    with temporary_moor() as moor:
        for case in (*injected(), *healthy()):
            if only not in case.name:
                continue
            blind = _needs_stacks(case) and find_tool() is None
            if blind or (_needs_root(case) and os.geteuid() != 0):
                left_out.append(case.name)
                continue
            found = findings(moor, case)
            right = found[:1] == [case.finding] if case.finding else not found
            rows.append({"case": case.name, "wanted": case.finding, "found": found, "right": right})
            say(f"{'ok ' if right else 'NOT'} {case.name}: {', '.join(found) or 'nothing'}")
    causes = [row for row in rows if row["wanted"]]
    fine = [row for row in rows if not row["wanted"]]
    named = sum(bool(row["right"]) for row in causes)
    alarms = sum(not row["right"] for row in fine)
    show(
        f"{named} of {len(causes)} causes named first; {alarms} false alarms in {len(fine)} "
        "healthy runs",
        ("case", "wanted", "found"),
        [
            (
                str(row["case"]),
                str(row["wanted"] or "nothing"),
                ", ".join(row["found"]) or "nothing",
            )  # type: ignore[arg-type]
            for row in rows
        ],
    )
    write("doctor", machine, {"rows": rows, "left_out": left_out})


if __name__ == "__main__":
    main()
