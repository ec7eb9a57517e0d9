"""DeepFM: a linear part, a factorisation machine and a small network over the same embeddings."""

from itertools import pairwise

import torch
from data import FIELDS

import mooring.torch as mt


class DeepFM(torch.nn.Module):
    """The table has one column more than the embedding is wide: the weight of the linear part."""

    def __init__(self, rows, width, hidden):
        super().__init__()
        self.table = mt.PartitionedEmbedding(rows, width + 1)
        sizes = [FIELDS * width, *hidden]
        layers = []
        for fan_in, fan_out in pairwise(sizes):
            layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
        self.deep = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1))

    def forward(self, rows):
        found = self.table(rows)
        linear, embedded = found[..., 0].sum(1), found[..., 1:]
        # Sum over pairs of fields of their products: half of (square of the sum - sum of squares).
        pairs = 0.5 * (embedded.sum(1) ** 2 - (embedded**2).sum(1)).sum(1)
        return linear + pairs + self.deep(embedded.flatten(1)).squeeze(1)
