"""Servers keep the rows of a table; trainers pull them, compute, and push gradients, by torch RPC.

The first SERVERS ranks serve, the others train.
"""

import os

import kit
import torch
import torch.distributed.rpc as rpc

WIDTH, ROWS = kit.number("WIDTH", 32), kit.number("ROWS", 20000)
SERVERS = kit.number("SERVERS", 1)
SHARES = [int(share) for share in os.environ.get("SHARES", "1,1,1,1").split(",")][:SERVERS]


class Shelf:
    rows = None

    @classmethod
    def fill(cls, count):
        cls.rows = torch.randn(count, WIDTH) * 0.01


def pull(ids):
    return Shelf.rows if ids is None else Shelf.rows[ids]


def push(ids, gradients):
    if ids is None:
        Shelf.rows -= 0.1 * gradients
    else:
        Shelf.rows.index_add_(0, ids, gradients, alpha=-0.1)


def shelf_sizes():
    return [ROWS * share // sum(SHARES) for share in SHARES]


def parts(batch):
    """Which rows of which server a batch needs: in proportion to what each keeps."""
    whole = kit.number("WHOLE", 0)
    for server, size in enumerate(shelf_sizes()):
        ids = torch.randint(size, (max(1, batch * size // ROWS),))
        yield server, ids, None if whole else ids


def train_step(model, optimizer, batch):
    wanted = list(parts(batch))
    futures = [rpc.rpc_async(f"shelf{server}", pull, (asked,)) for server, _, asked in wanted]
    pulled = [future.wait().detach().requires_grad_() for future in futures]
    rows = [
        table[ids] if asked is None else table
        for table, (_, ids, asked) in zip(pulled, wanted, strict=True)
    ]
    x = torch.cat(rows)
    for _ in range(kit.number("PASSES", 1)):
        loss = (model(x) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        x = x.detach()
    kit.hook("b")
    for table, (server, _, asked) in zip(pulled, wanted, strict=True):
        rpc.rpc_sync(f"shelf{server}", push, (asked, table.grad))
    return loss.item()


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    name = f"shelf{rank}" if rank < SERVERS else f"trainer{rank - SERVERS}"
    if rank < SERVERS:
        Shelf.fill(shelf_sizes()[rank])
    rpc.init_rpc(name, rank=rank, world_size=world)
    if rank >= SERVERS:
        torch.manual_seed(rank)
        hidden, batch = kit.number("HIDDEN", 1024), kit.number("BATCH", 256)
        model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1)
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in kit.rounds(batch, together=False):
            kit.hook("a")
            loss = train_step(model, optimizer, batch)
            if step % 10 == 0:
                print(f"{name}: step={step} loss={loss:.5f}", flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    main()
