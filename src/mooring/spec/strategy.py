"""The ways in which the members of a job may work together.

Apart from the models, because the frameworks name strategies without needing a job file.
"""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """How the members share the work."""

    PARAMETER_SERVER = "parameter-server"
    ALL_REDUCE = "all-reduce"
    LAUNCHER = "launcher"
    INDEXED = "indexed"
