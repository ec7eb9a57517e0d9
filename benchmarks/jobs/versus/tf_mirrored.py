"""MultiWorkerMirroredStrategy with a custom loop, as TensorFlow's tutorial has it."""

from __future__ import annotations

import os

import tensorflow as tf
from clock import Clock


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = [tf.Variable(tf.random.normal((256, 256)) / 16.0) for _ in range(4)]

    @tf.function
    def train_step(inputs: tf.Tensor) -> tf.Tensor:
        def replica_step(inputs: tf.Tensor) -> tf.Tensor:
            with tf.GradientTape() as tape:
                outputs = inputs
                for kernel in model:
                    outputs = tf.tanh(outputs @ kernel)
                loss = tf.reduce_mean((outputs - inputs) ** 2)
            gradients = tape.gradient(loss, model)
            context = tf.distribute.get_replica_context()
            reduced = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
            for kernel, gradient in zip(model, reduced, strict=True):
                kernel.assign_sub(0.01 * gradient)
            return loss

        return strategy.run(replica_step, args=(inputs,))

    clock = Clock()
    for _ in range(int(os.environ["VERSUS_STEPS"])):
        train_step(tf.random.normal((512, 256)))
        clock()
    if strategy.cluster_resolver.task_id == 0:
        clock.write()


if __name__ == "__main__":
    main()
