"""One rank that trains a partitioned table; prints its rows after some steps."""

from __future__ import annotations

import json
from typing import Any

import torch
import torch.distributed as dist

import mooring.torch as mt

ROWS, WIDTH, BATCH, STEPS = 101, 4, 6, 5


def initial(rows: Any) -> Any:
    return torch.sin(rows[:, None].float() + torch.arange(WIDTH))


def batch(rank: int, step: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(100 * rank + step)
    # Few ids, so that ranks use the same rows and a batch uses one twice.
    ids = torch.randint(0, 20, (BATCH, 2), generator=generator) * 5
    return ids, torch.randn(BATCH, generator=generator)


class Model(torch.nn.Module):
    def __init__(self, table: Any) -> None:
        super().__init__()
        self.table = table
        self.out = torch.nn.Linear(2 * WIDTH, 1)
        torch.nn.init.constant_(self.out.weight, 0.3)
        torch.nn.init.zeros_(self.out.bias)

    def forward(self, ids: Any) -> Any:
        return self.out(self.table(ids).flatten(1)).squeeze(1)


def main() -> None:
    rank, world = mt.init()
    table = mt.PartitionedEmbedding(ROWS, WIDTH)
    own = torch.arange(rank, ROWS, world)
    with torch.no_grad():
        table.weight.copy_(initial(own))
    model = Model(table)
    optimizers = mt.optimizers(model, lr=0.1)
    parallel = mt.data_parallel(model)
    for step in range(STEPS):
        ids, wanted = batch(rank, step)
        optimizers.zero_grad()
        ((parallel(ids) - wanted) ** 2).mean().backward()
        optimizers.step()
    rows = dict(zip(own.tolist(), table.weight.tolist(), strict=True))
    print(json.dumps({"rank": rank, "rows": rows, "out": model.out.weight.tolist()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
