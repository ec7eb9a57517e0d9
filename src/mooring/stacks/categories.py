"""What a trainer's main thread can be doing, as names tell."""

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
