"""Programs as a stranger writes them: names that say nothing, nothing of Mooring in them."""

SLEEPER = """
import time
def a(n):
    s = 0
    for i in range(n):
        s += i * i
    return s
def b():
    time.sleep(0.03)
t = time.time(); i = 0
while time.time() - t < SECONDS:
    a(50000); b(); i += 1
    print(f"step {i} loss 0.5", flush=True)
"""

OWN_FUNCTION = """
import time
def jitter(v):
    return [x * 1.0001 for x in v]
def score(v):
    s = 0.0
    for x in v:
        s += x * x
        if s > 1e9: s = 0.0
    return s
v = [float(i) for i in range(2000)]
t = time.time(); i = 0
while time.time() - t < SECONDS:
    w = jitter(v)
    for _ in range(30):
        score(w)
    i += 1
    print(f"step {i} loss 0.5", flush=True)
"""

PRODUCER_THREAD = """
import queue, threading, time
q = queue.Queue(2)
def u():
    while True:
        time.sleep(0.03)
        q.put(list(range(100)))
threading.Thread(target=u, daemon=True).start()
t = time.time(); i = 0
while time.time() - t < SECONDS:
    sum(q.get()); i += 1
    print(f"step {i} loss 0.5", flush=True)
"""

DISK = """
import os, time
t = time.time(); i = 0
f = os.open("out.bin", os.O_CREAT | os.O_WRONLY, 0o600)
d = os.urandom(1 << 20)
def y():
    os.pwrite(f, d, 0)
    os.fsync(f)
while time.time() - t < SECONDS:
    for _ in range(4): y()
    i += 1
    print(f"step {i} loss 0.5", flush=True)
"""

MPI_ONE_SLOW = """
import time
import numpy as np
from mpi4py import MPI
c = MPI.COMM_WORLD
def z(p):
    r = np.empty_like(p)
    c.Allreduce(p, r)
    return r
def k():
    time.sleep(0.04)
for i in range(STEPS):
    if c.rank == 1:
        k()
    v = z(np.ones(100))
    if c.rank == 0:
        print(f"step {i} loss {v[0]}", flush=True)
"""

DDP = """
import os, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
n = int(os.environ.get("WIDE", "64"))
net = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(256, n), torch.nn.Linear(n, 4)))
o = torch.optim.SGD(net.parameters(), lr=0.01)
me = dist.get_rank()
def g():
    if me == 1 and "LATE" in os.environ:
        time.sleep(float(os.environ["LATE"]))
    return torch.randn(32, 256), torch.randint(0, 4, (32,))
for i in range(int(os.environ["STEPS"])):
    x, y = g()
    e = torch.nn.functional.cross_entropy(net(x), y)
    o.zero_grad()
    e.backward()
    o.step()
    if me == 0:
        print(f"step {i} loss {e.item():.4f}", flush=True)
dist.destroy_process_group()
"""

LOADER = """
import time, torch
from torch.utils.data import DataLoader, Dataset
class S(Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, i):
        time.sleep(0.008)
        return torch.full((16,), float(i % 7)), i % 2
torch.set_num_threads(1)
net = torch.nn.Linear(16, 2)
o = torch.optim.SGD(net.parameters(), lr=0.01)
t = time.time()
for i, (x, y) in enumerate(DataLoader(S(), batch_size=32, num_workers=1)):
    e = torch.nn.functional.cross_entropy(net(x), y)
    o.zero_grad(); e.backward(); o.step()
    print(f"step {i} loss {e.item():.4f}", flush=True)
    if time.time() - t > SECONDS:
        break
"""
