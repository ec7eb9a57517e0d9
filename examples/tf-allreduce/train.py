"""TensorFlow all-reduce: MultiWorkerMirroredStrategy in a loop of one's own.

Every worker holds the whole model, computes on its own data, and the gradients are averaged over
a ring. TF_CONFIG, which Mooring sets, says who the others are.
"""

import argparse

import tensorflow as tf

from mooring import step

FEATURES = 16


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=64, help="examples a worker")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    return parser.parse_args()


def make_dataset(worker, batch):
    """Numbers and a bent function of them; each worker draws its own."""
    features = tf.random.stateless_normal((4096, FEATURES), (worker, 1))
    targets = tf.reduce_sum(features, 1, keepdims=True) + tf.abs(features[:, :1])
    return tf.data.Dataset.from_tensor_slices((features, targets)).repeat().batch(batch)


def main():
    arguments = parse_arguments()
    # The strategy must exist before any other TensorFlow call: it starts this worker's server.
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=tf.distribute.experimental.CommunicationOptions(
            implementation=tf.distribute.experimental.CommunicationImplementation.RING
        )
    )
    with strategy.scope():
        hidden = tf.Variable(tf.random.stateless_normal((FEATURES, 32), (7, 7), stddev=0.25))
        bias = tf.Variable(tf.zeros((32,)))
        output = tf.Variable(tf.random.stateless_normal((32, 1), (7, 8), stddev=0.25))
    variables = [hidden, bias, output]

    def replica_step(features, targets):
        with tf.GradientTape() as tape:
            guess = tf.nn.relu(features @ hidden + bias) @ output
            loss = tf.reduce_mean(tf.square(guess - targets))
        gradients = tape.gradient(loss, variables)
        context = tf.distribute.get_replica_context()
        for variable, mean in zip(variables, context.all_reduce("mean", gradients), strict=True):
            variable.assign_sub(arguments.learning_rate * mean)
        return loss

    @tf.function
    def train(batches):
        losses = strategy.run(replica_step, args=next(batches))
        return strategy.reduce("mean", losses, axis=None)

    batches = iter(
        strategy.distribute_datasets_from_function(
            lambda context: make_dataset(context.input_pipeline_id, arguments.batch)
        )
    )
    replicas = strategy.num_replicas_in_sync
    for done in range(1, arguments.steps + 1):
        loss = float(train(batches))
        step(examples=arguments.batch, loss=loss, step=done, total=arguments.steps)
        if done == 1 or done % 20 == 0:
            print(f"step {done:4d} loss {loss:.4f} replicas {replicas}", flush=True)
    checksum = sum(float(tf.reduce_sum(variable)) for variable in variables)
    print(f"replicas {replicas} checksum {checksum:.6f}", flush=True)


if __name__ == "__main__":
    main()
