"""A custom loop with ParameterServerStrategy: the chief schedules, workers compute."""

import json
import os

import kit
import tensorflow as tf
import tf_keras

BATCH, DIM = kit.number("BATCH", 1024), kit.number("DIM", 256)


def serve(resolver):
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
    )
    server.join()


def build():
    layers = [
        tf_keras.layers.Dense(DIM, activation="relu", use_bias=False)
        for _ in range(kit.number("DEPTH", 4))
    ]
    model = tf_keras.Sequential([*layers, tf_keras.layers.Dense(10, use_bias=False)])
    model.build((None, DIM))
    return model


def examples(_context=None):
    def make(seed):
        x = tf.random.stateless_normal((BATCH, DIM), [seed, 1])
        for _ in range(kit.number("READ", 0)):
            x = tf.signal.irfft(tf.signal.rfft(x))
        return x, tf.argmax(x[:, :10], 1)

    return tf.data.Dataset.range(1 << 30).map(make).prefetch(1)


def train(strategy):
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = build()
        optimizer = tf_keras.optimizers.legacy.SGD(0.01)

    @tf.function
    def step_fn(iterator):
        def replica(x, y):
            with tf.GradientTape() as tape:
                logits = model(x, training=True)
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(replica, args=next(iterator))

    iterator = iter(coordinator.create_per_worker_dataset(examples))
    keep, burst = kit.number("KEEP", 0), kit.number("BURST", 10)
    for epoch in kit.rounds(BATCH * burst, together=False):
        kit.hook("a")
        scheduled = [coordinator.schedule(step_fn, args=(iterator,)) for _ in range(burst)]
        coordinator.join()
        loss = sum(float(value.fetch()) for value in scheduled) / burst
        kit.hook("b")
        if keep and epoch % keep == 0:
            model.save_weights(str(kit.path("weights.h5")))
        print(f"step {epoch * burst}, loss = {loss:.4f}", flush=True)


def main():
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if json.loads(os.environ["TF_CONFIG"])["task"]["type"] in ("ps", "worker"):
        serve(resolver)
    else:
        train(tf.distribute.ParameterServerStrategy(resolver))


if __name__ == "__main__":
    main()
