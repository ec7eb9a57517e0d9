"""Identities of a gang whose addresses are known: ranks, group ranks, peers, all checked.

Ranks count processes, group ranks count members. Ranked roles follow the adapter's order (chief
before worker), roles that it does not name the order of the job file; within a role by index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mooring.frameworks.base import Framework
from mooring.frameworks.registry import find
from mooring.model.identity import Identity, IdentityError, Peer, Peers, check_identities
from mooring.model.launch import Address
from mooring.model.member import Gang, Member, MemberId
from mooring.spec import TrainingJob


def identify(
    job: TrainingJob,
    gang: Gang,
    addresses: Mapping[MemberId, Address],
    epoch: int,
    resolve: Callable[[str, int], MemberId | None] | None = None,
) -> dict[MemberId, Identity]:
    """Who each member is. Raises IdentityError if the members would contradict each other.

    `resolve` asks the runtime whose port it is; without it, no two members may share an address.
    """
    framework = find(job.spec.framework)
    order = _ranked(framework, job, gang)
    first_rank: dict[MemberId, int] = {}
    world_size = 0
    for member in order:
        first_rank[member.id] = world_size
        world_size += member.processes
    group_rank = {member.id: rank for rank, member in enumerate(order)}
    missing = [member.name for member in gang.members if member.id not in addresses]
    if missing:
        raise IdentityError(f"no address for {', '.join(missing)}")
    peers = Peers(
        Peer(
            member=member.id,
            host=addresses[member.id].host,
            ports=addresses[member.id].ports,
            processes=member.processes,
            first_rank=first_rank.get(member.id),
            group_rank=group_rank.get(member.id),
        )
        for member in gang.members
    )
    identities = {
        member.id: Identity(gang.job, member.id, epoch, world_size, len(order), peers)
        for member in gang.members
    }
    check_identities(list(identities.values()), resolve or _by_address(addresses))
    return identities


def _ranked(framework: Framework, job: TrainingJob, gang: Gang) -> list[Member]:
    strategy = framework.strategy(job)
    known = list(framework.roles(strategy))
    ranked = [
        member
        for member in gang.members
        if (facts := framework.facts(strategy, member.id.role)) is not None and facts.ranked
    ]
    place = {role: position for position, role in enumerate(dict.fromkeys([*known, *gang.roles]))}
    return sorted(ranked, key=lambda member: (place[member.id.role], member.id.index))


def _by_address(
    addresses: Mapping[MemberId, Address],
) -> Callable[[str, int], MemberId | None]:
    owners: dict[tuple[str, int], MemberId] = {}
    for member, address in addresses.items():
        for port in address.ports.values():
            owners.setdefault((address.host, port), member)
    return lambda host, port: owners.get((host, port))
