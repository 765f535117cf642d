"""Script that appends to or replaces a store until it is killed, and prints each committed length."""

import sys

import numpy as np


def append_until_killed(path, seed):
    """Append batches of the counted collection, several to a commit."""
    from samples import counted_batch

    from dkdist.io import SetWriter, open_sets

    rng = np.random.default_rng(seed)
    n = len(open_sets(path))
    print("ready", flush=True)
    while True:
        with SetWriter(path, 3, "a") as writer:
            for k in rng.integers(1, 400, rng.integers(1, 6)):
                writer.append(counted_batch(n, k), np.arange(n, n + k), np.arange(n, n + k).astype(str))
                n += int(k)
        print(n, flush=True)


def replace_until_killed(path, seed):
    """Replace the store by counted collections of changing length."""
    from samples import counted_batch

    from dkdist.io import write_sets

    print("ready", flush=True)
    for n in np.random.default_rng(seed).integers(1, 2000, 10**6):
        write_sets(path, counted_batch(0, n), np.arange(n), np.arange(n).astype(str), True, chunk_rows=256)
        print(n, flush=True)


if __name__ == "__main__":
    {"append": append_until_killed, "replace": replace_until_killed}[sys.argv[1]](
        sys.argv[2], int(sys.argv[3])
    )
