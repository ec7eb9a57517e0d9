"""Logistic regression with one hidden layer; every rank has its data, sums go by Allreduce."""

import kit
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()


def batch_of(pool, step):
    kit.hook("c")
    x = pool[step % len(pool)]
    return x, (x[:, :1] > 0).astype(np.float32)


def gradient(w1, w2, x, y):
    hidden = np.tanh(x @ w1)
    p = 1 / (1 + np.exp(-hidden @ w2))
    wrong = (p - y) / len(x)
    back = (wrong @ w2.T) * (1 - hidden**2)
    loss = -np.mean(y * np.log(p + 1e-7) + (1 - y) * np.log(1 - p + 1e-7))
    return loss, x.T @ back, hidden.T @ wrong


def mean(values):
    total = np.empty_like(values)
    comm.Allreduce(values, total, op=MPI.SUM)
    return total / size


def main():
    width, hidden = kit.number("WIDTH", 256), kit.number("HIDDEN", 256)
    count = kit.number("BATCH", 2048)
    pool = np.random.default_rng(rank).standard_normal((8, count, width), dtype=np.float32)
    first = np.random.default_rng(0)
    w1 = (first.standard_normal((width, hidden)) * 0.05).astype(np.float32)
    w2 = (first.standard_normal((hidden, 1)) * 0.05).astype(np.float32)
    tell, full = kit.number("TELL", 20), kit.number("FULL", 0)
    for step in kit.rounds(count):
        kit.hook("a")
        x, y = batch_of(pool, step)
        loss, g1, g2 = gradient(w1, w2, x, y)
        kit.hook("b")
        w1 -= 0.5 * mean(g1.astype(np.float32))
        w2 -= 0.5 * mean(g2.astype(np.float32))
        kit.hook("d")
        if step % tell == 0 and (rank == 0 or full):
            print(f"rank {rank} step {step:06d} loss {loss:.5f}", flush=True)
            for row in w1[:full]:
                print(" ".join(f"{value:+.4f}" for value in row), flush=True)


if __name__ == "__main__":
    main()
