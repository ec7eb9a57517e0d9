"""A member that computes, reports a step after each piece of work, and does what is wrong with it.

Standard library only: it shows what the doctor makes of processes, not of a framework.
"""

import argparse
import hashlib
import os
import select
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=5.0)
parser.add_argument("--work", type=float, default=0.02, help="CPU seconds of a step")
parser.add_argument("--pause", type=float, default=0.0, help="seconds without work in a step")
parser.add_argument("--threads", type=int, default=0, help="further threads that never rest")
parser.add_argument("--bind", action="store_true", help="hold itself to its first CPU")
parser.add_argument("--on", type=int, help="hold itself to this CPU once it has its memory")
parser.add_argument("--hop", action="store_true", help="eight threads that change CPU all the time")
parser.add_argument("--widen", action="store_true", help="take all CPUs of the machine")
parser.add_argument("--loader", action="store_true", help="a further process that never rests")
parser.add_argument("--memory", type=float, default=0.0, help="MiB to hold")
parser.add_argument("--shm", type=float, default=0.0, help="MiB to put into /dev/shm")
arguments = parser.parse_args()
end = time.monotonic() + arguments.seconds


def hash_for_ever():
    # Hashing a large block lets go of the interpreter's lock: these threads do run at once.
    while True:
        hashlib.sha256(bytes(1 << 20))


def resident_bytes():
    with open("/proc/self/statm") as file:  # noqa: PTH123 (a kernel file)
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if arguments.bind:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(arguments.threads):
    threading.Thread(target=hash_for_ever, daemon=True).start()
if arguments.loader and os.fork() == 0:
    while time.monotonic() < end:
        pass
    os._exit(0)
held = []
while resident_bytes() < arguments.memory * (1 << 20):
    held.append(bytearray(b"x" * (1 << 20)))
if arguments.shm:
    with open("/dev/shm/mooring-compute", "wb") as file:  # noqa: PTH123
        file.write(bytes(int(arguments.shm * (1 << 20))))
if arguments.on is not None:
    os.sched_setaffinity(0, {arguments.on})
if arguments.widen:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
cpus = sorted(os.sched_getaffinity(0))


def hop(step):
    """Go to another CPU, and be free to go anywhere as far as anybody can see."""
    os.sched_setaffinity(0, {cpus[step % len(cpus)]})
    os.sched_setaffinity(0, cpus)


def hop_for_ever(step):
    while True:
        hop(step)
        step += 1
        time.sleep(0.05)


if arguments.hop:
    # Each begins on another CPU: whoever looks sees them on all.
    for number in range(8):
        threading.Thread(target=hop_for_ever, args=(number,), daemon=True).start()
nothing, _ = os.pipe()
while time.monotonic() < end:
    until = time.process_time() + arguments.work
    while time.process_time() < until:
        pass
    # Not a sleep, which the doctor would name: it waits for something that it has no name for.
    select.select([nothing], [], [], arguments.pause)
    os.write(1, b'::mooring:: {"examples": 64}\n')
