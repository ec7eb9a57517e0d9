"""Jobs and addresses for the tests of this folder, as short as they can be."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from mooring.frameworks import expand, find, identify
from mooring.model.identity import Identity
from mooring.model.launch import Address, Launch
from mooring.model.member import Gang, MemberId
from mooring.spec import TrainingJob

Roles = Mapping[str, Mapping[str, Any]]


def make_job(framework: str, roles: Roles, **spec: Any) -> TrainingJob:
    spec = {"framework": framework, "command": ["python", "train.py"], "roles": roles, **spec}
    return TrainingJob.model_validate({"metadata": {"name": "demo"}, "spec": spec})


def give_addresses(gang: Gang, host: str | None = "127.0.0.1") -> dict[MemberId, Address]:
    """Ports from 7001 on, in the members' order; without `host` each has a name of its own."""
    ports = count(7001)
    return {
        member.id: Address(
            host or member.hostname,
            {name: port or next(ports) for name, port in member.ports.items()},
        )
        for member in gang.members
    }


def render_all(
    job: TrainingJob, host: str | None = "127.0.0.1", epoch: int = 0
) -> dict[str, tuple[Identity, Launch]]:
    """Member's name -> who it is and what it runs."""
    gang = expand(job)
    identities = identify(job, gang, give_addresses(gang, host), epoch)
    adapter = find(job.spec.framework)
    return {
        member.name: (
            identities[member.id],
            adapter.render(member, identities[member.id], f"/run/{member.name}"),
        )
        for member in gang.members
    }
