"""Parameter servers and workers that only move bytes: real processes, sockets and steps.

TF_CONFIG says who this is. A worker asks each server in turn for as many bytes as `--bytes` lists
for it, and reports a step after each round. `--spin` is CPU work of a server for each answer.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument(
    "--bytes", default="100000", help="of each server, one number for all or a list"
)
parser.add_argument("--seconds", type=float, default=4.5)
parser.add_argument(
    "--pause", type=float, default=0.01, help="CPU seconds of a worker after each round"
)
parser.add_argument("--spin", type=float, default=0.0, help="CPU seconds of a server an answer")
parser.add_argument(
    "--slow", type=int, default=-1, help="the worker that computes ten times longer"
)
parser.add_argument("--narrow", action="store_true", help="hold servers to one CPU")
arguments = parser.parse_args()
config = json.loads(os.environ["TF_CONFIG"])
servers = config["cluster"]["ps"]
index = config["task"]["index"]


def spin(cpu_s):
    end = time.thread_time() + cpu_s
    while time.thread_time() < end:
        pass


def read(connection, count):
    while count:
        data = connection.recv(min(count, 1 << 20))
        if not data:
            return False
        count -= len(data)
    return True


def answer(connection):
    payload = bytes(1 << 20)
    while read(connection, 4):
        size = wanted
        spin(arguments.spin)
        while size:
            size -= connection.send(payload[: min(size, len(payload))])


def connect(address):
    host, port = address.rsplit(":", 1)
    for _ in range(600):
        try:
            return socket.create_connection((host, int(port)))
        except OSError:
            time.sleep(0.05)
    sys.exit(f"no server at {address}")


sizes = [int(part) for part in arguments.bytes.split(",")]
sizes = sizes if len(sizes) > 1 else sizes * len(servers)
if config["task"]["type"] == "ps":
    if arguments.narrow:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    wanted = sizes[index]
    listener = socket.create_server(("", int(servers[index].rsplit(":", 1)[1])))
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=answer, args=(peer,), daemon=True).start()
connections = [connect(address) for address in servers]
end = time.monotonic() + arguments.seconds
step = 0
while time.monotonic() < end:
    for connection, size in zip(connections, sizes, strict=True):
        if size:
            connection.sendall(b"more")
            read(connection, size)
    step += 1
    os.write(1, b'::mooring:: {"step": %d, "examples": 64}\n' % step)
    spin(arguments.pause * (10 if index == arguments.slow else 1))
