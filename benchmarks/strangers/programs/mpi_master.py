"""The first rank holds the weights and hands them out; the others send back what to change."""

import kit
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()
WIDTH, COUNT = kit.number("WIDTH", 512), kit.number("BATCH", 512)


def master():
    weights = np.zeros((WIDTH, WIDTH), np.float32)
    change = np.empty_like(weights)
    for step in kit.rounds(COUNT * (size - 1)):
        kit.hook("a")
        for worker in range(1, size):
            comm.Send(weights, dest=worker, tag=1)
        total = 0.0
        for worker in range(1, size):
            comm.Recv(change, source=worker, tag=2)
            total += comm.recv(source=worker, tag=3)
            weights -= change / (size - 1)
        kit.hook("b")
        if step % 10 == 0:
            print(f"round {step} loss {total / (size - 1):.5f}", flush=True)
    for worker in range(1, size):
        comm.Send(weights[:1], dest=worker, tag=9)


def worker():
    source, state, turn = np.random.default_rng(rank), MPI.Status(), 0
    pool = source.standard_normal((4, COUNT, WIDTH), dtype=np.float32)
    weights = np.empty((WIDTH, WIDTH), np.float32)
    target = np.eye(WIDTH, dtype=np.float32) * 0.5
    while True:
        comm.Recv(weights, source=0, tag=MPI.ANY_TAG, status=state)
        if state.Get_tag() == 9:
            return
        kit.hook("c")
        x, turn = pool[turn % 4], turn + 1
        wrong = x @ weights - x @ target
        comm.Send(0.05 * (x.T @ wrong) / COUNT, dest=0, tag=2)
        comm.send(float(np.mean(wrong**2)), dest=0, tag=3)


if __name__ == "__main__":
    master() if rank == 0 else worker()
