"""Synthetic clicks with something to learn: the example needs no download.

Each impression has categorical features (user, item, ...) whose ids follow a power law, as real
ones do: a few are seen all the time, most hardly ever. Every id has a hidden weight, derived from
the id itself, and so has every dense feature; together with one pair of features that only count
jointly they give the probability of a click. Everything is made of TensorFlow operations, because
the pipeline runs on the workers while the program that describes it runs on the chief.
"""

import tensorflow as tf

#: Categorical features and how many ids each has.
CARDINALITY = {
    "user": 1_000_000,
    "item": 600_000,
    "page": 300_000,
    "query": 80_000,
    "advertiser": 15_000,
    "city": 4_000,
    "hour": 168,
    "device": 32,
}
CATEGORICAL = len(CARDINALITY)
DENSE = 8
#: The first of the streams that nobody trains on.
HELD_OUT = 900_000


def pseudo_random(ids, salt):
    """A fixed number between -1 and 1 for each id, without storing any."""
    mixed = (ids + salt) * 2_654_435_761 + salt * 40_503
    mixed = tf.bitwise.bitwise_xor(mixed, tf.bitwise.right_shift(mixed, 17)) * 2_246_822_519
    return tf.cast(tf.math.floormod(mixed, 1_000_003), tf.float32) / 500_001.0 - 1.0


def hash_to_row(ids, rows):
    """One table for all features: each feature's ids are scattered over its rows."""
    feature = tf.range(CATEGORICAL, dtype=tf.int64) * 1_000_000_007
    return tf.math.floormod((ids + feature) * 2_862_933_555_777_941_757, rows)


def make_batch(seed, number, size, rows):
    """Batch `number` of the stream `seed`: (table rows, dense features, clicks)."""
    seeds = tf.random.split(tf.stack([tf.cast(seed, tf.int64), number]), 3)
    # exp of a uniform number: the chance of an id is inverse to the id, as in Zipf's law.
    log_cardinality = tf.math.log(tf.constant(list(CARDINALITY.values()), tf.float32))
    uniform = tf.random.stateless_uniform((size, CATEGORICAL), seeds[0])
    ids = tf.cast(tf.exp(uniform * log_cardinality), tf.int64)
    dense = tf.random.stateless_normal((size, DENSE), seeds[1])

    hidden = pseudo_random(ids, tf.range(1, CATEGORICAL + 1, dtype=tf.int64))
    dense_weights = pseudo_random(tf.range(DENSE, dtype=tf.int64), 99)
    logit = (
        1.6 * tf.reduce_sum(hidden, 1)
        + 0.8 * tf.linalg.matvec(dense, dense_weights)
        + 2.0 * hidden[:, 0] * hidden[:, 1]
        - 0.5
    )
    chance = tf.random.stateless_uniform((size,), seeds[2])
    clicks = tf.cast(chance < tf.sigmoid(logit), tf.float32)
    return hash_to_row(ids, rows), dense, clicks


def make_dataset(seed, size, rows):
    """An endless stream of batches; the same seed gives the same stream."""
    numbers = tf.data.Dataset.range(2**62)
    batches = numbers.map(lambda number: make_batch(seed, number, size, rows))
    return batches.prefetch(2)


def make_streams(coordinator, seed, size, rows):
    """An iterator over one stream a worker: none sees what another sees."""

    def stream(context):
        worker = tf.distribute.coordinator.experimental_get_current_worker_index()
        return make_dataset(seed + worker, size, rows)

    @tf.function
    def datasets():
        return coordinator.strategy.distribute_datasets_from_function(stream)

    return iter(coordinator.create_per_worker_dataset(datasets))
