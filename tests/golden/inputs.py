"""Fixed inputs of the golden cases, in memory or lazily from a store."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray

import dkdist as dk

N_SETS = 24
BLOCK_SETS = 7  # four blocks of a store
BLOCK_ROWS = 64
LABELS = np.arange(N_SETS) % 2


def rounded(values: Any) -> Any:
    """Multiples of 2^-16, which float32 holds exactly: inputs do not depend on the last bits of a library."""
    return np.round(np.asarray(values) * 2**16) / 2**16


@cache
def arrays(name: str) -> tuple[NDArray[np.float64], ...]:
    """Sets of 8 to 40 points, and one of 300, for densities on a grid.

    "line", "plane", "space" and "five" have 1, 2, 3 and 5 dimensions in the unit cube; "series" are random walks.
    """
    n_dims = {"line": 1, "plane": 2, "space": 3, "five": 5, "series": 2}[name]
    rng = np.random.default_rng([n_dims, len(name)])
    sizes = rng.integers(8, 41, N_SETS)
    if name == "series":
        return tuple(
            np.cumsum(rounded(rng.normal(0.2 * k, 1, (n, n_dims))), axis=0)
            for n, k in zip(sizes, LABELS, strict=True)
        )
    sizes[4] = 300
    return tuple(rounded(rng.beta(2, 2 + k, (n, n_dims))) for n, k in zip(sizes, LABELS, strict=True))


@cache
def strings() -> tuple[str, ...]:
    """Words of 4 to 12 letters of two alphabets that overlap."""
    rng = np.random.default_rng(11)
    letters = [list("abcd"), list("bcde")]
    return tuple("".join(rng.choice(letters[k], rng.integers(4, 13))) for k in LABELS)


@cache
def targets() -> NDArray[np.float64]:
    """A number for each set of the plane: its mean, with noise."""
    rng = np.random.default_rng(12)
    return rounded([x.mean() for x in arrays("plane")] + 0.05 * rng.normal(size=N_SETS))


@cache
def classes() -> NDArray[np.str_]:
    """A third of the sets of the plane each, by their means."""
    means = np.array([x.mean() for x in arrays("plane")])
    return np.array(["low", "middle", "high"])[np.digitize(means, np.quantile(means, [1 / 3, 2 / 3]))]


@cache
def table() -> tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.int64]]:
    """400 rows of 12 features of order one, targets that are linear in them with noise, and three classes."""
    rng = np.random.default_rng(13)
    X = rounded(rng.normal(size=(400, 12))).astype(np.float32)
    y = rounded(X @ rng.normal(size=12) + 0.5 * rng.normal(size=400))
    return X, y, np.digitize(y, [-1.5, 1.5])


@cache
def cloud(seed: int, n_points: int = 60, n_dims: int = 2, shift: float = 0.0) -> NDArray[np.float64]:
    """Standard normal points, moved by ``shift`` along every axis."""
    return rounded(np.random.default_rng([14, seed]).normal(shift, 1, (n_points, n_dims)))


class Inputs:
    """Inputs in one form. ``form``: "memory" gives lists and NumPy arrays, "store" and "workers" lazy ones."""

    def __init__(self, form: str, folder: Path) -> None:
        self.form, self.folder, self.is_lazy = form, folder, form != "memory"

    def sets(self, name: str, *, weighted: bool = False) -> Any:
        """Sets of `arrays`: a list (`SampleSets` if they have weights), or a view of a store."""
        sets: Any = list(arrays(name))
        if weighted:
            rng = np.random.default_rng(15)
            sets = dk.SampleSets.from_arrays(sets, [rounded(rng.uniform(0.5, 2, len(x))) for x in sets])
        return self.stored(f"{name}-{weighted}", sets) if self.is_lazy else sets

    def strings(self) -> Any:
        """Words: a list, or a view of a store."""
        return self.stored("strings", list(strings())) if self.is_lazy else list(strings())

    def labelled(self) -> Any:
        """Sets of the plane with ids, names of dimensions, and targets."""
        sets = dk.SampleSets.from_arrays(arrays("plane")).labelled(
            ids=np.arange(N_SETS) + 100,
            names=["width", "height"],
            targets={"age": targets(), "group": classes()},
        )
        return self.stored("labelled", sets) if self.is_lazy else sets

    def stored(self, name: str, sets: Any) -> Any:
        """A view of a store of the sets, which is written when it is first asked for."""
        path = self.folder / f"{name}.zarr"
        if not path.exists():
            dk.write_sets(path, sets)
        return dk.open_sets(path, block_sets=BLOCK_SETS)

    def rows(self, X: NDArray[Any]) -> Any:
        """Rows: an array, or a dask array of several blocks."""
        return da.from_array(X, chunks=(BLOCK_ROWS, -1)) if self.is_lazy else X
