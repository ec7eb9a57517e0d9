"""A small encoder of sequences in mixed precision, with the step in a function of its own."""

import os
import time

import kit
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LENGTH, WORDS = 32, 2000


class Encoder(nn.Module):
    def __init__(self, width=128, layers=2):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        block = nn.TransformerEncoderLayer(width, 4, width * 2, batch_first=True, dropout=0.0)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)).mean(1))


def draw(batch):
    kit.hook("c")
    tokens = torch.randint(WORDS, (batch, LENGTH))
    return tokens, (tokens.float().mean(1) > WORDS / 2).long()


def train_step(model, optimizer, batch):
    tokens, targets = draw(batch)
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(tokens), targets)
    kit.hook("b")
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def main():
    dist.init_process_group(backend="gloo")
    if "LANES" in os.environ:
        torch.set_num_threads(int(os.environ["LANES"]))
    torch.manual_seed(7 + dist.get_rank())
    model = DistributedDataParallel(Encoder(kit.number("WIDTH", 128)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    batch, since = kit.number("BATCH", 32), time.time()
    for step in kit.rounds(batch):
        kit.hook("a")
        loss = train_step(model, optimizer, batch)
        kit.hook("d")
        if step % 5 == 0 and dist.get_rank() == 0:
            took, since = time.time() - since, time.time()
            print(f"Iter: {step:5d} | loss: {loss:.3f} | {took / 5 * 1000:.0f} ms/it", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
