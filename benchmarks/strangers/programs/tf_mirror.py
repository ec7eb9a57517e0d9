"""MultiWorkerMirroredStrategy with a loop of one's own."""

import kit
import tensorflow as tf
import tf_keras

DIM, BATCH = kit.number("DIM", 256), kit.number("BATCH", 512)


def build(width):
    inputs = tf_keras.Input((DIM,))
    x = tf_keras.layers.Dense(width, activation="relu")(inputs)
    x = tf_keras.layers.Dense(width, activation="relu")(x)
    return tf_keras.Model(inputs, tf_keras.layers.Dense(1)(x))


def dataset():
    def parse(seed):
        x = tf.random.stateless_normal((BATCH, DIM), [seed, kit.rank()])
        for _ in range(kit.number("READ", 0)):
            x = tf.sort(x, axis=1)
            x = tf.reverse(x, [1])
        return x, tf.reduce_mean(x**2, 1, keepdims=True)

    return tf.data.Dataset.range(1 << 40).map(parse).prefetch(kit.number("AHEAD", 2))


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = build(kit.number("WIDTH", 512))
        optimizer = tf_keras.optimizers.legacy.SGD(0.01)

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def train(x, y):
        losses = strategy.run(replica_step, args=(x, y))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    @tf.function
    def check(x, y):
        return tf.reduce_mean((model(x) - y) ** 2)

    batches = iter(dataset())
    look, keep = kit.number("LOOK", 0), kit.number("KEEP", 0)
    for step in kit.rounds(BATCH):
        kit.hook("a")
        loss = float(train(*next(batches)))
        kit.hook("d")
        if look and step % look == 0:
            kept = sum(float(check(*next(batches))) for _ in range(20)) / 20
            print(f"  held out: {kept:.4f}", flush=True)
        if keep and step % keep == 0:
            model.save_weights(str(kit.path(f"mirror-{kit.rank()}.h5")))
        if step % 10 == 0:
            print(f"Step {step}: loss {loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
