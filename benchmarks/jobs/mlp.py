"""A training loop for the benchmarks: an MLP on the CPU that writes down when each step ended.

Two copies do not talk to each other; they only begin together, so that both measure the same
machine. Started bare it needs the same variables that the job file gives: BENCH_OUT (a folder),
BENCH_COUNT, and its index. SIGUSR1 ends it as if its time were over.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time
from pathlib import Path

import torch

from mooring import step

FEATURES = 256


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds before the first step")
    parser.add_argument("--seconds", type=float, default=8.0, help="seconds of measured steps")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--report", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def wait_for_all(folder: Path, index: int, count: int, deadline_s: float = 120.0) -> None:
    (folder / f"here-{index}").touch()
    give_up = time.monotonic() + deadline_s
    while len(list(folder.glob("here-*"))) < count:
        if time.monotonic() > give_up:
            raise SystemExit(f"index {index}: the others never came")
        time.sleep(0.01)


def main() -> None:
    arguments = parse_arguments()
    over = False

    def end(number: int, frame: object) -> None:
        nonlocal over
        over = True

    signal.signal(signal.SIGUSR1, end)
    folder = Path(os.environ["BENCH_OUT"])
    index = int(os.environ.get("MOORING_INDEX") or os.environ["BENCH_INDEX"])
    torch.manual_seed(index)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, arguments.width),
        torch.nn.ReLU(),
        torch.nn.Linear(arguments.width, arguments.width),
        torch.nn.ReLU(),
        torch.nn.Linear(arguments.width, 1),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    features = torch.randn(arguments.batch, FEATURES)
    targets = features.sum(1, keepdim=True) / FEATURES**0.5

    def train() -> None:
        loss = torch.nn.functional.mse_loss(model(features), targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    wait_for_all(folder, index, int(os.environ["BENCH_COUNT"]))
    begin = time.monotonic() + arguments.warmup
    while time.monotonic() < begin:
        train()
    (folder / f"training-{index}").touch()
    ends = [time.monotonic()]
    while ends[-1] < begin + arguments.seconds and not over:
        train()
        if arguments.report:
            step(examples=arguments.batch)
        ends.append(time.monotonic())
    document = {"batch": arguments.batch, "threads": torch.get_num_threads(), "ends_s": ends}
    (folder / f"steps-{index}.json").write_text(json.dumps(document))


if __name__ == "__main__":
    main()
