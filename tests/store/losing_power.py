"""Script that simulates a power loss during or after an operation and checks what is left.

    python losing_power.py FOLDER LOSSES SEED

Half of the losses come right after a root document was replaced, the most critical moment. Prints one line of JSON for
each loss: the operation, the number of file changes before it and in all, and the error (or null).
"""

import gc
import json
import shutil
import sys
from pathlib import Path

import dask
import numpy as np
from crash_operations import OPERATIONS
from crashing import find_error_in_child, prepare_operation
from disk_model import Disk


def main(folder, n_losses, seed):
    gc.freeze()
    rng = np.random.default_rng(seed)
    for name, operation in OPERATIONS.items():
        home = Path(folder) / name.replace(" ", "_")
        begun, before, after, changes = prepare_operation(home, operation)
        place, remaining = home / "finished" / "s", home / "left" / "s"
        shutil.rmtree(place.parent)
        shutil.copytree(begun.parent, place.parent)
        placed = [
            k
            for k, change in enumerate(changes, 1)
            if change[0] == "rename" and change[2].endswith("/zarr.json")
        ]
        for i in range(-(-n_losses // len(OPERATIONS))):
            moment = int(rng.choice(placed if i % 2 else [*range(1, len(changes) + 1), *[len(changes)] * 40]))
            disk = Disk(place.parent)
            for change in changes[:moment]:
                disk.follow(*change)
            disk.lose_power(rng, remaining.parent)
            wrong = find_error_in_child(remaining, name, after if moment == len(changes) else before, after)
            shutil.rmtree(remaining.parent)
            print(
                json.dumps({"operation": name, "point": moment, "of": len(changes), "wrong": wrong}),
                flush=True,
            )


if __name__ == "__main__":
    with dask.config.set(scheduler="sync"):
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
