"""Parameter servers and plain variables: a table that is looked up, and a layer behind it."""

import json
import os

import kit
import tensorflow as tf

ROWS, WIDTH = kit.number("ROWS", 100000), kit.number("WIDTH", 32)
HIDDEN = kit.number("HIDDEN", 64)
BATCH, PARTS, FIELDS = kit.number("BATCH", 512), kit.number("PARTS", 2), kit.number("FIELDS", 8)


class Scorer:
    """`PARTS` pieces of a table, which the strategy places one server after the other."""

    def __init__(self):
        part = (ROWS // PARTS, WIDTH)
        self.tables = [tf.Variable(tf.random.normal(part, stddev=0.01)) for _ in range(PARTS)]
        self.dense = tf.Variable(tf.random.normal((WIDTH * FIELDS, HIDDEN), stddev=0.05))
        self.out = tf.Variable(tf.random.normal((HIDDEN, 1), stddev=0.05))

    def rows(self, ids):
        if kit.number("WHOLE", 0):
            read = [tf.convert_to_tensor(table) for table in self.tables]
        else:
            read = self.tables
        pieces = tf.split(ids, PARTS, axis=1)
        found = [tf.gather(table, piece) for table, piece in zip(read, pieces, strict=True)]
        return tf.reshape(tf.concat(found, 1), (-1, WIDTH * FIELDS))

    def step(self, ids, labels):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(self.rows(ids) @ self.dense)
            logits = hidden @ self.out
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
        variables = [*self.tables, self.dense, self.out]
        for variable, slope in zip(variables, tape.gradient(loss, variables), strict=True):
            if isinstance(slope, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(0.1 * slope.values, slope.indices))
            else:
                variable.assign_sub(0.1 * slope)
        return loss


def clicks(_context=None):
    def make(seed):
        ids = tf.random.stateless_uniform(
            (BATCH, FIELDS), [seed, 3], 0, ROWS // PARTS, dtype=tf.int32
        )
        return ids, tf.cast(tf.reduce_sum(ids, 1, keepdims=True) % 2 == 0, tf.float32)

    return tf.data.Dataset.range(1 << 30).map(make).prefetch(2)


def chief(strategy):
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        scorer = Scorer()

    @tf.function
    def one(iterator):
        ids, labels = next(iterator)
        return scorer.step(ids, labels)

    iterator = iter(coordinator.create_per_worker_dataset(clicks))
    burst = kit.number("BURST", 20)
    for number in kit.rounds(BATCH * burst, together=False):
        kit.hook("a")
        values = [coordinator.schedule(one, args=(iterator,)) for _ in range(burst)]
        coordinator.join()
        kit.hook("b")
        mean = sum(float(value) for value in coordinator.fetch(values)) / burst
        print(f"INFO:train:global_step={number * burst} loss={mean:.5f}", flush=True)


if __name__ == "__main__":
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    kind = json.loads(os.environ["TF_CONFIG"])["task"]["type"]
    if kind == "chief":
        chief(tf.distribute.ParameterServerStrategy(cluster))
    else:
        tf.distribute.Server(
            cluster.cluster_spec(), job_name=kind, task_index=cluster.task_id, protocol="grpc"
        ).join()
