"""Gradients are summed by hand, one all-reduce a tensor, behind a wrapped optimizer."""

import os

import kit
import torch
import torch.distributed as dist
from torch import nn


class AveragedOptimizer:
    """Calls the optimizer that it wraps once the gradients are those of all."""

    def __init__(self, optimizer, parameters):
        self.optimizer, self.parameters = optimizer, list(parameters)

    def zero_grad(self):
        self.optimizer.zero_grad()

    def synchronize(self):
        handles = [dist.all_reduce(p.grad, async_op=True) for p in self.parameters]
        for handle, p in zip(handles, self.parameters, strict=True):
            handle.wait()
            p.grad /= dist.get_world_size()

    def step(self):
        self.synchronize()
        self.optimizer.step()


def broadcast_parameters(parameters):
    for p in parameters:
        dist.broadcast(p.data, src=0)


def samples(batch, width):
    kit.hook("c")
    x = torch.randn(batch, width)
    return x, x.pow(2).sum(1, keepdim=True) / width


def show(step, loss, model):
    print(f"[{step}] loss: {loss:.6f}", flush=True)
    if full := kit.number("FULL", 0):
        for name, p in model.named_parameters():
            print(name, [round(v, 5) for v in p.detach().flatten()[:full].tolist()])


def main():
    dist.init_process_group("gloo")
    if os.environ.get("LANES"):
        torch.set_num_threads(int(os.environ["LANES"]))
    width, batch, tell = kit.number("WIDTH", 512), kit.number("BATCH", 1024), kit.number("TELL", 10)
    model = nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
    )
    broadcast_parameters(model.parameters())
    optimizer = AveragedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01 * dist.get_world_size()), model.parameters()
    )
    for step in kit.rounds(batch):
        kit.hook("a")
        x, y = samples(batch, width)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        kit.hook("b")
        optimizer.step()
        kit.hook("d")
        if step % tell == 0 and (dist.get_rank() == 0 or kit.number("FULL", 0)):
            show(step, loss.item(), model)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
