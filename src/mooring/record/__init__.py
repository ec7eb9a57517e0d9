"""Run directories: what a run leaves on disk, written append-only and readable after a crash."""

from mooring.record.journal import Journal, Tail, read_lines
from mooring.record.runs import (
    RunInfo,
    RunName,
    RunRecord,
    create_run,
    find_run,
    holding_runs,
    list_runs,
)
from mooring.record.state_home import locks_dir, plan_lock, runs_dir

__all__ = [
    "Journal",
    "RunInfo",
    "RunName",
    "RunRecord",
    "Tail",
    "create_run",
    "find_run",
    "holding_runs",
    "list_runs",
    "locks_dir",
    "plan_lock",
    "read_lines",
    "runs_dir",
]
