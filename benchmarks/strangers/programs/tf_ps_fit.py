"""compile and fit with parameter servers: words into an embedding, a label out of it."""

import json
import os

import kit
import tensorflow as tf
import tf_keras

WORDS, WIDTH = kit.number("WORDS", 100000), kit.number("WIDTH", 16)
HIDDEN = kit.number("HIDDEN", 32)
BATCH, STEPS = kit.number("BATCH", 512), kit.number("STEPS", 20)


class Clock(tf_keras.callbacks.Callback):
    """Ends after the time that there is."""

    def __init__(self):
        super().__init__()
        self.rounds = kit.rounds(BATCH * STEPS, together=False)
        next(self.rounds)

    def on_epoch_end(self, epoch, logs=None):
        kit.hook("d")
        print(f"{(epoch + 1) * STEPS}/{STEPS * 1000} steps - loss: {logs['loss']:.4f}", flush=True)
        if next(self.rounds, None) is None:
            self.model.stop_training = True


def reviews(_context=None):
    def make(seed):
        words = tf.random.stateless_uniform((BATCH, 20), [seed, 5], 0, WORDS, dtype=tf.int32)
        return words, tf.cast(words[:, 0] % 2, tf.float32)

    return tf.data.Dataset.range(1 << 30).map(make).prefetch(2)


def chief(cluster):
    parts = kit.number("PARTS", 0)
    cut = tf.distribute.experimental.partitioners.FixedShardsPartitioner(parts) if parts else None
    strategy = tf.distribute.ParameterServerStrategy(cluster, variable_partitioner=cut)
    with strategy.scope():
        model = tf_keras.Sequential(
            [
                tf_keras.layers.Embedding(WORDS, WIDTH, input_length=20),
                tf_keras.layers.GlobalAveragePooling1D(),
                tf_keras.layers.Dense(HIDDEN, activation="relu"),
                tf_keras.layers.Dense(HIDDEN, activation="relu"),
                tf_keras.layers.Dense(1),
            ]
        )
        kinds = [
            tf_keras.optimizers.legacy.Adagrad(0.05),
            tf_keras.optimizers.legacy.Adam(0.001),
        ]
        model.compile(
            optimizer=kinds[kit.number("KIND", 0)],
            loss=tf_keras.losses.BinaryCrossentropy(from_logits=True),
        )
    data = tf_keras.utils.experimental.DatasetCreator(reviews)
    model.fit(data, epochs=100000, steps_per_epoch=STEPS, verbose=0, callbacks=[Clock()])


if __name__ == "__main__":
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    role = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
    if role == "chief":
        chief(resolver)
    else:
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=role, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
