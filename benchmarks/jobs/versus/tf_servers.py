"""ParameterServerStrategy with a coordinator and a custom loop, as TensorFlow's tutorial has it."""

from __future__ import annotations

import os

import tensorflow as tf
from clock import Clock

ROWS, WIDTH, BATCH, FIELDS = 200_000, 16, 512, 16


def main() -> None:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
        )
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        table = tf.Variable(tf.zeros((ROWS, WIDTH)))
        kernel = tf.Variable(tf.ones((FIELDS * WIDTH, 1)) / 256.0)

    @tf.function
    def worker_step() -> tf.Tensor:
        ids = tf.random.uniform((BATCH, FIELDS), 0, ROWS, tf.int32)
        wanted = tf.cast(tf.reduce_sum(ids, 1, keepdims=True) % 2, tf.float32)
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(table, ids)
            outputs = tf.reshape(rows, (BATCH, FIELDS * WIDTH)) @ kernel
            loss = tf.reduce_mean((outputs - wanted) ** 2)
        rows_gradient, kernel_gradient = tape.gradient(loss, [table, kernel])
        table.scatter_sub(tf.IndexedSlices(0.1 * rows_gradient.values, rows_gradient.indices))
        kernel.assign_sub(0.1 * kernel_gradient)
        return loss

    clock = Clock()
    # A burst of steps between two joins: workers do not wait for each other at each of them.
    for _ in range(int(os.environ["VERSUS_STEPS"])):
        for _ in range(4):
            coordinator.schedule(worker_step)
        coordinator.join()
        clock()
    clock.write()


if __name__ == "__main__":
    main()
