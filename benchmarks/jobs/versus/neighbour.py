"""Somebody else's work: a process for each CPU that computes until it is ended."""

from __future__ import annotations

import multiprocessing
import os


def burn() -> None:
    while True:
        sum(number * number for number in range(10_000))


if __name__ == "__main__":
    for _ in range(len(os.sched_getaffinity(0))):
        multiprocessing.Process(target=burn, daemon=True).start()
    multiprocessing.Event().wait()
