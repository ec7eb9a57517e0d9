"""One step of Adam for the rows that have a gradient, on the server that holds them.

`mooring.tensorflow.LazyAdam` and the changed Adam of Keras differ in how they count and where they
keep their moments; what happens to a row is here.
"""

from __future__ import annotations

import tensorflow as tf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def rows_of(gradient: Any) -> tuple[Any, Any]:
    """The rows of a sparse gradient, each once, with its summed values."""
    rows, place = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows))


def update_rows(
    variable: Any,
    m: Any,
    v: Any,
    rows: Any,
    values: Any,
    scale: Any,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> None:
    """`scale` is the learning rate with the bias corrected."""
    moment_1 = beta_1 * m.sparse_read(rows) + (1 - beta_1) * values
    moment_2 = beta_2 * v.sparse_read(rows) + (1 - beta_2) * values**2
    change = scale * moment_1 / (tf.sqrt(moment_2) + epsilon)
    tf.raw_ops.ResourceScatterUpdate(resource=m.handle, indices=rows, updates=moment_1)
    tf.raw_ops.ResourceScatterUpdate(resource=v.handle, indices=rows, updates=moment_2)
    tf.raw_ops.ResourceScatterSub(resource=variable.handle, indices=rows, updates=change)


def corrected(rate: Any, beta_1: float, beta_2: float, count: Any) -> Any:
    """The learning rate with Adam's correction of bias after `count` updates."""
    return rate * tf.sqrt(1 - beta_2**count) / (1 - beta_1**count)
