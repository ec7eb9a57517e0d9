"""Identity: who a member is among its peers, checked once and rendered by every framework.

Operators of the field disagree about whether WORLD_SIZE counts pods or processes; here ranks
count processes, group ranks count members, and the invariants below are checked before any
member starts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from mooring.model.member import MemberId


@dataclass(frozen=True)
class Peer:
    """Where one member of the job is reached. `group_rank` is None for roles without ranks."""

    member: MemberId
    host: str
    ports: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    processes: int = 1
    first_rank: int | None = None
    group_rank: int | None = None

    def address(self, port: str = "main") -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.ports[port]}"

    @cached_property
    def main_address(self) -> str:
        """`host:port` of its main port (or its first); the bare host if it has none."""
        if not self.ports:
            return self.host
        return self.address("main" if "main" in self.ports else next(iter(self.ports)))


class Peers(tuple[Peer, ...]):
    """All members of a gang. Who is who is worked out once for all of them, not by each."""

    @cached_property
    def by_member(self) -> Mapping[MemberId, Peer]:
        return {peer.member: peer for peer in self}

    @cached_property
    def by_role(self) -> Mapping[str, tuple[Peer, ...]]:
        """Roles in the order of the gang, their members by index."""
        found: dict[str, list[Peer]] = {}
        for peer in self:
            found.setdefault(peer.member.role, []).append(peer)
        return {
            role: tuple(sorted(mine, key=lambda peer: peer.member.index))
            for role, mine in found.items()
        }

    @cached_property
    def hosts(self) -> Mapping[str, str]:
        """Role -> its hosts by index, with commas between them."""
        return {role: ",".join(peer.host for peer in mine) for role, mine in self.by_role.items()}

    @cached_property
    def addresses_json(self) -> str:
        """Role -> its main addresses by index, as JSON."""
        found = {role: [peer.main_address for peer in mine] for role, mine in self.by_role.items()}
        return json.dumps(found, separators=(",", ":"))


@dataclass(frozen=True)
class Identity:
    """One member's view of its job: itself, its ranks, and every peer including itself."""

    job: str
    member: MemberId
    epoch: int
    world_size: int
    group_size: int
    peers: Peers

    @property
    def me(self) -> Peer:
        return self.peers.by_member[self.member]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The global ranks of this member's local processes, in local-rank order."""
        first = self.me.first_rank
        return () if first is None else tuple(range(first, first + self.me.processes))

    def of_role(self, role: str) -> tuple[Peer, ...]:
        return self.peers.by_role.get(role, ())


class IdentityError(ValueError):
    """The identities of a gang contradict each other: never the user's fault."""


def check_identities(
    identities: Sequence[Identity], resolve: Callable[[str, int], MemberId | None]
) -> None:
    """Raise IdentityError unless the members agree on who they are.

    `resolve` tells which member an address belongs to (the runtime knows). Checked: the same peers
    and world for all; ranks 0..world-1 each once; world = sum of ranked members' processes;
    group ranks 0..n-1 each once; every address leads to the member that it names.
    """
    if not identities:
        raise IdentityError("a gang has at least one member")
    first = identities[0]
    for identity in identities:
        if (identity.peers, identity.world_size, identity.epoch, identity.job) != (
            first.peers,
            first.world_size,
            first.epoch,
            first.job,
        ):
            raise IdentityError(f"{identity.member} and {first.member} see different gangs")
    named = [identity.member for identity in identities]
    if sorted(named) != sorted(peer.member for peer in first.peers):
        raise IdentityError("peers and members differ")
    ranked = [peer for peer in first.peers if peer.first_rank is not None]
    ranks = sorted(
        rank
        for peer in ranked
        if peer.first_rank is not None
        for rank in range(peer.first_rank, peer.first_rank + peer.processes)
    )
    if ranks != list(range(first.world_size)):
        raise IdentityError(f"ranks {ranks} are not 0..{first.world_size - 1}, each once")
    groups = sorted(peer.group_rank for peer in ranked if peer.group_rank is not None)
    if groups != list(range(len(ranked))) or first.group_size != len(ranked):
        raise IdentityError(f"group ranks {groups} are not 0..{len(ranked) - 1}, each once")
    for peer in first.peers:
        for port in peer.ports.values():
            found = resolve(peer.host, port)
            if found != peer.member:
                raise IdentityError(f"{peer.host}:{port} leads to {found}, not to {peer.member}")
