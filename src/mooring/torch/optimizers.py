"""One optimizer for tables with sparse gradients, one for all other parameters.

torch's SparseAdam moves only rows that have a gradient, and refuses dense gradients; Adam moves
all, and refuses sparse ones. A model with both needs both.
"""

from __future__ import annotations

from typing import Any

import torch

from mooring.torch.embedding import PartitionedEmbedding


class Optimizers:
    """Several that step together."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def state_dict(self) -> list[Any]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[Any]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def optimizers(model: Any, lr: float = 1e-3) -> Optimizers:
    """SparseAdam for `Embedding(sparse=True)` and PartitionedEmbedding, Adam for the rest."""
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    tables = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, PartitionedEmbedding) or (isinstance(module, kinds) and module.sparse)
    }
    every = [each for each in model.parameters() if each.requires_grad]
    sparse = [each for each in every if id(each) in tables]
    dense = [each for each in every if id(each) not in tables]
    made: list[Any] = []
    if sparse:
        made.append(torch.optim.SparseAdam(sparse, lr=lr))
    if dense:
        made.append(torch.optim.Adam(dense, lr=lr))
    return Optimizers(*made)
