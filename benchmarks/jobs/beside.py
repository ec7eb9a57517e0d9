"""PyTorch that does something beside training: what the doctor should see in its stacks.

`--cause` names it, one for all members or one for each by its index.
"""

import argparse
import logging
import os
import tempfile
import time
import zlib
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from mooring import step

FEATURES, BATCH = 256, 64
CAUSES = ("nothing", "decode", "files", "packed", "remote", "save", "log", "evaluate")


class Packed(Dataset):
    """Examples that are unpacked one by one: far more than a step of the model costs."""

    def __init__(self, unpacked_bytes):
        self.blob = zlib.compress(os.urandom(64) * (unpacked_bytes // 64))

    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        raw = zlib.decompress(self.blob)
        return torch.frombuffer(bytearray(raw[:FEATURES]), dtype=torch.uint8) / 255


class Files(Dataset):
    """One small file for each example."""

    def __init__(self, folder, count):
        self.paths = [Path(folder) / f"{number}.bin" for number in range(count)]
        for path in self.paths:
            path.write_bytes(os.urandom(FEATURES))

    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        for place in range(8):
            raw = self.paths[(8 * index + place) % len(self.paths)].read_bytes()
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8) / 255


class OneFile(Dataset):
    """The same examples in one file, which is read as memory."""

    def __init__(self, folder, count):
        path = Path(folder) / "all.bin"
        path.write_bytes(os.urandom(FEATURES * count))
        self.rows = torch.from_file(str(path), size=FEATURES * count, dtype=torch.uint8)
        self.rows = self.rows.view(count, FEATURES)

    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        for place in range(8):
            row = self.rows[(8 * index + place) % len(self.rows)]
        return row / 255


class Remote(Dataset):
    """Examples that come over a network: each takes a while in which nobody computes."""

    def __len__(self):
        return 10**6

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.rand(FEATURES)


def loader(cause, folder, workers):
    if cause == "decode":
        data = Packed(256 << 10)
    elif cause == "files":
        data = Files(folder, 2000)
    elif cause == "packed":
        data = OneFile(folder, 2000)
    elif cause == "remote":
        data = Remote()
    else:
        data = TensorDataset(torch.rand(200 * BATCH, FEATURES))
    if workers:
        return DataLoader(data, BATCH, num_workers=workers, persistent_workers=True)
    return DataLoader(data, BATCH)


def batches(data):
    while True:
        for batch in data:
            yield batch[0] if isinstance(batch, list) else batch


def evaluate(model, held_out):
    with torch.no_grad():
        return sum(float(model(part).mean()) for part in held_out.split(BATCH))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cause", default="nothing", help=", ".join(CAUSES))
    parser.add_argument("--seconds", type=float, default=7.0)
    parser.add_argument("--every", type=int, default=1, help="steps between two times")
    parser.add_argument("--workers", type=int, default=0, help="loader processes")
    arguments = parser.parse_args()
    causes = arguments.cause.split(",")
    cause = causes[int(os.environ.get("MOORING_INDEX", "0")) % len(causes)]
    torch.set_num_threads(1)
    # About 3 ms a step on one CPU.
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512),
        torch.nn.ReLU(), torch.nn.Linear(512, 1),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    held_out = torch.rand(16 * BATCH, FEATURES)
    with tempfile.TemporaryDirectory() as folder:
        logging.basicConfig(filename=Path(folder) / "train.txt", level=logging.INFO)
        end_s = time.monotonic() + arguments.seconds
        for done, batch in enumerate(batches(loader(cause, folder, arguments.workers)), 1):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step(examples=len(batch))
            if done % arguments.every == 0:
                if cause == "save":
                    torch.save(model.state_dict(), Path(folder) / "model.pt")
                elif cause == "log":
                    for name, values in model.named_parameters():
                        for value in values.flatten()[:200].tolist():
                            logging.info("%s %f", name, value)
                elif cause == "evaluate":
                    evaluate(model, held_out)
            if time.monotonic() > end_s:
                break


if __name__ == "__main__":
    main()
