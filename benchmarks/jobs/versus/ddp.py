"""DistributedDataParallel as PyTorch's tutorial has it: a small transformer on random tokens."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from clock import Clock
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model = DistributedDataParallel(
        nn.Sequential(
            nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 2), nn.Linear(128, 1000)
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loss_function = nn.CrossEntropyLoss()
    torch.manual_seed(dist.get_rank())
    clock = Clock()
    for _ in range(int(os.environ["VERSUS_STEPS"])):
        tokens = torch.randint(0, 1000, (16, 32))
        loss = loss_function(model(tokens).reshape(-1, 1000), tokens.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock()
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.3f}")
        clock.write()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
