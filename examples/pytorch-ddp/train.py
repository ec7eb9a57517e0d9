"""PyTorch DistributedDataParallel over gloo, started from the variables that Mooring sets.

Every process starts with other parameters on purpose: DDP must make them equal, and averaging
the gradients must keep them so. The last line of each rank says whether that held.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from mooring import step

FEATURES = 64


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=256, help="examples a process")
    return parser.parse_args()


def same_on_all_ranks(model):
    """Whether every rank holds exactly the parameters of this one."""
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    of_all = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, mine)
    return all(torch.equal(mine, other) for other in of_all)


def main():
    arguments = parse_arguments()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = DistributedDataParallel(
        torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1)
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for done in range(1, arguments.steps + 1):
        features = torch.randn(arguments.batch, FEATURES)
        targets = features.sum(1, keepdim=True) / FEATURES**0.5
        loss = torch.nn.functional.mse_loss(model(features), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step(examples=arguments.batch, loss=loss.item(), step=done, total=arguments.steps)
        if rank == 0 and (done == 1 or done % 50 == 0):
            print(f"step {done:4d} loss {loss.item():.4f}", flush=True)
    equal = same_on_all_ranks(model)
    local_rank, host = os.environ["LOCAL_RANK"], os.environ["GROUP_RANK"]
    print(
        f"rank {rank} of {world} (member {host}, local {local_rank}): parameters equal {equal}",
        flush=True,
    )
    dist.destroy_process_group()
    if not equal:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
