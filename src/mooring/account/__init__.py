"""The account of a step: where the time of each rank's main thread goes, so that it adds up.

Pure. `looks` takes the launchers' records (kind `looks` of samples/M.jsonl), `dividing` says what
each look was, `weighing` what time it stands for, `cards` whether bytes moved, `waits` who is
waited for; `summing` makes the account of ranks, roles and the slowest rank, `words` prints it.
"""

from mooring.account.types import (
    Account,
    Activity,
    LineShare,
    NetworkUse,
    RankAccount,
    RoleAccount,
    WaitFor,
)

__all__ = [
    "Account",
    "Activity",
    "LineShare",
    "NetworkUse",
    "RankAccount",
    "RoleAccount",
    "WaitFor",
]
