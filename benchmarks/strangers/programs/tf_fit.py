"""compile and fit on several workers; everything else is in callbacks."""

import kit
import numpy as np
import tensorflow as tf
import tf_keras

BATCH, STEPS = kit.number("BATCH", 128), kit.number("STEPS", 10)


class Clock(tf_keras.callbacks.Callback):
    """Ends after the time that there is, and says how it goes."""

    def __init__(self):
        super().__init__()
        self.rounds = kit.rounds(BATCH * STEPS)
        next(self.rounds)

    def on_train_batch_end(self, batch, logs=None):
        kit.hook("b")

    def on_epoch_end(self, epoch, logs=None):
        kit.hook("d")
        step = (epoch + 1) * STEPS
        print(f"Epoch {epoch + 1} - step {step} - loss: {logs['loss']:.4f}", flush=True)
        if next(self.rounds, None) is None:
            self.model.stop_training = True


def pictures(count):
    source = np.random.default_rng(kit.rank())
    images = source.random((count, 16, 16, 3), dtype=np.float32)
    return images, (images.mean((1, 2, 3)) > 0.5).astype(np.int32)


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf_keras.Sequential(
            [
                tf_keras.layers.Conv2D(16, 3, activation="relu", input_shape=(16, 16, 3)),
                tf_keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
                tf_keras.layers.Flatten(),
                tf_keras.layers.Dense(64, activation="relu"),
                tf_keras.layers.Dense(2),
            ]
        )
        model.compile(
            optimizer=tf_keras.optimizers.legacy.Adam(1e-3),
            loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    data = tf.data.Dataset.from_tensor_slices(pictures(2048)).repeat().shuffle(512)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    data = data.batch(BATCH * strategy.num_replicas_in_sync).with_options(options)
    callbacks = [Clock()]
    if kit.number("KEEP", 0):
        where = str(kit.path(f"model-{kit.rank()}"))
        callbacks.append(tf_keras.callbacks.ModelCheckpoint(where, save_freq=kit.number("KEEP", 0)))
    model.fit(data, epochs=100000, steps_per_epoch=STEPS, verbose=0, callbacks=callbacks)


if __name__ == "__main__":
    main()
