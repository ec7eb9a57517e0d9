"""The tf.distribute strategy of this member, from TF_CONFIG, the budget and the job's `variables`.

Threads: as many as the budget, but never a single inter-op thread, with which a server waits for
itself for ever. Device filters: TensorFlow's own strategy sets them (a worker talks to servers and
to the chief, not to other workers); they were checked, not added.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

import tensorflow as tf

from mooring.sdk import budget, tell
from mooring.sharding import MOST_SHARD_BYTES, VariablePlacement
from mooring.tensorflow.placing import Partitioner, follow

_LEAST_INTER_OP = 3


def strategy() -> Any:
    """The strategy for this member; call it before anything else of TensorFlow.

    Parameter servers: the chief gets a ParameterServerStrategy that places variables as the job
    says; workers and servers serve in here and never come back. All-reduce: a
    MultiWorkerMirroredStrategy. An evaluator, or a program on its own: the default strategy, or a
    MirroredStrategy if it sees several GPUs.
    """
    config = json.loads(os.environ.get("TF_CONFIG") or "{}")
    cluster, role = config.get("cluster", {}), config.get("task", {}).get("type")
    if "ps" in cluster and role in ("worker", "ps"):
        _serve()
    _set_threads()
    if role == "evaluator" or not cluster:
        return _alone()
    if "ps" not in cluster:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if role != "chief":
        raise RuntimeError(f"no strategy for role {role!r}: parameter servers need a role 'chief'")
    return _coordinated(len(cluster["ps"]))


def _coordinated(servers: int) -> Any:
    wanted = json.loads(os.environ.get("MOORING_VARIABLES") or "{}")
    placement = VariablePlacement(wanted.get("placement", VariablePlacement.PARTITIONED))
    partitioner = None
    if placement is VariablePlacement.PARTITIONED:
        partitioner = Partitioner(servers, int(wanted.get("maxShardBytes", MOST_SHARD_BYTES)))
    made = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.TFConfigClusterResolver(), variable_partitioner=partitioner
    )
    follow(made.extended, servers, placement)
    tell({"program": {"trait": "sdk-strategy"}})
    return made


def _alone() -> Any:
    if len(tf.config.list_logical_devices("GPU")) > 1:
        return tf.distribute.MirroredStrategy()
    return tf.distribute.get_strategy()


def _serve() -> NoReturn:
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    threads, inter_op = _threads()
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=inter_op
    )
    server = tf.distribute.Server(
        resolver.cluster_spec(),
        job_name=resolver.task_type,
        task_index=resolver.task_id,
        protocol="grpc",
        config=config,
    )
    server.join()
    raise SystemExit


def _set_threads() -> None:
    threads, inter_op = _threads()
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(inter_op)
    except RuntimeError:
        text = "mooring: TensorFlow had begun before strategy() was called: threads not set"
        print(text, file=sys.stderr, flush=True)


def _threads() -> tuple[int, int]:
    threads = budget().threads
    inter_op = int(os.environ.get("TF_NUM_INTEROP_THREADS") or threads)
    return threads, max(_LEAST_INTER_OP, inter_op)
