"""What a launcher in a pod is told: the same contract as on one machine, in a variable.

In a pod the kubelet holds the member to its CPUs and the first member's launcher opens the gate,
so that starting a gang costs no call to the API server beyond its pods.

Frameworks give every member the names of all members. As plain text in each pod those would make
all pods of a gang together grow with its square, and every pod is read several times on its way.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from mooring.backends.base import Order
from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.objects import names
from mooring.frameworks.commands import is_interpreter, with_interpreter
from mooring.model.launch import Address
from mooring.model.member import Gang, MemberId, Pinning
from mooring.model.plan import Slot
from mooring.spec import TrainingJob
from mooring.spec.kubernetes import PodSpec
from mooring.wire.contract import (
    Contract,
    LocalProcess,
    Meeting,
    RankAgent,
    StepsWanted,
    contract_document,
)

#: Texts that are longer than this travel packed.
_LONGEST_PLAIN = 1024


@dataclass(frozen=True)
class EpochSettings:
    """What all members of one epoch have in common."""

    namespace: str
    job_uid: str
    addresses: Mapping[MemberId, Address]
    leader: MemberId
    pods: Mapping[str, PodSpec]
    """By role."""
    has_files: bool = False
    sharers: Mapping[str, int] = field(default_factory=dict)
    """Node -> members of the gang there that asked for no CPUs, and divide the node's."""

    @cached_property
    def has_agents(self) -> bool:
        """Are ranks started over the network?"""
        return any("agent" in address.ports for address in self.addresses.values())

    @cached_property
    def peers(self) -> str:
        """All members as JSON: the same in every contract."""
        return json.dumps(peer_runs(self.addresses), separators=(",", ":"))


def addresses_of(gang: Gang, namespace: str) -> dict[MemberId, Address]:
    """Where each member is reached: every pod has an address of its own, so ports may repeat."""
    return {
        member.id: Address(
            names.host_of(member, namespace),
            {
                name: port or names.FIRST_PORT + place
                for place, (name, port) in enumerate(member.ports.items())
            },
        )
        for member in gang.members
    }


def peer_runs(addresses: Mapping[MemberId, Address]) -> list[dict[str, Json]]:
    """Members whose names differ by their index alone are one entry: each pod carries the list, and
    one entry a member would make all pods of a gang together grow with its square."""
    runs: list[dict[str, Json]] = []
    first = count = 0
    for member, where in addresses.items():
        ports: list[Json] = list(where.ports.values())
        last = runs[-1] if runs else {}
        if (
            member.index == first + count
            and last.get("member") == f"{member.role}-{{}}"
            and str(last.get("host")).replace("{}", str(member.index)) == where.host
            and last.get("ports") == ports
        ):
            count += 1
            last["count"] = count
            continue
        first, count = member.index, 1
        host = where.host.replace(f"-{first}.", "-{}.", 1)
        name = f"{member.role}-{{}}"
        runs.append({"member": name, "host": host, "ports": ports, "first": first, "count": 1})
    return runs


def travels_packed(order: Order, name: str) -> bool:
    """Is this variable long, and the framework's? One of the author's may be meant for whatever
    starts before the launcher."""
    return name not in order.member.env and len(order.launch.env[name]) > _LONGEST_PLAIN


def _argv(argv: tuple[str, ...], python: str | None) -> tuple[str, ...]:
    """A path that is not called like an interpreter is a folder's: nobody can look into images."""
    if python is None:
        return argv
    path = PurePosixPath(python)
    interpreter = path if is_interpreter(path.name) else path / "bin" / "python"
    return with_interpreter(argv, str(interpreter))


@lru_cache(maxsize=128)
def packed(value: str) -> str:
    """Most of the long ones are the same for all members."""
    return base64.b64encode(zlib.compress(value.encode())).decode("ascii")


def contract(
    job: TrainingJob, order: Order, around: EpochSettings, extra: Mapping[str, str]
) -> str:
    """The contract as JSON; `extra` are the variables that the pod itself does not carry."""
    member, launch, spec = order.member, order.launch, job.spec
    address = around.addresses[member.id]
    agent = None
    if launch.serves_ranks:
        agent = RankAgent(address.ports["agent"], token_env=names.AGENT_TOKEN_ENV)
    document = Contract(
        run=around.job_uid,
        job=member.job,
        member=member.name,
        role=member.id.role,
        index=member.id.index,
        epoch=order.epoch,
        attempt=order.attempt,
        argv=_argv(launch.argv, spec.python),
        env={name: value for name, value in extra.items() if not travels_packed(order, name)},
        packed_env={
            name: packed(value) for name, value in extra.items() if travels_packed(order, name)
        },
        cwd=spec.working_dir or "",
        processes=tuple(
            LocalProcess(process.local_rank, process.env) for process in launch.processes
        ),
        gate="meeting" if spec.gang else "open",
        meeting=Meeting(
            host=around.addresses[around.leader].host,
            port=names.MEETING_PORT,
            leads=member.id == around.leader,
            members=len(around.addresses),
            token_env=names.TOKEN_ENV,
        ),
        exclusive=member.pinning is Pinning.EXCLUSIVE,
        cpu_millis=member.resources.cpu_millis or None,
        memory_bytes=member.resources.memory_bytes or None,
        threads=None if spec.threads == "auto" else spec.threads,
        sharers=_sharers(order, around),
        resolve_timeout_s=spec.start_timeout_s,
        steps=StepsWanted(
            spec.step_metrics.source.value,
            spec.step_metrics.pattern,
            spec.step_metrics.examples_per_step,
        ),
        files=launch.files,
        files_dir=member_dir(),
        archive=f"{names.FILES_HOME}/files.tgz" if around.has_files else None,
        echo=True,
        log_path=f"{names.HOME}/log",
        sample_path=f"{names.HOME}/samples.jsonl",
        grace_s=spec.grace_period_s,
        agent=agent,
    )
    own = json.dumps(contract_document(document), separators=(",", ":"))
    return f'{own[:-1]},"peers":{around.peers}}}'


def count_sharers(gang: Gang, slots: Mapping[MemberId, Slot]) -> dict[str, int]:
    """Node -> how many members of the gang share its CPUs without having asked for any."""
    return Counter(
        slots[member.id].node
        for member in gang.members
        if member.id in slots and member.computes and not member.resources.cpu_millis
    )


def _sharers(order: Order, around: EpochSettings) -> int:
    """1 for who asked for CPUs: its threads follow from those. Without a node (another scheduler
    chooses it) nobody knows who will be there."""
    if order.member.resources.cpu_millis or not order.slot.node:
        return 1
    return max(1, around.sharers.get(order.slot.node, 1))


def member_dir() -> str:
    """The folder in the pod that a framework's files are written to."""
    return f"{names.HOME}/member"
