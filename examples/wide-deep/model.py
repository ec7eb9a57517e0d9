"""Wide & Deep: rows are looked up where they live, and only their gradients travel back.

The table has millions of rows and a batch a few thousand. Looked up by `tf.nn.embedding_lookup` on
the variable itself, only those rows leave the server.
"""

from itertools import pairwise

import tensorflow as tf
from data import CATEGORICAL, DENSE


def _variable(name, shape, scale):
    """A variable that is filled where it lives, in as many parts as the strategy divides it."""

    def fill(partition_shape=None, partition_offset=None):
        part = shape if partition_shape is None else partition_shape
        if scale == 0:
            return tf.zeros(part)
        begin = 0 if partition_offset is None else partition_offset[0]
        return tf.random.stateless_uniform(part, (len(name), begin), -scale, scale)

    return tf.Variable(fill, name=name, shape=shape, dtype=tf.float32)


class WideDeep:
    """Create it in the strategy's scope: then its variables live on the parameter servers."""

    def __init__(self, rows, width, hidden, optimizer):
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
        self.variables = [self.embedding, self.wide]
        self.variables += [part for layer in self.layers for part in layer]
        self.optimizer = optimizer
        optimizer.build(self.variables)

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
        self.optimizer.minimize(loss, self.variables, tape)
        return loss

    def judge(self, rows, dense, clicks):
        """(loss, share of right guesses) on one batch that is not learnt from."""
        logits = self.logits(rows, dense)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(clicks, logits))
        right = tf.equal(logits > 0, clicks > 0.5)
        return loss, tf.reduce_mean(tf.cast(right, tf.float32))
