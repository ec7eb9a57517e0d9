"""The queue: who runs, who waits, who gives way. Pure and deterministic.

`decide` looks at waiting and running gangs, pools and a cluster; `apply` carries one decision
out. Where the members go is the planner's business.
"""

from mooring.brain.queue.admit import decide
from mooring.brain.queue.apply import apply, ended
from mooring.brain.queue.arrivals import ArrivalOutcome, Chapter, arrive
from mooring.brain.queue.elastic import as_many_as_fit
from mooring.brain.queue.groups import Groups, Move, MovePolicy, PooledNodes
from mooring.brain.queue.pools import check_pools
from mooring.brain.queue.types import (
    DEFAULT_POOL,
    Admit,
    Decision,
    Grow,
    Planner,
    PoolSpec,
    Preempt,
    QueuedGang,
    QueuePolicy,
    QueueState,
    RunningGang,
    Shrink,
    Wait,
)

__all__ = [
    "DEFAULT_POOL",
    "Admit",
    "ArrivalOutcome",
    "Chapter",
    "Decision",
    "Groups",
    "Grow",
    "Move",
    "MovePolicy",
    "Planner",
    "PoolSpec",
    "PooledNodes",
    "Preempt",
    "QueuePolicy",
    "QueueState",
    "QueuedGang",
    "RunningGang",
    "Shrink",
    "Wait",
    "apply",
    "arrive",
    "as_many_as_fit",
    "check_pools",
    "decide",
    "ended",
]
