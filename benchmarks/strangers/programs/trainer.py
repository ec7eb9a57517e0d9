"""A Trainer with arguments, callbacks and a log history, for a model that guesses characters."""

import os
from dataclasses import dataclass

import kit
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

TEXT = "a stranger comes to town and asks the way to the harbour. " * 40


@dataclass
class TrainingArguments:
    per_device_batch: int = 32
    logging_steps: int = 10
    save_steps: int = 0
    eval_steps: int = 0
    dataloader_workers: int = 0
    learning_rate: float = 1e-3


class Windows(IterableDataset):
    def __init__(self, length=64):
        self.codes = torch.tensor([ord(c) % 64 for c in TEXT])
        self.length = length

    def __iter__(self):
        while True:
            kit.hook("c")
            start = int(torch.randint(len(self.codes) - self.length - 1, ()))
            window = self.codes[start : start + self.length + 1]
            yield window[:-1], window[1:]


class Guesser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.first = nn.Conv1d(width, width, 5)
        self.second = nn.Linear(width, width)
        self.head = nn.Linear(width, 64)

    def forward(self, codes):
        x = nn.functional.pad(self.embed(codes).transpose(1, 2), (4, 0))
        x = torch.relu(self.first(x)).transpose(1, 2)
        return self.head(torch.relu(self.second(x)))


class Trainer:
    def __init__(self, model, args, dataset):
        self.args, self.model = args, nn.parallel.DistributedDataParallel(model)
        workers = args.dataloader_workers
        self.loader = DataLoader(dataset, args.per_device_batch, num_workers=workers)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
        self.history = []

    def compute_loss(self, model, batch):
        logits = model(batch[0])
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten())

    def training_step(self, batch):
        loss = self.compute_loss(self.model, batch)
        kit.hook("b")
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def prediction_loop(self, batches):
        with torch.no_grad():
            losses = [self.compute_loss(self.model.module, next(batches)) for _ in range(20)]
        return float(sum(losses)) / len(losses)

    def train(self):
        batches = iter(self.loader)
        for step in kit.rounds(self.args.per_device_batch):
            kit.hook("a")
            loss = self.training_step(next(batches))
            self.on_step_end(step, loss, batches)

    def on_step_end(self, step, loss, batches):
        kit.hook("d")
        args = self.args
        if args.save_steps and step % args.save_steps == 0 and dist.get_rank() == 0:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state, kit.path("trainer_state.bin"))
        if args.eval_steps and step % args.eval_steps == 0:
            self.history.append({"second_loss": self.prediction_loop(batches), "step": step})
        if step % args.logging_steps == 0 and dist.get_rank() == 0:
            self.history.append({"loss": round(loss, 4), "step": step})
            print(self.history[-1], flush=True)


def main():
    dist.init_process_group("gloo")
    if os.environ.get("LANES"):
        torch.set_num_threads(int(os.environ["LANES"]))
    args = TrainingArguments(
        per_device_batch=kit.number("BATCH", 32),
        save_steps=kit.number("KEEP", 0),
        eval_steps=kit.number("LOOK", 0),
        dataloader_workers=kit.number("LOADERS", 0),
    )
    Trainer(Guesser(kit.number("WIDTH", 128)), args, Windows()).train()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
