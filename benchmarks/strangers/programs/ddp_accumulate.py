"""Several backward passes between two updates: images through a small convolutional network."""

import contextlib
import logging
import os

import kit
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

logging.basicConfig(format="%(levelname)s:%(name)s:%(message)s", level=logging.INFO)
logger = logging.getLogger(__name__)


def network(channels):
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, stride=2, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels * 2, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(channels * 32, 10),
    )


def micro_batches(count, size):
    for number in range(count):
        kit.hook("c")
        images = torch.rand(size, 3, 32, 32)
        labels = images[:, 0, 0, :10].argmax(1)
        yield number == count - 1, images, labels


def main():
    dist.init_process_group("gloo", init_method="env://")
    if os.environ.get("LANES"):
        torch.set_num_threads(int(os.environ["LANES"]))
    size, count = kit.number("BATCH", 128), kit.number("TIMES", 4)
    model = nn.parallel.DistributedDataParallel(network(kit.number("CHANNELS", 16)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    keep = kit.number("KEEP", 0)
    for step in kit.rounds(size * count):
        kit.hook("a")
        total = 0.0
        for last, images, labels in micro_batches(count, size):
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.cross_entropy(model(images), labels) / count
                loss.backward()
            total += loss.item()
        kit.hook("b")
        optimizer.step()
        optimizer.zero_grad()
        kit.hook("d")
        if keep and step % keep == 0 and dist.get_rank() == 0:
            torch.save(model.module.state_dict(), kit.path("last.pt"))
        if step % 5 == 0:
            logger.info("Step %d: loss = %.4f", step, total)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
