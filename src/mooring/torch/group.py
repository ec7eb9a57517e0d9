"""The process group and the threads of this process, from its identity and budget."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist

from mooring.sdk import budget, identity


def init(backend: str | None = None) -> tuple[int, int]:
    """Join the process group; returns (rank, world size). Alone it is a group of one.

    The meeting place comes from torchrun's variables, which Mooring sets. Threads of operations are
    those of the budget; a process with a GPU takes the one of its local rank.
    """
    held = budget()
    torch.set_num_threads(held.threads)
    cards = torch.cuda.is_available()
    if cards:
        torch.cuda.set_device(held.local_rank % torch.cuda.device_count())
    me = identity()
    if "MASTER_ADDR" not in os.environ:
        dist.init_process_group(backend or "gloo", rank=0, world_size=1, store=dist.HashStore())
        return 0, 1
    dist.init_process_group(backend or ("nccl" if cards else "gloo"))
    rank, world = dist.get_rank(), dist.get_world_size()
    if me.rank is not None and "MOORING_MEMBER" in os.environ and me.rank != rank:
        raise RuntimeError(f"torch says rank {rank}, Mooring says {me.rank}: RANK was changed")
    return rank, world
