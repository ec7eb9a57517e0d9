"""A linear regression with DistributedDataParallel: replace the model and the data by your own."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 100, 64


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for done in range(1, STEPS + 1):
        features = torch.randn(BATCH, 8)
        loss = torch.nn.functional.mse_loss(model(features), features.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if done % 10 == 0:
            print(f"step {done} loss {loss.item():.6f}", flush=True)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
