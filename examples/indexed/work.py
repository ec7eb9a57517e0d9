"""Work divided by index: each member handles its share of the numbers and writes what it found.

No framework, no ranks to meet: `mooring.identity()` says which of how many this process is.
"""

import argparse
import json
from pathlib import Path

from mooring import identity, step


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--numbers", type=int, default=200_000)
    parser.add_argument("--output", type=Path, default=Path("results"))
    return parser.parse_args()


def is_prime(number):
    if number < 2:
        return False
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def main():
    arguments = parse_arguments()
    me = identity()
    first, end = (arguments.numbers * part // me.world_size for part in (me.rank, me.rank + 1))
    share = range(first, end)
    found = 0
    for done, number in enumerate(share, start=1):
        found += is_prime(number)
        if done % 10_000 == 0 or done == len(share):
            step(examples=(done - 1) % 10_000 + 1, step=done, total=len(share))
    arguments.output.mkdir(parents=True, exist_ok=True)
    result = {"index": me.rank, "of": me.world_size, "numbers": len(share), "primes": found}
    (arguments.output / f"part-{me.rank}.json").write_text(json.dumps(result) + "\n")
    print(f"index {me.rank} of {me.world_size}: {found} primes in {len(share)} numbers", flush=True)


if __name__ == "__main__":
    main()
