"""Removing what killed runs left: by the marks that every part of a run carries.

Processes carry the name of their run and of its `moor` process in their environment; namespaces,
bridges and control groups carry its token in their names. A process is ended if it is of the run's
owner and its own `moor` process is dead, whatever else it, or another one, claims to be. What
belongs to a run whose `moor` process is alive is never touched, whoever started it.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import partial

import psutil

from mooring.backends.local import cgroups, netns, owners, processes
from mooring.model.errors import BadInput
from mooring.model.status import Phase
from mooring.record import RunRecord, list_runs
from mooring.wire import Journal, read_journal
from mooring.wire.events import PhaseChanged


def clean_run(run: RunRecord) -> list[str]:
    """Everything that one dead run left on this machine."""
    removed = []
    owner_uid = run.root.stat().st_uid
    find = partial(processes.left_processes, run.info.id, {run.info.id: owner_uid})
    killed = processes.kill_until_none(find)
    if killed:
        removed.append(f"{killed} processes of {run.info.id}")
    # Somebody else's folder may name any token.
    if owner_uid == os.geteuid() and run.info.token not in owners.living_tokens():
        removed += _clean_token(run)
    _write_end(run)
    return removed


def _clean_token(run: RunRecord) -> list[str]:
    removed = []
    groups = cgroups.left_tokens().get(run.info.token, [])
    for group in groups:
        cgroups.remove_tree(group)
    if groups:
        removed.append(f"the control groups of {run.info.id}")
    if run.info.token in netns.left_tokens():
        netns.remove(run.info.token)
        removed.append(f"the namespaces and bridge of {run.info.id}")
    owners.release(run.info.token)
    return removed


def clean_machine(*, dry_run: bool) -> list[str]:
    """Everything that dead runs left, also runs whose directory has been deleted."""
    # First what there is, then who is alive: a run that starts meanwhile claims before it makes.
    groups_left, networks_left = cgroups.left_tokens(), netns.left_tokens()
    runs = list_runs()
    alive_tokens = {run.info.token for run in runs if not run.is_dead()} | owners.living_tokens()
    uids = {run.info.id: run.root.stat().st_uid for run in runs}
    find = partial(processes.left_processes, None, uids)
    left = Counter(map(_run_of, find()))
    removed = [f"{count} processes of {run_id}" for run_id, count in left.items()]
    if left and not dry_run:
        processes.kill_until_none(find)
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
            if run.is_dead():
                _write_end(run)
    return removed


def _run_of(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return process.environ().get(processes.RUN_VARIABLE, "?")
    return "a run"


def _write_end(run: RunRecord) -> None:
    """A killed run could not say that it ended; say it for it."""
    try:
        phases = list(read_journal(run.events_file, PhaseChanged))
    except BadInput:
        return  # a run of a newer Mooring, which may say more than this one can
    if phases and phases[-1].phase.final:
        return
    epoch = phases[-1].epoch if phases else 0
    with suppress(OSError):
        journal = Journal(run.events_file)
        ended_s = run.events_file.stat().st_mtime
        journal.append(PhaseChanged(ended_s, Phase.FAILED, epoch, "its moor process was killed"))
        journal.close()
