"""Cuts the power while an operation runs, or right after it, and says what is left; run as a program.

    python losing_power.py FOLDER LOSSES SEED

Prints one line of JSON for each loss: the operation, after how many changes of files of how many, and what was wrong
(null for nothing).
"""

import gc
import json
import shutil
import sys
from pathlib import Path

import dask
import numpy as np
from crash_operations import OPERATIONS, state
from crashing import in_child, wrong_after
from disk_model import Disk
from file_log import FileLog


def logged(place, run):
    """The changes of files that an operation makes."""
    changes = []
    log = FileLog(place.parent, lambda *change: changes.append(change))
    log.install()
    run(place)
    assert not log.missed, log.missed
    return changes


def main(folder, n_losses, seed):
    gc.freeze()
    rng = np.random.default_rng(seed)
    names = sorted(OPERATIONS)
    for name in names:
        operation, home = OPERATIONS[name], Path(folder) / name.replace(" ", "_")
        kept, place, left = home / "kept" / "s", home / "place" / "s", home / "left" / "s"
        kept.parent.mkdir(parents=True)
        in_child(lambda: operation.prepare(kept))
        before = in_child(lambda: state(kept))
        shutil.copytree(kept.parent, place.parent)
        changes = in_child(lambda: logged(place, operation.run))
        after = in_child(lambda: state(place))
        shutil.rmtree(place.parent)
        shutil.copytree(kept.parent, place.parent)
        for _ in range(-(-n_losses // len(names))):
            moment = int(rng.integers(1, len(changes) + 1)) if rng.random() < 0.75 else len(changes)
            disk = Disk(place.parent)
            for change in changes[:moment]:
                disk.follow(*change)
            disk.lose_power(rng, left.parent)
            try:
                wrong = None
                if moment == len(changes) and in_child(lambda: state(left)) != after:
                    wrong = "what was committed is gone"
                wrong = wrong or in_child(lambda: wrong_after(left, name, before, after))
            except RuntimeError as error:
                wrong = str(error)
            shutil.rmtree(left.parent)
            print(
                json.dumps({"operation": name, "point": moment, "of": len(changes), "wrong": wrong}),
                flush=True,
            )


if __name__ == "__main__":
    with dask.config.set(scheduler="sync"):
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
