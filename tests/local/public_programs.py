"""Programs as people write them, several in one process; each prints what came out.

They are run with and without what Mooring does inside, and must print the same. argv: `servers`
(parameter servers in this process), `alone`, `sessions` (graphs and sessions of TensorFlow 1) or
`legacy` (parameter servers, with Keras 2 as tf.keras).
"""

import socket
import sys
import tempfile
from pathlib import Path

import numpy as np
import tensorflow as tf

ROWS, WIDTH, SERVERS = 64, 4, 2
partitioners = tf.distribute.experimental.partitioners


def said(name, *values):
    numbers = [round(float(value), 4) for value in values]
    print(name, *numbers, flush=True)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def cluster():
    """Servers and a worker in this process, as TensorFlow's own tests have them."""
    places = {"worker": 1, "ps": SERVERS}
    addresses = {
        role: [f"localhost:{free_port()}" for _ in range(count)] for role, count in places.items()
    }
    spec = tf.train.ClusterSpec(addresses)
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)
    for role, count in places.items():
        for index in range(count):
            tf.distribute.Server(spec, role, index, protocol="grpc", config=config)
    return tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")


def batch():
    rows = tf.constant([[1, 5, 9], [1, 2, 63]], tf.int64)
    return rows, tf.constant([[1.0], [0.0]])


def repeated(coordinator, function, times=3):
    """One step after the other, so that the result is the same each time."""
    found = []
    for _ in range(times):
        scheduled = coordinator.schedule(function)
        coordinator.join()
        found.append(scheduled.fetch())
    return found


def keras_model(**layer):
    keras = tf.keras
    seeded = keras.initializers.RandomUniform(-0.1, 0.1, seed=1)
    return keras.Sequential(
        [
            keras.layers.Embedding(ROWS, WIDTH, embeddings_initializer=seeded, **layer),
            keras.layers.Reshape((3 * WIDTH,)),
            keras.layers.Dense(1, kernel_initializer=seeded, dtype="float32"),
        ]
    )


def keras_loop(name, resolver, partitioner=None, optimizer=None, steps=True):
    """Keras' layers and its Adam in a loop of one's own, as the tutorial has it."""
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = keras_model()
        model(batch()[0])
        adam = optimizer() if optimizer else tf.keras.optimizers.Adam(0.1)
        adam.build(model.trainable_variables)
    said(f"{name} variables", len(model.trainable_variables))
    if not steps:
        rows, _ = batch()
        said(name, tf.reduce_sum(model(rows)))
        return model

    def replica():
        rows, wanted = batch()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.cast(model(rows), tf.float32) - wanted) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        adam.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step():
        return strategy.run(replica)

    said(name, *repeated(coordinator, step))
    return model


def custom_loop(name, resolver, partitioner):
    """Variables of TensorFlow alone, with a checkpoint and a SavedModel."""
    strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        table = tf.Variable(tf.ones((ROWS, WIDTH)) * 0.1, name="table")
        kernel = tf.Variable(tf.ones((3 * WIDTH, 1)) * 0.2, name="kernel")
    flat = [part for one in (table, kernel) for part in getattr(one, "variables", [one])]

    @tf.function
    def step():
        rows, wanted = batch()
        with tf.GradientTape() as tape:
            found = tf.reshape(tf.nn.embedding_lookup(table, rows), (2, -1))
            loss = tf.reduce_mean((found @ tf.convert_to_tensor(kernel) - wanted) ** 2)
        for part, gradient in zip(flat, tape.gradient(loss, flat), strict=True):
            if gradient is not None:
                part.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    said(name, *repeated(coordinator, step))
    with tempfile.TemporaryDirectory() as folder:
        module = tf.Module()
        module.table, module.kernel = table, kernel
        saver = tf.train.Checkpoint(module=module)
        path = saver.save(f"{folder}/kept")
        for part in flat:
            part.assign(tf.zeros_like(part))
        saver.restore(path).assert_consumed()
        said(f"{name} restored", *(tf.reduce_sum(part.read_value()) for part in flat))
        tf.saved_model.save(module, f"{folder}/model")
        said(f"{name} saved", len(list(Path(folder, "model").iterdir())))


def servers():
    resolver = cluster()
    custom_loop("largest part", resolver, partitioners.MaxSizePartitioner(256))
    custom_loop("fixed parts", resolver, partitioners.FixedShardsPartitioner(2))
    custom_loop("whole", resolver, None)
    keras_loop("keras", resolver)
    keras_loop("keras amsgrad", resolver, None, lambda: tf.keras.optimizers.Adam(0.1, amsgrad=True))
    smallest = partitioners.MinSizePartitioner(min_shard_bytes=128, max_shards=SERVERS)
    keras_loop("keras parts", resolver, smallest, steps=False)
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    keras_loop("keras half", resolver)


def alone():
    """One process: Keras 3 with fit, a model that is exported, and a tf.data service."""
    rows, wanted = batch()
    model = keras_model()
    model.compile(tf.keras.optimizers.Adam(0.1), "mse")
    fitted = model.fit(rows, wanted, epochs=3, verbose=0, shuffle=False)
    said("fit", *fitted.history["loss"])
    with tempfile.TemporaryDirectory() as folder:
        model.export(f"{folder}/model", verbose=False)
        restored = tf.saved_model.load(f"{folder}/model")
        said("exported", tf.reduce_sum(restored.serve(tf.cast(rows, tf.float32))))
        model.save(f"{folder}/model.keras")
        again = tf.keras.models.load_model(f"{folder}/model.keras")
        said("loaded", tf.reduce_sum(again(rows)))
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    numbers = tf.data.Dataset.range(10).map(lambda number: number * 2)
    numbers = numbers.apply(service.distribute("parallel_epochs", dispatcher.target))
    said("data service", sum(numbers.as_numpy_iterator()))
    del worker
    try:
        keras_model()(tf.constant([["text"]]))
    except Exception as error:
        print("a mistake", type(error).__name__, flush=True)


def sessions():
    """A graph with divided variables, trained through a monitored session."""
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    with tempfile.TemporaryDirectory() as folder, tf.Graph().as_default():
        rows = v1.placeholder(tf.int64, (None, 3))
        parts = v1.fixed_size_partitioner(2)
        table = v1.get_variable(
            "table", (ROWS, WIDTH), initializer=v1.ones_initializer(), partitioner=parts
        )
        found = tf.nn.embedding_lookup(table, rows)
        loss = tf.reduce_mean((tf.reduce_sum(found, (1, 2)) - 1.0) ** 2)
        counted = v1.train.get_or_create_global_step()
        train = v1.train.AdamOptimizer(0.1).minimize(loss, global_step=counted)
        with v1.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
            feed = {rows: np.array([[1, 5, 9], [1, 2, 63]])}
            for _ in range(3):
                said("session", session.run([loss, train], feed)[0])
            said("counted", session.run(counted))
        said("checkpoints", len(list(Path(folder).glob("*.index"))))


def legacy():
    """Keras 2 with parameter servers: fit, and a loop with divided tables."""
    resolver = cluster()
    smallest = partitioners.MinSizePartitioner(min_shard_bytes=128, max_shards=SERVERS)
    keras_loop("legacy parts", resolver, smallest)
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        model = keras_model()
        model.compile(tf.keras.optimizers.Adam(0.1), "mse", steps_per_execution=1)
    data = tf.data.Dataset.from_tensors(batch()).repeat()
    fitted = model.fit(data, epochs=2, steps_per_epoch=1, verbose=0)
    said("legacy fit", *fitted.history["loss"])


def main():
    globals()[sys.argv[1]]()


if __name__ == "__main__":
    main()
