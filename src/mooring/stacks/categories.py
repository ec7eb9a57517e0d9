"""What a trainer's main thread can be doing, and the letter that stands for it in a record."""

from __future__ import annotations

from enum import StrEnum


class Category(StrEnum):
    """`loading`: prepares data itself; `waiting`: others prepare it (processes, threads)."""

    LOADING = "loading"
    WAITING = "waiting"
    CHECKPOINT = "checkpoint"
    LOGGING = "logging"
    EVALUATION = "evaluation"
    COMMUNICATION = "communication"
    SERVING = "serving"
    COMPUTE = "compute"


INPUT = frozenset({Category.LOADING, Category.WAITING})

LETTERS = {
    Category.LOADING: "i",
    Category.WAITING: "w",
    Category.CHECKPOINT: "k",
    Category.LOGGING: "l",
    Category.EVALUATION: "e",
    Category.COMMUNICATION: "m",
    Category.SERVING: "s",
    Category.COMPUTE: "c",
}
OF_LETTER = {letter: category for category, letter in LETTERS.items()}
