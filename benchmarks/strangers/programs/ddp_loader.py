"""A Dataset, a DistributedSampler and a DataLoader, epoch by epoch, with a bar on stderr."""

import sys

import kit
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Signals(Dataset):
    def __init__(self, count=4096, length=512):
        self.count, self.length = count, length

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        kit.hook("c")
        phase = np.random.default_rng(index).random()
        signal = np.sin(np.arange(self.length, dtype=np.float32) * (0.01 + phase * 0.1))
        return torch.from_numpy(signal), torch.tensor(phase, dtype=torch.float32)


def batches(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def bar(step, loss, width=20):
    done = "#" * (step % width) + "." * (width - step % width)
    sys.stderr.write(f"\r{step}it [{done}] loss={loss:.4f}")
    sys.stderr.flush()


def main():
    dist.init_process_group("gloo")
    hidden, batch = kit.number("HIDDEN", 1024), kit.number("BATCH", 64)
    dataset = Signals()
    sampler = DistributedSampler(dataset)
    loader = DataLoader(
        dataset, batch, sampler=sampler, num_workers=kit.number("LOADERS", 0), drop_last=True
    )
    layers = [torch.nn.Linear(512, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, hidden)]
    model = torch.nn.Sequential(*layers, torch.nn.GELU(), torch.nn.Linear(hidden, 1))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    stream = batches(loader, sampler)
    for step in kit.rounds(batch):
        kit.hook("a")
        signals, targets = next(stream)
        loss = torch.nn.functional.mse_loss(model(signals).squeeze(1), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kit.hook("d")
        if dist.get_rank() == 0:
            bar(step, loss.item())
        if step % 20 == 0:
            print(f"epoch {step * batch // 2048} step {step} loss {loss.item():.5f}", flush=True)
    del stream
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
