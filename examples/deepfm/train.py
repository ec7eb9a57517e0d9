"""DeepFM over several ranks: table rows live where they belong, the network is data parallel."""

import argparse

import torch
import torch.distributed as dist
from data import make_batch
from model import DeepFM

import mooring
import mooring.torch as mt

HELD_OUT = 900_000


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--report", type=int, default=20, help="steps between two reports")
    parser.add_argument("--batch", type=int, default=512, help="examples a step of each rank")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the table")
    parser.add_argument("--width", type=int, default=15, help="numbers in an embedding")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 32])
    parser.add_argument("--learning-rate", type=float, default=0.01)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    rank, world = mt.init()
    torch.manual_seed(rank)
    model = DeepFM(arguments.rows, arguments.width, arguments.hidden)
    optimizers = mt.optimizers(model, lr=arguments.learning_rate)
    parallel = mt.data_parallel(model)
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
    mine = torch.Generator().manual_seed(1000 + rank)
    total = 0.0
    for done in range(1, arguments.steps + 1):
        rows, clicks = make_batch(mine, arguments.batch, arguments.rows)
        loss = cross_entropy(parallel(rows), clicks)
        optimizers.zero_grad()
        loss.backward()
        optimizers.step()
        total += float(loss.detach())
        if done % arguments.report == 0:
            mean, total = total / arguments.report, 0.0
            mooring.step(arguments.batch * arguments.report, mean, done, arguments.steps)
            if rank == 0:
                print(f"step {done:5d} loss {mean:.4f}", flush=True)
    with torch.no_grad():
        rows, clicks = make_batch(torch.Generator().manual_seed(HELD_OUT), 8192, arguments.rows)
        logits = parallel(rows)
        right = ((logits > 0) == (clicks > 0.5)).float().mean()
    print(
        f"rank {rank} of {world}: held out loss {cross_entropy(logits, clicks):.4f} "
        f"accuracy {right:.4f}, {model.table.weight.shape[0]} rows here",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
