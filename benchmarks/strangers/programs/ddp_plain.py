"""Distributed data parallel as the first page of a tutorial has it: a classifier of digits."""

import os

import kit
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.stack = nn.Sequential(
            nn.Flatten(),
            nn.Linear(784, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 10),
        )

    def forward(self, x):
        return self.stack(x)


def digits(count, generator):
    kit.hook("c")
    images = torch.randn(count, 1, 28, 28, generator=generator)
    return images, images.flatten(1)[:, :10].argmax(1)


def look(model, generator):
    right = 0
    with torch.no_grad():
        for _ in range(kit.number("LOOK_BATCHES", 10)):
            images, labels = digits(256, generator)
            right += (model(images).argmax(1) == labels).sum().item()
    return right


def main():
    dist.init_process_group("gloo")
    rank, batch = dist.get_rank(), kit.number("BATCH", 512)
    if os.environ.get("LANES"):
        torch.set_num_threads(int(os.environ["LANES"]))
    generator = torch.Generator().manual_seed(rank)
    model = DDP(Net(kit.number("HIDDEN", 512)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss()
    keep, look_every, tell = (kit.number(n, d) for n, d in (("KEEP", 0), ("LOOK", 0), ("TELL", 10)))
    for step in kit.rounds(batch):
        kit.hook("a")
        images, labels = digits(batch, generator)
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        kit.hook("b")
        loss.backward()
        optimizer.step()
        kit.hook("d")
        if keep and step % keep == 0 and rank == 0:
            torch.save([model.state_dict(), optimizer.state_dict()], kit.path("net.pt"))
        if look_every and step % look_every == 0:
            print(f"[rank {rank}] right: {look(model.module, generator)}", flush=True)
        if step % tell == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
