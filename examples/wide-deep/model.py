"""Wide & Deep, and Adagrad that touches only the rows that a batch uses.

The table has millions of rows and a batch a few thousand: rows are looked up where they live, and
only their gradients travel back. An optimizer that updates whole tables would be many times slower.
"""

from itertools import pairwise

import tensorflow as tf
from data import CATEGORICAL, DENSE

INITIAL_ACCUMULATOR = 0.1


def _variable(name, shape, scale):
    """A variable that is filled where it lives, in as many parts as the strategy divides it."""

    def fill(partition_shape=None, partition_offset=None):
        part = shape if partition_shape is None else partition_shape
        if scale == 0:
            return tf.zeros(part)
        return tf.random.stateless_uniform(part, (len(name), 7), -scale, scale)

    return tf.Variable(fill, name=name, shape=shape, dtype=tf.float32)


def _accumulator(part):
    """Adagrad's memory of the gradients of `part`, on the same server."""
    with tf.distribute.get_strategy().extended.colocate_vars_with(part):
        return tf.Variable(
            lambda: tf.fill(part.shape, INITIAL_ACCUMULATOR), shape=part.shape, dtype=tf.float32
        )


class WideDeep:
    """Create it in the strategy's scope: then its variables live on the parameter servers."""

    def __init__(self, rows, width, hidden, learning_rate):
        self.learning_rate = learning_rate
        inputs = CATEGORICAL * width + DENSE
        self.embedding = _variable("embedding", (rows, width), 0.05)
        self.wide = _variable("wide", (rows, 1), 0)
        sizes = [inputs, *hidden, 1]
        self.layers = [
            (
                _variable(f"kernel_{depth}", (fan_in, fan_out), (6 / (fan_in + fan_out)) ** 0.5),
                _variable(f"bias_{depth}", (fan_out,), 0),
            )
            for depth, (fan_in, fan_out) in enumerate(pairwise(sizes))
        ]
        whole = [self.embedding, self.wide, *(part for layer in self.layers for part in layer)]
        # A variable that the strategy divided is a list of parts; each learns by itself.
        self.parts = [part for one in whole for part in getattr(one, "variables", [one])]
        self.accumulators = [_accumulator(part) for part in self.parts]

    def logits(self, rows, dense):
        # A popular row occurs many times in a batch: fetch it once.
        unique, position = tf.unique(tf.reshape(rows, [-1]))
        embedded = tf.gather(tf.nn.embedding_lookup(self.embedding, unique), position)
        wide = tf.gather(tf.nn.embedding_lookup(self.wide, unique), position)
        size = tf.shape(rows)[0]
        deep = tf.concat([tf.reshape(embedded, (size, -1)), dense], 1)
        for depth, (kernel, bias) in enumerate(self.layers):
            deep = deep @ tf.convert_to_tensor(kernel) + tf.convert_to_tensor(bias)
            if depth < len(self.layers) - 1:
                deep = tf.nn.relu(deep)
        return tf.squeeze(deep, 1) + tf.reduce_sum(tf.reshape(wide, (size, -1)), 1)

    def train(self, rows, dense, clicks):
        """One step on one batch; returns its loss before the step."""
        with tf.GradientTape() as tape:
            logits = self.logits(rows, dense)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(clicks, logits))
        for part, accumulator, gradient in zip(
            self.parts, self.accumulators, tape.gradient(loss, self.parts), strict=True
        ):
            _adagrad(part, accumulator, gradient, self.learning_rate)
        return loss


def _adagrad(variable, accumulator, gradient, learning_rate):
    """Runs on the server that holds the variable; other workers may be updating it as well."""
    common = {
        "var": variable.handle,
        "accum": accumulator.handle,
        "lr": learning_rate,
        "epsilon": 1e-7,
    }
    if isinstance(gradient, tf.IndexedSlices):
        tf.raw_ops.ResourceSparseApplyAdagradV2(
            grad=gradient.values, indices=gradient.indices, **common
        )
    else:
        tf.raw_ops.ResourceApplyAdagradV2(grad=gradient, **common)
