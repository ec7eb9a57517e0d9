"""Run directories: what a run leaves on disk, readable after a crash."""

from mooring.record.journal import Tail
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
    "runs_dir",
]
