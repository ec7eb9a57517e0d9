"""What a launcher on this machine is started with: everything about its member, as one document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mooring.backends.base import Order
from mooring.model.launch import Address
from mooring.model.member import MemberId, Pinning
from mooring.record import RunRecord
from mooring.record.private import make_folder, write_file
from mooring.spec import TrainingJob
from mooring.wire.contract import (
    Contract,
    LocalProcess,
    Peer,
    RankAgent,
    StepsWanted,
    contract_document,
)


@dataclass(frozen=True)
class LauncherSettings:
    """What of the job concerns every launcher alike."""

    working_dir: Path
    threads: int | None
    start_timeout_s: float
    grace_s: float
    step_source: str
    step_pattern: str | None
    examples_per_step: int | None
    sample_interval_s: float = 1.0
    looks: bool = True
    """Whether the launchers look at what the programs do, and this process at a standstill."""


def settings_of(job: TrainingJob, working_dir: Path, *, looks: bool) -> LauncherSettings:
    spec = job.spec
    return LauncherSettings(
        working_dir=working_dir,
        threads=None if spec.threads == "auto" else spec.threads,
        start_timeout_s=spec.start_timeout_s,
        grace_s=spec.grace_period_s,
        step_source=spec.step_metrics.source,
        step_pattern=spec.step_metrics.pattern,
        examples_per_step=spec.step_metrics.examples_per_step,
        looks=looks,
    )


@dataclass(frozen=True)
class AttemptSettings:
    """What the runtime arranged for one attempt of a member."""

    cgroup_procs: Sequence[str]
    namespace: str | None
    hosts_file: Path | None
    addresses: Mapping[MemberId, Address]
    rank_token: str
    devices_are_given: bool
    share_threads: int
    """For each process, so that those who share its CPUs have no more threads than CPUs."""
    look_sharers: int
    """Members that run on its CPUs, itself included: they divide what looks may cost there."""


def write_contract(
    run: RunRecord, settings: LauncherSettings, order: Order, around: AttemptSettings
) -> Path:
    """Write the member's folder (its files, its contract) and return the contract's path."""
    folder = run.member_dir(order.member.name)
    make_folder(folder)
    for name, text in order.launch.files.items():
        write_file(folder / name, text)
    document = contract_document(_contract(run, settings, order, around))
    path = folder / f"contract-{order.epoch}-{order.attempt}.json"
    # The token of ranks is in it, and what the job's author wrote into `env`: nobody else reads it.
    write_file(path, json.dumps(document))
    return path


def _contract(
    run: RunRecord, settings: LauncherSettings, order: Order, around: AttemptSettings
) -> Contract:
    member, slot, launch = order.member, order.slot, order.launch
    pinned = member.pinning is not Pinning.NONE
    agent = None
    if launch.serves_ranks:
        agent = RankAgent(around.addresses[member.id].ports["agent"], around.rank_token)
    return Contract(
        run=run.info.id,
        job=member.job,
        member=member.name,
        role=member.id.role,
        index=member.id.index,
        epoch=order.epoch,
        attempt=order.attempt,
        argv=tuple(launch.argv),
        env=launch.env,
        cwd=str(settings.working_dir),
        processes=tuple(
            LocalProcess(process.local_rank, process.env) for process in launch.processes
        ),
        gate="stdin",
        cgroup_procs=tuple(around.cgroup_procs),
        netns=around.namespace,
        hosts_file=str(around.hosts_file) if around.hosts_file else None,
        cpus=slot.cpus if pinned else None,
        exclusive=slot.exclusive,
        cells=slot.cells if pinned else (),
        cpu_millis=member.resources.cpu_millis or None,
        memory_bytes=member.resources.memory_bytes or None,
        # In a job that asks for devices, who asks for none sees none; otherwise all are as found.
        gpus=slot.gpus if around.devices_are_given else None,
        threads=settings.threads,
        share_threads=around.share_threads,
        peers=tuple(
            Peer(peer.name, address.host, tuple(address.ports.values()))
            for peer, address in around.addresses.items()
        ),
        resolve_timeout_s=settings.start_timeout_s,
        steps=StepsWanted(settings.step_source, settings.step_pattern, settings.examples_per_step),
        log_path=str(run.log_file(member.name)),
        sample_path=str(run.sample_file(member.name)),
        sample_interval_s=settings.sample_interval_s,
        grace_s=settings.grace_s,
        agent=agent,
        looks=settings.looks,
        look_sharers=around.look_sharers,
        watcher=run.info.pid if settings.looks else None,
    )
