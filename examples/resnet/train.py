"""A ResNet for images of 16 x 16, data parallel; the images are made on the fly.

An image of class k shows k stripes on noise, shifted by chance: a pixel alone tells nothing.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn

import mooring
import mooring.torch as mt

CLASSES, SIZE = 4, 16


class Block(nn.Module):
    """Two convolutions around a shortcut."""

    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels_out),
            nn.ReLU(),
            nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels_out),
        )
        same = stride == 1 and channels_in == channels_out
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels_in, channels_out, 1, stride)

    def forward(self, images):
        return torch.relu(self.body(images) + self.shortcut(images))


def make_model(width):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 1, 1),
        Block(width, width, 1),
        Block(width, 2 * width, 2),
        Block(2 * width, 4 * width, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, CLASSES),
    )


def make_batch(generator, size):
    labels = torch.randint(0, CLASSES, (size,), generator=generator)
    shift = torch.rand(size, 1, generator=generator)
    across = torch.arange(SIZE) / SIZE
    stripes = torch.sin(2 * torch.pi * (labels[:, None] + 1) * (across + shift))
    noise = torch.randn(size, 1, SIZE, SIZE, generator=generator)
    return stripes[:, None, None, :].expand(-1, 1, SIZE, -1) + 0.5 * noise, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=64, help="images a step of each rank")
    parser.add_argument("--width", type=int, default=8, help="channels of the first block")
    arguments = parser.parse_args()
    rank, world = mt.init()
    torch.manual_seed(1)
    model = make_model(arguments.width)
    parallel = mt.data_parallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    mine = torch.Generator().manual_seed(rank)
    for done in range(1, arguments.steps + 1):
        images, labels = make_batch(mine, arguments.batch)
        loss = nn.functional.cross_entropy(parallel(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mooring.step(arguments.batch, float(loss.detach()), done, arguments.steps)
    checksum = sum(float(each.detach().double().sum()) for each in model.parameters())
    print(
        f"rank {rank} of {world}: loss {float(loss.detach()):.4f} checksum {checksum:.9f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
