"""Wide & Deep with parameter servers, made fast. Every role runs this file.

Workers and parameter servers only serve, inside `mt.strategy()`. The chief describes the model and
the step, and hands steps to whichever worker is free, in bursts; after each burst it reports to
Mooring. `plain.py` is the same model as TensorFlow's tutorial would have it.
"""

import argparse

import mooring
import mooring.tensorflow as mt


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--burst", type=int, default=40, help="steps between two reports")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the embedding table")
    parser.add_argument("--width", type=int, default=16, help="numbers in a row")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 32])
    parser.add_argument("--optimizer", choices=["lazy-adam", "adam"], default="lazy-adam")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", type=int, default=40, help="batches of held-out data")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    strategy = mt.strategy()

    import tensorflow as tf
    from data import HELD_OUT, make_streams
    from dense_adam import DenseAdam
    from model import WideDeep

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    make_optimizer = mt.LazyAdam if arguments.optimizer == "lazy-adam" else DenseAdam
    with strategy.scope():
        optimizer = make_optimizer(arguments.learning_rate)
        model = WideDeep(arguments.rows, arguments.width, arguments.hidden, optimizer)

    @tf.function
    def train(batches):
        return strategy.run(model.train, args=next(batches))

    @tf.function
    def judge(batches):
        return strategy.run(model.judge, args=next(batches))

    def burst(function, batches, count):
        scheduled = [coordinator.schedule(function, args=(batches,)) for _ in range(count)]
        coordinator.join()
        return coordinator.fetch(scheduled)

    def judge_held_out(batches):
        judged = burst(judge, batches, arguments.judge)
        loss, right = (sum(float(each[at]) for each in judged) / len(judged) for at in (0, 1))
        return f"loss {loss:.4f} accuracy {right:.4f}"

    held_out = make_streams(coordinator, HELD_OUT, arguments.batch, arguments.rows)
    if arguments.judge:
        # What training starts from; and the end does not have to wait for this function's graph.
        print(f"untrained, on held-out data: {judge_held_out(held_out)}", flush=True)
    batches = make_streams(coordinator, arguments.seed * 1000, arguments.batch, arguments.rows)
    first = last = None
    for done in range(0, arguments.steps, arguments.burst):
        count = min(arguments.burst, arguments.steps - done)
        last = sum(map(float, burst(train, batches, count))) / count
        if first is None:
            first = last
            mt.check_lookups(train)
        mooring.step(count * arguments.batch, last, done + count, arguments.steps)
        print(f"step {done + count:5d} loss {last:.4f}", flush=True)
    print(f"loss {first:.4f} -> {last:.4f}", flush=True)
    if arguments.judge:
        print(f"held out: {judge_held_out(held_out)}", flush=True)


if __name__ == "__main__":
    main()
