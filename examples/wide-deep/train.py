"""Wide & Deep with parameter servers. Every role runs this file; TF_CONFIG says which it is.

Workers and parameter servers only serve. The chief describes the model and the step, and hands
steps to whichever worker is free, in bursts; after each burst it reports to Mooring.
"""

import argparse
import os

import tensorflow as tf
from data import make_dataset
from model import WideDeep

from mooring import step

# With a single inter-op thread a server waits for itself, silently and for ever.
INTER_OP_THREADS = max(3, int(os.environ.get("TF_NUM_INTEROP_THREADS", "0")))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--burst", type=int, default=40, help="steps between two reports")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the embedding table")
    parser.add_argument("--width", type=int, default=16, help="numbers in a row")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 32])
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--partition",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="divide large tables over all parameter servers instead of one server a table",
    )
    return parser.parse_args()


def serve(cluster):
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=INTER_OP_THREADS)
    server = tf.distribute.Server(
        cluster.cluster_spec(),
        job_name=cluster.task_type,
        task_index=cluster.task_id,
        protocol="grpc",
        config=config,
    )
    server.join()


def coordinate(cluster, arguments):
    tf.config.threading.set_inter_op_parallelism_threads(INTER_OP_THREADS)
    partitioner = None
    if arguments.partition:
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(
            min_shard_bytes=256 << 10, max_shards=cluster.cluster_spec().num_tasks("ps")
        )
    strategy = tf.distribute.ParameterServerStrategy(cluster, variable_partitioner=partitioner)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = WideDeep(arguments.rows, arguments.width, arguments.hidden, arguments.learning_rate)

    def stream(context):
        seed = arguments.seed * 1000 + context.input_pipeline_id
        return make_dataset(seed, arguments.batch, arguments.rows)

    @tf.function
    def train(batches):
        return strategy.run(model.train, args=next(batches))

    batches = iter(
        coordinator.create_per_worker_dataset(
            lambda: strategy.distribute_datasets_from_function(stream)
        )
    )
    first = last = None
    for done in range(0, arguments.steps, arguments.burst):
        count = min(arguments.burst, arguments.steps - done)
        scheduled = [coordinator.schedule(train, args=(batches,)) for _ in range(count)]
        coordinator.join()
        last = sum(float(loss) for loss in coordinator.fetch(scheduled)) / count
        first = last if first is None else first
        step(count * arguments.batch, last, done + count, arguments.steps)
        print(f"step {done + count:5d} loss {last:.4f}", flush=True)
    print(f"loss {first:.4f} -> {last:.4f}", flush=True)


def main():
    arguments = parse_arguments()
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if cluster.task_type == "chief":
        coordinate(cluster, arguments)
    else:
        serve(cluster)


if __name__ == "__main__":
    main()
