"""LazyAdam on a cluster of parameter servers inside this process; prints what a test checks.

A process of its own, because TensorFlow connects to a cluster once.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import ExitStack
from typing import Any

import numpy as np
import tensorflow as tf

ROWS, WIDTH, SERVERS = 10_001, 8, 2


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


def start_cluster() -> list[Any]:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(SERVERS + 2)]
    cluster = {"chief": addresses[:1], "worker": addresses[1:2], "ps": addresses[2:]}
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)
    spec = tf.train.ClusterSpec({"worker": cluster["worker"], "ps": cluster["ps"]})
    servers = [
        tf.distribute.Server(spec, job_name=job, task_index=index, protocol="grpc", config=config)
        for job in ("worker", "ps")
        for index in range(len(cluster[job]))
    ]
    task = {"type": "chief", "index": 0}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    return servers


def initial(partition_shape: Any = None, partition_offset: Any = None) -> Any:
    begin = 0 if partition_offset is None else partition_offset[0]
    count = ROWS if partition_shape is None else partition_shape[0]
    rows = tf.cast(tf.range(begin, begin + count), tf.float32)
    return tf.sin(rows[:, None] + tf.range(WIDTH, dtype=tf.float32))


def main(folder: str) -> None:
    servers = start_cluster()
    import mooring.tensorflow as mt

    strategy = mt.strategy()
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        table = tf.Variable(initial, shape=(ROWS, WIDTH), dtype=tf.float32, name="table")
        kernel = tf.Variable(tf.ones((WIDTH, 1)), name="kernel")
        optimizer = mt.LazyAdam(0.01, count_by="row")
        optimizer.build([table, kernel])
    every_row = tf.range(ROWS)

    @tf.function
    def train(factor: Any) -> Any:
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(table, every_row)
            loss = tf.reduce_mean((rows @ tf.convert_to_tensor(kernel) * factor - 1.0) ** 2)
        optimizer.minimize(loss, [table, kernel], tape)
        return loss

    @tf.function
    def pull(ids: Any) -> Any:
        return tf.gather(tf.convert_to_tensor(kernel), ids)

    for number in range(5):
        coordinator.schedule(train, args=(tf.constant(1.0 + 0.1 * number),))
        coordinator.join()
    coordinator.schedule(pull, args=(tf.constant([1, 2]),))
    coordinator.join()

    checkpoint = tf.train.Checkpoint(table=table, optimizer=optimizer)
    path = checkpoint.save(f"{folder}/model")
    before = [slot.numpy() for slot in (table, optimizer.slots[0].m, optimizer.slots[0].steps)]
    for part in mt.parts_of([table, optimizer.slots[0].m, optimizer.slots[0].steps]):
        part.assign(tf.zeros_like(part))
    checkpoint.restore(path).assert_consumed()
    after = [slot.numpy() for slot in (table, optimizer.slots[0].m, optimizer.slots[0].steps)]
    np.save(f"{folder}/table.npy", table.numpy())
    document = {
        "parts": [[int(part.shape[0]), part.device] for part in table.variables],
        "slots": [part.device for part in optimizer.slots[0].m.variables],
        "restored": all(np.array_equal(one, two) for one, two in zip(before, after, strict=True)),
        "steps": [float(after[2].min()), float(after[2].max())],
        "lookups": [[each.variable, each.whole] for each in mt.check_lookups(train)],
        "pulls": [[each.variable, each.whole] for each in mt.check_lookups(pull)],
        "path": path,
        "servers": len(servers),
    }
    print(f"RESULT {json.dumps(document)}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
