"""A chief whose worker does not answer any more when the chief lets go of its functions.

It starts its server and its worker itself, trains a little, stops the worker (SIGSTOP) and returns:
TensorFlow then tells the worker to forget each function, and waits for the answer. argv: the exit
code.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys

import tensorflow as tf


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def serve():
    cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=3)
    tf.distribute.Server(
        cluster.cluster_spec(), cluster.task_type, cluster.task_id, protocol="grpc", config=config
    ).join()


def train():
    cluster = {"ps": [f"127.0.0.1:{free_port()}"], "worker": [f"127.0.0.1:{free_port()}"]}
    processes = []
    for role in cluster:
        config = {"cluster": cluster, "task": {"type": role, "index": 0}}
        env = {**os.environ, "TF_CONFIG": json.dumps(config)}
        env.pop("MOORING_INSIDE", None)
        processes.append(subprocess.Popen([sys.executable, __file__, "serve"], env=env))
    # The worker may be asleep when it is told to end: SIGKILL does not mind.
    atexit.register(lambda: [process.kill() for process in processes])
    tf.config.threading.set_inter_op_parallelism_threads(3)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weight = tf.Variable(1.0)

    @tf.function
    def step():
        return weight.assign_add(1.0)

    coordinator.schedule(step)
    coordinator.join()
    print("weight", float(weight.numpy()), flush=True)
    processes[1].send_signal(signal.SIGSTOP)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    atexit.register(print, "flushed at exit")
    train()
    print("returned")
    sys.exit(int(sys.argv[1]))
