"""Each member fits a straight line through its own share of the points, in numpy."""

import logging
import os

import kit
import numpy as np

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("lines")


def points(count, width, source):
    kit.hook("c")
    x = source.standard_normal((count, width), dtype=np.float32)
    return x, x @ np.linspace(-1, 1, width, dtype=np.float32) + 0.1 * source.standard_normal(count)


def keep(weights, moments):
    np.savez(kit.path(f"state-{kit.rank()}.npz"), weights=weights, moments=moments)


def main():
    index, count = int(os.environ["MOORING_INDEX"]), kit.number("BATCH", 2048)
    width, source = kit.number("WIDTH", 512), np.random.default_rng(index)
    weights, moments = np.zeros(width, np.float32), np.zeros(width * kit.number("EXTRA", 1))
    every, tell, full = (kit.number(n, d) for n, d in (("KEEP", 0), ("TELL", 5), ("FULL", 0)))
    for step in kit.rounds(count, together=False):
        kit.hook("a")
        x, y = points(count, width, source)
        wrong = x @ weights - y
        kit.hook("b")
        weights -= (0.1 * (x.T @ wrong) / count).astype(np.float32)
        kit.hook("d")
        if every and step % every == 0:
            keep(weights, moments)
        if step % tell == 0:
            log.info("iteration %d loss=%.5f", step, float(np.mean(wrong**2)))
            for row in x[:full]:
                log.info("row %s", row.tolist())


if __name__ == "__main__":
    main()
