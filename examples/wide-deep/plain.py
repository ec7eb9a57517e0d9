"""Wide & Deep with parameter servers as TensorFlow's own tutorial writes it. Every role runs it.

Embedding layers and Adam of Keras, variables placed in turn, a server started by hand in workers
and parameter servers. It learns the same as `train.py`, far more slowly where tables are large: the
layers send the whole table to every worker in every step, and Adam touches every row.
"""

import argparse

import tensorflow as tf
from data import CATEGORICAL, DENSE, HELD_OUT, make_streams

from mooring import step


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--burst", type=int, default=40, help="steps between two reports")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rows", type=int, default=20_000, help="rows of the embedding table")
    parser.add_argument("--width", type=int, default=16, help="numbers in a row")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 32])
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", type=int, default=40, help="batches of held-out data at the end")
    return parser.parse_args()


class WideDeep(tf.keras.Model):
    def __init__(self, rows, width, hidden):
        super().__init__()
        layers = tf.keras.layers
        self.embedding = layers.Embedding(rows, width, embeddings_initializer="uniform")
        self.wide = layers.Embedding(rows, 1, embeddings_initializer="zeros")
        self.deep = [layers.Dense(size, activation="relu") for size in hidden]
        self.out = layers.Dense(1)

    def call(self, inputs):
        rows, dense = inputs
        embedded = tf.reshape(self.embedding(rows), (-1, CATEGORICAL * self.embedding.output_dim))
        deep = tf.concat([embedded, dense], 1)
        for layer in self.deep:
            deep = layer(deep)
        return tf.squeeze(self.out(deep), 1) + tf.reduce_sum(self.wide(rows), (1, 2))


def main():
    arguments = parse_arguments()
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            cluster.cluster_spec(),
            job_name=cluster.task_type,
            task_index=cluster.task_id,
            protocol="grpc",
        )
        server.join()

    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = WideDeep(arguments.rows, arguments.width, arguments.hidden)
        model((tf.zeros((1, CATEGORICAL), tf.int64), tf.zeros((1, DENSE))))
        optimizer = tf.keras.optimizers.Adam(arguments.learning_rate)
        optimizer.build(model.trainable_variables)
    cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits

    @tf.function
    def train(batches):
        def replica(rows, dense, clicks):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(cross_entropy(clicks, model((rows, dense))))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(replica, args=next(batches))

    @tf.function
    def judge(batches):
        def replica(rows, dense, clicks):
            logits = model((rows, dense))
            right = tf.cast(tf.equal(logits > 0, clicks > 0.5), tf.float32)
            return tf.reduce_mean(cross_entropy(clicks, logits)), tf.reduce_mean(right)

        return strategy.run(replica, args=next(batches))

    def burst(function, batches, count):
        scheduled = [coordinator.schedule(function, args=(batches,)) for _ in range(count)]
        coordinator.join()
        return coordinator.fetch(scheduled)

    batches = make_streams(coordinator, arguments.seed * 1000, arguments.batch, arguments.rows)
    first = last = None
    for done in range(0, arguments.steps, arguments.burst):
        count = min(arguments.burst, arguments.steps - done)
        last = sum(map(float, burst(train, batches, count))) / count
        first = last if first is None else first
        step(count * arguments.batch, last, done + count, arguments.steps)
        print(f"step {done + count:5d} loss {last:.4f}", flush=True)
    print(f"loss {first:.4f} -> {last:.4f}", flush=True)
    if arguments.judge:
        held_out = make_streams(coordinator, HELD_OUT, arguments.batch, arguments.rows)
        judged = burst(judge, held_out, arguments.judge)
        loss, right = (sum(float(each[at]) for each in judged) / len(judged) for at in (0, 1))
        print(f"held out: loss {loss:.4f} accuracy {right:.4f}", flush=True)


if __name__ == "__main__":
    main()
