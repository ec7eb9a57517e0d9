"""The SDK for PyTorch: `import mooring.torch as mt`.

    rank, world = mt.init()                         # process group and threads
    table = mt.PartitionedEmbedding(2_000_000, 16)  # each rank holds its part of the rows
    optimizers = mt.optimizers(model, lr=1e-3)      # SparseAdam for tables, Adam for the rest

Importing it imports torch. It relies on nothing else of the package but `mooring.sdk` and
`mooring.sharding`.
"""

from mooring.torch.embedding import PartitionedEmbedding, data_parallel
from mooring.torch.group import init
from mooring.torch.optimizers import Optimizers, optimizers

__all__ = ["Optimizers", "PartitionedEmbedding", "data_parallel", "init", "optimizers"]
