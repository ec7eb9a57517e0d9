"""A table whose rows are divided over the ranks: each holds, looks up and updates its own part.

DistributedDataParallel keeps a whole copy of a table in every rank and sums gradients of all of it.
Here a rank asks the owners for the rows that its batch uses, and sends them the rows' gradients:
two exchanges a step (all_to_all), each of the rows in use. Row r belongs to rank r % world, so that
popular rows, which often have neighbouring numbers, spread evenly.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from mooring.sdk import tell
from mooring.sharding import part_rows


class PartitionedEmbedding(torch.nn.Module):
    """`rows` x `width` numbers over all ranks. Its gradients are sparse: use SparseAdam.

    Gradients are averaged over the ranks, as DistributedDataParallel does. Every rank must look up
    in every step, also if it has no ids. Its state_dict holds this rank's part: save one a rank.
    """

    def __init__(self, rows: int, width: int, scale: float = 0.05, name: str = "table") -> None:
        """`name`: what `moor variables` calls it; a number is added to one that is taken."""
        super().__init__()
        self.rows = rows
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        own = part_rows(rows, self.world, self.rank)
        self.weight = torch.nn.Parameter(torch.empty(own, width).uniform_(-scale, scale))
        _tell(name, self.weight, self.rank)

    def forward(self, ids: Any) -> Any:
        flat, place = torch.unique(ids.reshape(-1), return_inverse=True)
        if flat.numel() and (int(flat[0]) < 0 or int(flat[-1]) >= self.rows):
            raise IndexError(
                f"ids {int(flat[0])} to {int(flat[-1])} in a table of {self.rows} rows"
            )
        order = torch.argsort(flat % self.world, stable=True)
        counts = torch.bincount(flat % self.world, minlength=self.world)
        rows = _Exchange.apply(self.weight, flat[order], counts, self.world)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return rows[back[place]].reshape(*ids.shape, -1)


_names: dict[str, int] = {}


def _tell(name: str, weight: Any, rank: int) -> None:
    count = _names[name] = _names.get(name, 0) + 1
    told = name if count == 1 else f"{name}_{count}"
    size_bytes = weight.numel() * weight.element_size()
    part = {"shape": list(weight.shape), "bytes": size_bytes, "server": rank, "part": rank}
    tell({"variables": [{"name": told, "whole": False, **part}]})


class _Exchange(torch.autograd.Function):
    """Ids to their owners, rows back; in the backward pass gradients to the owners."""

    @staticmethod
    def forward(context: Any, weight: Any, ids: Any, counts: Any, world: int) -> Any:
        asked = torch.empty_like(counts)
        _all_to_all(asked, counts, None, None, world)
        sent, got = counts.tolist(), asked.tolist()
        wanted = ids.new_empty(sum(got))
        _all_to_all(wanted, ids, got, sent, world)
        local = torch.div(wanted, world, rounding_mode="floor")
        rows = weight.new_empty(len(ids), weight.shape[1])
        _all_to_all(rows, weight[local], sent, got, world)
        context.save_for_backward(local)
        context.sizes = (sent, got, world, weight.shape)
        return rows

    @staticmethod
    def backward(context: Any, *gradients: Any) -> Any:
        (local,) = context.saved_tensors
        sent, got, world, shape = context.sizes
        gradient = gradients[0].contiguous()
        values = gradient.new_empty(sum(got), shape[1])
        _all_to_all(values, gradient, got, sent, world)
        # Coalesced here: SparseAdam would otherwise do it in the step.
        given = (local[None], values / world, shape)
        sparse = torch.sparse_coo_tensor(*given, check_invariants=False).coalesce()
        return sparse, None, None, None


def _all_to_all(out: Any, given: Any, out_sizes: Any, given_sizes: Any, world: int) -> None:
    if world == 1:
        out.copy_(given)
    else:
        dist.all_to_all_single(out, given.contiguous(), out_sizes, given_sizes)


def data_parallel(model: Any) -> Any:
    """DistributedDataParallel that leaves partitioned tables alone; `model` itself if alone."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return model
    ignored = [
        f"{name}.weight" if name else "weight"
        for name, module in model.named_modules()
        if isinstance(module, PartitionedEmbedding)
    ]
    parallel = torch.nn.parallel.DistributedDataParallel
    parallel._set_params_and_buffers_to_ignore_for_model(model, ignored)
    return parallel(model)
