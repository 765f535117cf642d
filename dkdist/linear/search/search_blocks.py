"""Where a search runs: the blocks of its sets or rows, and what makes all features of a block.

Where all features of a block are alive together it has 128 rows, the tile of a product, whatever there is beside: so
the order in which SGD takes the rows does not depend on what else is tried. Bad sets are found and named, or left out,
as embeddings do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.base.bad_sets import attempt, naming_random
from dkdist.base.embedding import count_outside
from dkdist.base.inputs import check_sets, unread_blocks
from dkdist.execution.blocks import BLOCK_BYTES, BLOCK_SETS, Blocks, is_lazy, local_blocks, row_blocks
from dkdist.execution.processes.process import drawn
from dkdist.linear.search.feature_trees import FeatureTrees
from dkdist.sets import SampleSets
from dkdist.store import SetStore

TILE = 128

Leaves = Iterator[tuple[int, NDArray[Any]]]


@dataclass(frozen=True)
class SearchData:
    """The data of a search, and the trees of features that are made of it."""

    X: Any
    trees: FeatureTrees
    widths: Sequence[int]
    skip: bool

    def blocks(self, leaves: Sequence[int], *, together: bool) -> Blocks:
        """Blocks of the data for some leaves, whose features are alive ``together`` or one after another."""
        columns = [self.widths[leaf] for leaf in leaves]
        row_bytes = 4 * (sum(columns) if together else max(columns))
        rows = TILE if together else int(np.clip(BLOCK_BYTES // row_bytes // TILE * TILE, TILE, BLOCK_SETS))
        made = _blocks(self.X, rows)
        return replace(made, row_bytes=row_bytes, n_columns=row_bytes // 4)

    def features(self, leaves: Sequence[int]) -> partial[Leaves]:
        """What makes the features of those leaves: a function of (block, index of its first row, mask or None)."""
        trees = self.trees.only(leaves)
        if isinstance(self.X, SampleSets | SetStore):
            return partial(_of_sets, trees, self.skip)
        return partial(_of_rows, trees)


def _blocks(X: Any, rows: int) -> Blocks:
    if is_lazy(X):
        return row_blocks(X)
    if isinstance(X, SetStore):
        return unread_blocks(X, BLOCK_BYTES // rows, rows)  # large sets: fewer of them
    return local_blocks(X, rows)


def _of_rows(trees: FeatureTrees, block: Any, first: int, mask: NDArray[np.bool_] | None) -> Leaves:
    X = np.asarray(block)
    yield from drawn(trees).of_rows(X if mask is None else X[mask])


def _of_sets(
    trees: FeatureTrees, skip: bool, block: Any, first: int, mask: NDArray[np.bool_] | None
) -> Leaves:
    positions = np.arange(first, first + len(block))
    if mask is not None:
        block, positions = block[mask], positions[mask]
    if not len(block):
        return
    usable = attempt(partial(_checked, trees), block, positions, None, skip=skip)
    if not usable.bad:
        (sets,) = usable.results
        with naming_random(positions):
            yield from drawn(trees).of_sets(sets)
        return
    good = np.flatnonzero(~np.isin(positions, usable.bad))
    n, kept = len(positions), block[good]
    for leaf, X in (
        drawn(trees).of_sets(kept.points_alone() if isinstance(kept, SetStore) else kept) if len(good) else ()
    ):
        rows = np.full((n, X.shape[1]), np.nan, np.float32)
        rows[good] = X
        yield leaf, rows


def _checked(trees: FeatureTrees, sets: SampleSets, first: int) -> SampleSets:
    """The sets, if every embedding can take them; `SampleSetError` otherwise."""
    for domain in trees.domains or (None,):
        count_outside(domain, sets, first)
    return sets


def source(X: Any) -> Any:
    """The data of a search: sets (in memory or in a store), or features, an array or a lazy one."""
    if is_lazy(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        return X
    return check_sets(X)
