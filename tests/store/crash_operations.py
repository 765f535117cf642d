"""Operations of a writer on a store, each with its initial state, and a digest of the committed state.

Every operation starts from a committed store and ends with another. `state` reads everything at a place: after a
crash it must equal the state before or after the operation.
"""

import dataclasses
import hashlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba.core.entrypoints import init_all

import dkdist as dk

# Imported once here instead of in every forked process; the second imports libraries that extend Numba.
importlib.import_module("distributed")
init_all()
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
SEED = 7


def collection(n_sets, seed=SEED, d=2):
    """Return sets of 1 to 30 points with weights, two targets and ids, drawn from a seed."""
    rng = np.random.default_rng([seed, n_sets])
    sizes = rng.integers(1, 30, n_sets)
    points = rng.standard_normal((int(sizes.sum()), d)).astype("f4")
    sets = dk.SampleSets(points, np.concatenate([[0], np.cumsum(sizes)]), np.ones(len(points)))
    targets = {"y": np.arange(n_sets) / 7, "name": np.arange(n_sets).astype(str)}
    return sets, targets, np.array([f"{seed}-{i}" for i in range(n_sets)])


def rows(seed, n=20):
    """Return features drawn from a seed."""
    return np.random.default_rng(seed).standard_normal((n, 3)).astype("f4")


def write(place, n_sets, seed=SEED, overwrite=False):
    sets, targets, ids = collection(n_sets, seed)
    dk.write_sets(place, sets, targets, ids, overwrite, chunk_rows=64)


def append(place, n_sets, seed):
    sets, targets, ids = collection(n_sets, seed)
    dk.open_sets(place).append(sets, targets, ids)


def grow(place):
    write(place, 5)
    append(place, 6, 1)
    append(place, 7, 2)


def lazy_features(seed):
    import dask.array as da

    return da.from_array(rows(seed), chunks=(6, 3), name=f"rows_{seed}")


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation `run` on the store that `prepare` wrote; both take the place."""

    prepare: Callable[[Path], None]
    run: Callable[[Path], None]
    resumable: bool = False
    """Whether a rerun resumes from the files of an interrupted run."""


def _nothing(place):
    pass


def _import(place):
    dk.import_sets(place, range(3), collection_of, overwrite=True, chunk_rows=64)


def collection_of(seed):
    return collection(4, seed)


OPERATIONS = {
    "write": Operation(_nothing, lambda place: write(place, 9)),
    "append": Operation(lambda place: write(place, 9), lambda place: append(place, 11, 1)),
    "replace": Operation(lambda place: write(place, 9), lambda place: write(place, 12, 1, overwrite=True)),
    "compact": Operation(grow, lambda place: dk.compact(place)),
    "import": Operation(lambda place: write(place, 9), _import),
    "features": Operation(_nothing, lambda place: dk.write_features(place, lazy_features(0)), resumable=True),
    "features again": Operation(
        lambda place: dk.write_features(place, lazy_features(0)),
        lambda place: dk.write_features(place, lazy_features(1), overwrite=True),
    ),
}


def state(place):
    """Verify a place and return a digest of everything committed there; None if nothing is."""
    place = Path(place)
    try:
        features = dk.open_features(place)
    except (dk.StoreFormatError, FileExistsError, FileNotFoundError):
        return _sets_state(place)
    return _digest([np.asarray(features.compute(scheduler="sync"))])


def _sets_state(place):
    try:
        result = dk.open_sets(place)
    except FileNotFoundError:
        return None
    except dk.StoreFormatError as error:
        # the second message is that of incomplete features
        if "nothing was committed" in str(error) or "got 'dkdist.features'" in str(error):
            return None
        raise
    result.verify()
    sets = result.load()
    columns = [result.targets[name] for name in sorted(result.targets)]
    ids = [] if result.ids is None else [result.ids]
    weights = [] if sets.weights is None else [sets.weights]
    return _digest([sets.points, sets.offsets, *weights, *columns, *ids])


def _digest(arrays):
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()
