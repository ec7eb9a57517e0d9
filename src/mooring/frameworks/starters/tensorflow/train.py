"""A linear regression with parameter servers: replace the model and the data by your own."""

import tensorflow as tf

STEPS, BURST, BATCH = 200, 20, 64


def serve(cluster):
    # With a single inter-op thread a server waits for itself, silently and for ever.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=3)
    tf.distribute.Server(
        cluster.cluster_spec(), cluster.task_type, cluster.task_id, protocol="grpc", config=config
    ).join()


def make_dataset(context):
    features = tf.random.stateless_normal((4096, 8), (context.input_pipeline_id, 1))
    targets = tf.reduce_sum(features, 1, keepdims=True)
    return tf.data.Dataset.from_tensor_slices((features, targets)).repeat().batch(BATCH)


def coordinate(cluster):
    tf.config.threading.set_inter_op_parallelism_threads(3)
    strategy = tf.distribute.ParameterServerStrategy(cluster)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weights = tf.Variable(tf.zeros((8, 1)))

    @tf.function
    def train(batches):
        features, targets = next(batches)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(features @ weights - targets))
        weights.assign_sub(0.02 * tape.gradient(loss, weights))
        return loss

    batches = iter(
        coordinator.create_per_worker_dataset(
            lambda: strategy.distribute_datasets_from_function(make_dataset)
        )
    )
    for done in range(BURST, STEPS + 1, BURST):
        scheduled = [coordinator.schedule(train, args=(batches,)) for _ in range(BURST)]
        coordinator.join()
        loss = float(scheduled[-1].fetch())
        print(f"step {done} loss {loss:.6f}", flush=True)


if __name__ == "__main__":
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type == "chief":
        coordinate(resolver)
    else:
        serve(resolver)
