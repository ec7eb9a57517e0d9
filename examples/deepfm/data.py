"""Synthetic clicks with something to learn: ids by a power law, a hidden weight for each id.

The same seed gives the same stream; nothing is downloaded.
"""

import torch

#: How many ids each categorical feature has.
CARDINALITY = (1_000_000, 600_000, 300_000, 80_000, 15_000, 4_000, 168, 32)
FIELDS = len(CARDINALITY)
_LOG = torch.log(torch.tensor(CARDINALITY, dtype=torch.float64))
_SALT = torch.arange(1, FIELDS + 1)


def pseudo_random(ids):
    """A fixed number between -1 and 1 for each id, without storing any."""
    mixed = (ids + _SALT) * 2_654_435_761 + _SALT * 40_503
    mixed = (mixed ^ (mixed >> 17)) * 2_246_822_519
    return (mixed % 1_000_003).float() / 500_001.0 - 1.0


def make_batch(generator, size, rows):
    """(table rows, clicks). One table for all fields: each field's ids are scattered over it."""
    # exp of a uniform number: the chance of an id is inverse to the id, as in Zipf's law.
    uniform = torch.rand(size, FIELDS, generator=generator, dtype=torch.float64)
    ids = torch.exp(uniform * _LOG).long()
    hidden = pseudo_random(ids)
    # What two fields do together is what the factorisation machine is for.
    logit = 1.6 * hidden.sum(1) + 2.0 * hidden[:, 0] * hidden[:, 1] - 0.5
    clicks = (torch.rand(size, generator=generator) < torch.sigmoid(logit)).float()
    scattered = (ids + torch.arange(FIELDS) * 1_000_000_007) * 2_862_933_555_777
    return scattered % rows, clicks
