"""The loop of ddp.py under Ray Train, as its guide to PyTorch has it."""

from __future__ import annotations

import os

import ray
import torch
from clock import Clock
from ray import train
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn


def train_func() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model = prepare_model(
        nn.Sequential(
            nn.Embedding(1000, 128), nn.TransformerEncoder(layer, 2), nn.Linear(128, 1000)
        )
    )
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loss_function = nn.CrossEntropyLoss()
    rank = train.get_context().get_world_rank()
    torch.manual_seed(rank)
    clock = Clock()
    for _ in range(int(os.environ["VERSUS_STEPS"])):
        tokens = torch.randint(0, 1000, (16, 32))
        loss = loss_function(model(tokens).reshape(-1, 1000), tokens.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        clock()
    if rank == 0:
        clock.write()


if __name__ == "__main__":
    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=3)
    TorchTrainer(train_func, scaling_config=ScalingConfig(num_workers=2)).fit()
