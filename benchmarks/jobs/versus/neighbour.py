"""Somebody else's work: a process for each CPU that computes until it, or its parent, is ended."""

from __future__ import annotations

import multiprocessing
import os
import time


def burn(parent: int) -> None:
    while os.getppid() == parent:
        sum(number * number for number in range(10_000))


if __name__ == "__main__":
    for _ in range(len(os.sched_getaffinity(0))):
        multiprocessing.Process(target=burn, args=[os.getpid()], daemon=True).start()
    benchmark = os.getppid()
    while os.getppid() == benchmark:
        time.sleep(1)
