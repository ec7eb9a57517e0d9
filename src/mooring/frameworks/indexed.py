"""Indexed: any program that only needs to know which of how many it is. Any role names.

The variables are also given under the names that Volcano (its `env` and `svc` job plugins) and
Kubernetes' indexed Jobs use, so that a script written for those runs unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mooring.frameworks.base import Framework, RoleFacts, launch
from mooring.model.identity import Identity
from mooring.model.launch import Launch
from mooring.model.member import Member
from mooring.spec import Strategy

_ANY = RoleFacts(multi_process=True)


class Indexed(Framework):
    name: ClassVar[str] = "indexed"
    summary: ClassVar[str] = "any program: each member gets its index and the count"
    strategies: ClassVar[tuple[Strategy, ...]] = (Strategy.INDEXED,)
    owned_env: ClassVar[frozenset[str]] = frozenset(
        {"VC_*", "VK_TASK_INDEX", "JOB_COMPLETION_INDEX"}
    )

    def roles(self, strategy: Strategy) -> Mapping[str, RoleFacts]:
        return {}

    def other_roles(self, strategy: Strategy) -> RoleFacts | None:
        return _ANY

    def render(self, member: Member, identity: Identity, member_dir: str) -> Launch:
        index = str(member.id.index)
        env = {"VC_TASK_INDEX": index, "VK_TASK_INDEX": index}
        for role, peers in identity.peers.by_role.items():
            prefix = f"VC_{role.upper().replace('-', '_')}"
            env[f"{prefix}_NUM"] = str(len(peers))
            env[f"{prefix}_HOSTS"] = identity.peers.hosts[role]
        # Scripts divide the work by VC_TASK_INDEX and VC_WORKER_NUM whatever their role is called.
        env.setdefault("VC_WORKER_NUM", str(len(identity.of_role(member.id.role))))
        per_process = [{"JOB_COMPLETION_INDEX": str(rank)} for rank in identity.ranks]
        return launch(member, identity, env=env, per_process=per_process)
