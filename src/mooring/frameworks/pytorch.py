"""PyTorch: the variables that torchrun sets, so that `init_process_group()` needs no arguments.

As with torchrun, RANK and WORLD_SIZE count processes, GROUP_RANK and GROUP_WORLD_SIZE members.
Rank 0 is the master: its main port is where the process group meets.

A member may also run torchrun itself, which takes its options from PET_* variables: they are given
too, weaker than what the job sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mooring.frameworks.base import Framework, RoleFacts, launch
from mooring.frameworks.network import on_loopback
from mooring.model.engine import Engine
from mooring.model.identity import Identity
from mooring.model.launch import Launch
from mooring.model.member import Member
from mooring.spec import Strategy, TrainingJob


class PyTorch(Framework):
    name: ClassVar[str] = "pytorch"
    summary: ClassVar[str] = "DistributedDataParallel and all that starts from torchrun's variables"
    strategies: ClassVar[tuple[Strategy, ...]] = (Strategy.ALL_REDUCE,)
    owned_env: ClassVar[frozenset[str]] = frozenset(
        {
            "MASTER_ADDR",
            "MASTER_PORT",
            "RANK",
            "WORLD_SIZE",
            "LOCAL_RANK",
            "LOCAL_WORLD_SIZE",
            "GROUP_RANK",
            "GROUP_WORLD_SIZE",
            "ROLE_NAME",
            "ROLE_RANK",
            "ROLE_WORLD_SIZE",
            "TORCHELASTIC_RUN_ID",
            "TORCHELASTIC_RESTART_COUNT",
        }
    )

    engine: ClassVar[Engine | None] = Engine(
        module="torch",
        package="torch",
        implied_by=frozenset(
            {"torchvision", "torchaudio", "lightning", "pytorch_lightning", "accelerate"}
            | {"deepspeed", "fairscale", "timm"}
        ),
        programs=("torchrun",),
    )

    def roles(self, strategy: Strategy) -> Mapping[str, RoleFacts]:
        return {
            "master": RoleFacts(max_replicas=1, multi_process=True),
            "worker": RoleFacts(required=True, multi_process=True),
        }

    def role_env(self, job: TrainingJob, role: str) -> Mapping[str, str]:
        """`mooring.inside` has nothing to swap here: it lets gloo's threads end in order."""
        return {"MOORING_INSIDE": "{}"}

    def render(self, member: Member, identity: Identity, member_dir: str) -> Launch:
        me = identity.me
        master = next(peer for peer in identity.peers if peer.first_rank == 0)
        before_me = sum(
            peer.processes
            for peer in identity.of_role(member.id.role)
            if peer.member.index < member.id.index
        )
        env = {
            "MASTER_ADDR": master.host,
            "MASTER_PORT": str(master.ports["main"]),
            "WORLD_SIZE": str(identity.world_size),
            "LOCAL_WORLD_SIZE": str(me.processes),
            "GROUP_RANK": str(me.group_rank),
            "GROUP_WORLD_SIZE": str(identity.group_size),
            "ROLE_NAME": member.id.role,
            "ROLE_WORLD_SIZE": str(
                sum(peer.processes for peer in identity.of_role(member.id.role))
            ),
            "TORCHELASTIC_RUN_ID": identity.job,
            "TORCHELASTIC_RESTART_COUNT": str(identity.epoch),
        }
        per_process = [
            {
                "RANK": str(rank),
                "LOCAL_RANK": str(local_rank),
                "ROLE_RANK": str(before_me + local_rank),
            }
            for local_rank, rank in enumerate(identity.ranks)
        ]
        defaults = {
            "PET_NNODES": str(identity.group_size),
            "PET_NODE_RANK": str(me.group_rank),
            "PET_NPROC_PER_NODE": str(me.processes),
            "PET_MASTER_ADDR": master.host,
            "PET_MASTER_PORT": str(master.ports["main"]),
            "PET_RDZV_ENDPOINT": master.address("main"),
            "PET_RDZV_ID": identity.job,
        }
        if on_loopback(identity):
            # gloo listens where the machine's own name leads, which need not be loopback.
            defaults["GLOO_SOCKET_IFNAME"] = "lo"
        return launch(member, identity, defaults=defaults, env=env, per_process=per_process)
