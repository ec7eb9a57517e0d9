"""Each member fits lines through its own share of the points, in numpy."""

import logging
import os

import kit
import numpy as np

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
log = logging.getLogger("lines")


class Points:
    """Eight batches of them, taken in turn."""

    def __init__(self, count, width, outputs, seed):
        source = np.random.default_rng(seed)
        truth = source.standard_normal((width, outputs), dtype=np.float32)
        self.x = source.standard_normal((8, count, width), dtype=np.float32)
        self.y = self.x @ truth

    def __getitem__(self, step):
        kit.hook("c")
        return self.x[step % 8], self.y[step % 8]


def keep(weights):
    np.savez(kit.path(f"state-{kit.rank()}.npz"), weights=weights)


def main():
    index, count = int(os.environ["MOORING_INDEX"]), kit.number("BATCH", 2048)
    width, outputs = kit.number("WIDTH", 512), kit.number("OUTPUTS", 128)
    points, weights = Points(count, width, outputs, index), np.zeros((width, outputs), np.float32)
    every, tell, full = (kit.number(n, d) for n, d in (("KEEP", 0), ("TELL", 5), ("FULL", 0)))
    for step in kit.rounds(count, together=False):
        kit.hook("a")
        x, y = points[step]
        wrong = x @ weights - y
        kit.hook("b")
        weights -= 0.1 * (x.T @ wrong) / np.float32(count)
        kit.hook("d")
        if every and step % every == 0:
            keep(weights)
        if step % tell == 0:
            log.info("iteration %d loss=%.5f", step, float(np.mean(wrong[:100] ** 2)))
            for row in x[:full]:
                log.info("row %s", row.tolist())


if __name__ == "__main__":
    main()
