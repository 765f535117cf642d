"""Cuts the power while an operation runs, or right after it, and says what is left; run as a program.

    python losing_power.py FOLDER LOSSES SEED

Half of the losses come right after a root document took its place, which is when most is at stake. Prints one line of
JSON for each loss: the operation, after how many changes of files of how many, and what was wrong (null for nothing).
"""

import gc
import json
import shutil
import sys
from pathlib import Path

import dask
import numpy as np
from crash_operations import OPERATIONS
from crashing import judged, prepared
from disk_model import Disk


def main(folder, n_losses, seed):
    gc.freeze()
    rng = np.random.default_rng(seed)
    for name, operation in OPERATIONS.items():
        home = Path(folder) / name.replace(" ", "_")
        begun, before, after, changes = prepared(home, operation)
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
            wrong = judged(remaining, name, after if moment == len(changes) else before, after)
            shutil.rmtree(remaining.parent)
            print(
                json.dumps({"operation": name, "point": moment, "of": len(changes), "wrong": wrong}),
                flush=True,
            )


if __name__ == "__main__":
    with dask.config.set(scheduler="sync"):
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
