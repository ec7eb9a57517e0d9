"""Writes the timeline.json of one step with two parameter servers, as users of sessions make it."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.client import timeline


def start_cluster() -> tuple[list[Any], str]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(3)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        ports = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    spec = tf.train.ClusterSpec({"ps": ports[:2], "worker": ports[2:]})
    config = tf.ConfigProto(inter_op_parallelism_threads=4)
    tasks = [("ps", 0), ("ps", 1), ("worker", 0)]
    servers = [tf.train.Server(spec, job, task, config=config) for job, task in tasks]
    return servers, servers[2].target


def main(path: Path) -> None:
    tf.disable_eager_execution()
    servers, target = start_cluster()
    with tf.device("/job:ps/task:0"):
        table = tf.get_variable("table", (20_000, 16), use_resource=False)
    with tf.device("/job:ps/task:1"):
        kernel = tf.get_variable("kernel", (16, 4), use_resource=False)
    with tf.device("/job:worker/task:0"):
        rows = tf.nn.embedding_lookup(table, tf.constant([1, 2, 3]))
        out = tf.reduce_sum(rows @ kernel)
    with tf.Session(target) as session:
        session.run(tf.global_variables_initializer())
        told = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        session.run(out, options=options, run_metadata=told)
    trace = timeline.Timeline(told.step_stats).generate_chrome_trace_format(show_memory=True)
    path.write_text(trace)
    print(len(servers), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
