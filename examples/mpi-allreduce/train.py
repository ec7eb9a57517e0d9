"""A sum over all MPI ranks, checked, then a small regression whose gradients are summed by MPI.

mpirun starts it in every slot of the hostfile; Mooring carries it there without ssh.
"""

import os

import numpy as np
from mpi4py import MPI

from mooring import step

STEPS = 50
FEATURES = 32
BATCH = 128
LEARNING_RATE = 0.2


def check_sum(world):
    for size in (1, 1_000, 300_000):
        mine = np.full(size, world.rank + 1.0)
        total = np.empty_like(mine)
        world.Allreduce(mine, total)
        expected = world.size * (world.size + 1) / 2
        if not np.all(total == expected):
            raise SystemExit(f"rank {world.rank}: sum {total[0]}, expected {expected}")
    return expected


def train(world):
    truth = np.random.default_rng(0).normal(size=FEATURES)
    own = np.random.default_rng(world.rank + 1)
    weights = np.zeros(FEATURES)
    first = last = 0.0
    for done in range(1, STEPS + 1):
        features = own.normal(size=(BATCH, FEATURES))
        error = features @ (weights - truth)
        loss = world.allreduce(float(np.mean(error**2))) / world.size
        gradient = 2 * features.T @ error / BATCH
        total = np.empty_like(gradient)
        world.Allreduce(gradient, total)
        weights -= LEARNING_RATE * total / world.size
        first, last = (loss if done == 1 else first), loss
        if world.rank == 0:
            step(examples=BATCH * world.size, loss=loss, step=done, total=STEPS)
    return first, last


def main():
    world = MPI.COMM_WORLD
    total = check_sum(world)
    first, last = train(world)
    member = os.environ.get("MOORING_MEMBER", "alone")
    # One write a line: mpirun merges the output of all ranks as it comes.
    line = f"rank {world.rank} of {world.size} in {member}: sum {total:g}, "
    os.write(1, f"{line}loss {first:.4f} -> {last:.6f}\n".encode())


if __name__ == "__main__":
    main()
