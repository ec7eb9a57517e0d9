"""One share of the work: replace it by your own program."""

import os

ITEMS = 1000


def main():
    index, count = int(os.environ["MOORING_INDEX"]), int(os.environ["MOORING_WORLD_SIZE"])
    share = range(index, ITEMS, count)
    total = 0
    for done, item in enumerate(share, start=1):
        total += item
        if done % 50 == 0:
            print(f"step {done}", flush=True)
    print(f"index {index} of {count}: {len(share)} items, sum {total}", flush=True)


if __name__ == "__main__":
    main()
