"""A DDP program of each style with the doctor's snippet about the exchange in it: does it train?

argv: the style, and a file with the snippet. What stands before its second comment is run where the
model is wrapped; the rest is a loop of its own.
"""

import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, RANKS = 24, 2


def batches(rank):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        inputs = torch.randn(16, 8, generator=generator)
        yield inputs, inputs.sum(1, keepdim=True)


def plain(model, optimizer, loss_function, loader):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).backward()
        optimizer.step()


def amp(model, optimizer, loss_function, loader):
    for inputs, targets in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_function(model(inputs).float(), targets)
        loss.backward()
        optimizer.step()


def accumulation(model, optimizer, loss_function, loader):
    for number, (inputs, targets) in enumerate(loader):
        last = number % 2 == 1
        with nullcontext() if last else model.no_sync():
            (loss_function(model(inputs), targets) / 2).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def train(rank, style, snippet, meeting):
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loss_function = torch.nn.MSELoss()
    hook, mark, loop = snippet.partition("# or exchange")
    names = {"torch": torch, "model": model, "optimizer": optimizer}
    names |= {"loss_function": loss_function, "loader": batches(rank)}
    if style == "snippet":
        exec(mark + loop, names)
    else:
        exec(hook, names)
        globals()[style](model, optimizer, loss_function, batches(rank))
    inputs, targets = next(batches(9))
    loss = loss_function(model(inputs), targets).item()
    weights = [torch.zeros(1, 8) for _ in range(RANKS)]
    dist.all_gather(weights, model.module.weight.detach())
    if rank == 0:
        print("learns", loss < 4.0)
        print("alike", torch.equal(weights[0], weights[1]))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(
            train, (sys.argv[1], Path(sys.argv[2]).read_text(), f"{folder}/meeting"), RANKS
        )
