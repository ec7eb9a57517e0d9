"""Data parallel training with mpi4py: a layer in numpy, gradients by Allreduce."""

from __future__ import annotations

import os

import numpy as np
from clock import Clock
from mpi4py import MPI

WIDTH, BATCH = 512, 256


def main() -> None:
    world = MPI.COMM_WORLD
    random = np.random.default_rng(world.rank)
    weights = np.zeros((WIDTH, WIDTH))
    hidden = np.random.default_rng(0).normal(size=(WIDTH, WIDTH)) / WIDTH**0.5
    total = np.empty_like(weights)
    clock = Clock()
    for _ in range(int(os.environ["VERSUS_STEPS"])):
        inputs = random.normal(size=(BATCH, WIDTH))
        features = np.tanh(inputs @ hidden)
        error = features @ weights - inputs
        gradient = features.T @ error / BATCH
        world.Allreduce(gradient, total, op=MPI.SUM)
        weights -= 0.01 * total / world.size
        clock()
    if world.rank == 0:
        print(f"error {float((error**2).mean()):.3f}")
        clock.write()


if __name__ == "__main__":
    main()
