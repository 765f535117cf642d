"""Script that kills a process at each file change of an operation and checks what is left.

    python crashing.py FOLDER POINTS SEED    POINTS in all, spread over the operations; 0 for all of them

Prints one line of JSON for each point: the operation, the point, the number of points, and the error (or null).
Processes are forked from this one, which imports everything and starts no threads.
"""

import gc
import json
import os
import pickle
import shutil
import sys
import time
import traceback
from functools import partial
from pathlib import Path

import dask
import dask.array  # imported once here instead of in every forked process
import numpy as np
from crash_operations import OPERATIONS, rows, state, write
from file_log import FileLog

import dkdist as dk

ENDED = 77
NAMES = [getattr(dk, name) for name in dk.__all__]


def in_child(call):
    """Return the result of a call in a forked process, or None if it exited on purpose."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        gc.disable()  # collection would copy memory shared with the parent
        try:
            answer = pickle.dumps((True, call()))
        except BaseException:
            answer = pickle.dumps((False, traceback.format_exc()))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == ENDED:
        return None
    good, value = pickle.loads(answer)
    if not good:
        raise RuntimeError(value)
    return value


def run_to(place, run, k):
    """Run an operation up to its k-th file change (half of it, if it is a write), and exit."""
    n_changes = 0

    def watch(kind, *what):
        nonlocal n_changes
        n_changes += 1
        if n_changes == k:
            if kind == "write":
                log.write_half(*what)
            os._exit(ENDED)

    log = FileLog(place.parent, watch)
    log.install()
    run(place)


def left_behind(place):
    return sorted(
        str(p.relative_to(place.parent)) for p in place.parent.rglob("*") if "dkdist-" in p.name
    ) + [p.name for p in place.parent.iterdir() if p != place]


def find_error(place, name, before, after):
    """Return a description of what is wrong after an interrupted operation, or None."""
    operation = OPERATIONS[name]
    result = state(place)
    if result not in (before, after):
        return f"state {result}, expected {before} or {after}"
    if result == before and before != after:
        operation.run(place)
        if state(place) != after:
            return "doing it again gave something else"
    for folder in place.parent.glob(
        ".*"
    ):  # nobody's, if it was ended before it had an owner: an hour later it goes
        os.utime(folder, (time.time() - 7200,) * 2)
    if "features" in name:
        dk.write_features(place, rows(3), overwrite=True)
    else:
        write(place, 3, overwrite=True)
    state(place)
    return f"left behind: {left_behind(place)}" if left_behind(place) else None


def prepare_operation(home, operation):
    """Return the prepared place of an operation, the states before and after it, and its file changes."""
    place, finished = home / "prepare_operation" / "s", home / "finished" / "s"
    place.parent.mkdir(parents=True)
    in_child(partial(operation.prepare, place))
    before = in_child(partial(state, place))
    shutil.copytree(place.parent, finished.parent)
    changes = in_child(partial(log_changes, finished, operation.run))
    after = in_child(partial(state, finished))
    assert after is not None
    return place, before, after, changes


def log_changes(place, run):
    """Return the file changes of an operation."""
    changes = []
    log = FileLog(place.parent, lambda *change: changes.append(change))
    log.install()
    run(place)
    if log.missed:
        raise RuntimeError(f"changes of files that the harness did not see: {log.missed}")
    return changes


def find_error_in_child(place, name, before, after):
    """Return the result of `find_error`, or the error that it raises."""
    try:
        return in_child(partial(find_error, place, name, before, after))
    except RuntimeError as error:
        return str(error)


def main(folder, n_points, seed):
    gc.freeze()
    rng = np.random.default_rng(seed)
    for name, operation in OPERATIONS.items():
        home = Path(folder) / name.replace(" ", "_")
        begun, before, after, changes = prepare_operation(home, operation)
        requested = -(-n_points // len(OPERATIONS)) if n_points else len(changes)
        points = np.arange(1, len(changes) + 1)
        if requested < len(points):
            points = np.sort(rng.choice(points, requested, replace=False))
        for k in points.tolist():
            place = home / "ended" / "s"
            shutil.copytree(begun.parent, place.parent)
            in_child(partial(run_to, place, operation.run, k))
            wrong = find_error_in_child(place, name, before, after)
            shutil.rmtree(place.parent)
            print(json.dumps({"operation": name, "point": k, "of": len(changes), "wrong": wrong}), flush=True)


if __name__ == "__main__":
    with dask.config.set(scheduler="sync"):
        main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
