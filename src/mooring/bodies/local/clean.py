"""Removing what killed runs left: by the marks that every part of a run carries.

Processes carry the run's id in their environment; namespaces, bridges and control groups carry
its token in their names. What belongs to a run whose `moor` process is alive is never touched,
whoever started it.
"""

from __future__ import annotations

from contextlib import suppress

import psutil

from mooring.bodies.local import cgroups, netns, owners, processes
from mooring.model.status import Phase
from mooring.record import Journal, RunRecord, list_runs, read_lines


def clean_run(run: RunRecord) -> list[str]:
    """Everything that one dead run left on this machine."""
    removed = []
    killed = processes.kill_marked(run.info.id)
    if killed:
        removed.append(f"{killed} processes of {run.info.id}")
    groups = cgroups.left_tokens().get(run.info.token, [])
    for group in groups:
        cgroups.remove_tree(group)
    if groups:
        removed.append(f"the control groups of {run.info.id}")
    if run.info.token in netns.left_tokens():
        netns.remove(run.info.token)
        removed.append(f"the namespaces and bridge of {run.info.id}")
    owners.release(run.info.token)
    _write_end(run)
    return removed


def clean_machine(*, dry_run: bool) -> list[str]:
    """Everything that dead runs left, also runs whose directory has been deleted."""
    # First what there is, then who is alive: a run that starts meanwhile claims before it makes.
    groups_left, networks_left = cgroups.left_tokens(), netns.left_tokens()
    runs = list_runs()
    alive_tokens = {run.info.token for run in runs if run.alive()} | owners.living_tokens()
    removed = []
    by_run: dict[str, list[psutil.Process]] = {}
    for process in processes.marked_processes(None):
        with suppress(psutil.Error):
            environment = process.environ()
            # Members in pods on this machine carry the mark, too. They have a kubelet, no owner.
            owner = environment.get(owners.OWNER_VARIABLE)
            if owner is not None and not owners.is_alive(owner):
                by_run.setdefault(environment[processes.RUN_VARIABLE], []).append(process)
    for run_id, left in by_run.items():
        removed.append(f"{len(left)} processes of {run_id}")
        if not dry_run:
            processes.kill_marked(run_id)
    for token, groups in groups_left.items():
        if token not in alive_tokens:
            removed.append(f"control groups {cgroups.PREFIX}{token}")
            for group in groups if not dry_run else ():
                cgroups.remove_tree(group)
    for token in networks_left - alive_tokens:
        removed.append(f"namespaces {netns.NAMESPACE_PREFIX}{token}-* and their bridge")
        if not dry_run:
            netns.remove(token)
    if not dry_run:
        for token in owners.dead_tokens():
            owners.release(token)
        for run in runs:
            if not run.alive():
                _write_end(run)
    return removed


def _write_end(run: RunRecord) -> None:
    """A killed run could not say that it ended; say it for it."""
    phases = [line for line in read_lines(run.events_file) if line.get("kind") == "phase"]
    if phases and Phase(str(phases[-1]["phase"])).final:
        return
    with suppress(OSError):
        journal = Journal(run.events_file)
        journal.append(
            {
                "t": run.events_file.stat().st_mtime,
                "kind": "phase",
                "phase": Phase.FAILED.value,
                "reason": "its moor process was killed",
            }
        )
        journal.close()
