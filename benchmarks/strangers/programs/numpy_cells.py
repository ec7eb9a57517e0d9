"""Each member clusters its own points (k-means in small batches) and keeps its centres."""

import os
import time

import kit
import numpy as np


def nearest(points, centres):
    squares = (points**2).sum(1)[:, None] - 2 * points @ centres.T + (centres**2).sum(1)
    return squares.argmin(1), squares.min(1)


def update(centres, counts, points, which):
    member = np.zeros((len(centres), len(points)), np.float32)
    member[which, np.arange(len(points))] = 1
    fresh = member.sum(1)
    counts += fresh
    centres += (member @ points - fresh[:, None] * centres) / counts[:, None]


def second_look(source, centres, width):
    held = source.standard_normal((kit.number("LOOK_SIZE", 4096), width), dtype=np.float32)
    return float(nearest(held, centres)[1].mean())


def main():
    member, batch = int(os.environ["MOORING_INDEX"]), kit.number("BATCH", 1024)
    width, cells = kit.number("WIDTH", 128), kit.number("CELLS", 128)
    source = np.random.default_rng(member + 100)
    centres = source.standard_normal((cells, width), dtype=np.float32)
    counts = np.ones(cells, np.float32)
    pool = source.standard_normal((16, batch, width), dtype=np.float32)
    keep, look, began = kit.number("KEEP", 0), kit.number("LOOK", 0), time.time()
    for step in kit.rounds(batch, together=False):
        kit.hook("a")
        points = pool[step % 16]
        which, distance = nearest(points, centres)
        kit.hook("b")
        update(centres, counts, points, which)
        kit.hook("d")
        if keep and step % keep == 0:
            np.savetxt(kit.path(f"centres-{member}.txt"), centres)
        if look and step % look == 0:
            print(f"held out {second_look(source, centres, width):.3f}", flush=True)
        if step % 20 == 0:
            rate = step * batch / (time.time() - began)
            print(
                f"member {member}: step {step}, loss {distance.mean():.4f}, {rate:.0f}/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
