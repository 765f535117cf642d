"""`PositionEmbedding`: one-hot encoding of the symbol at each position of aligned strings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dkdist._base.embedding import SetEmbedding, set_fit_attributes
from dkdist._base.inputs import SetsLike, check_sets, map_set_blocks
from dkdist._base.invalid_sets import run_skipping_invalid, should_skip
from dkdist._base.parameter_checks import check_int
from dkdist._base.params import Params
from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist.embeddings._tuning import MAX_POSITION_COLUMNS
from dkdist.embeddings.symbols import require_symbols, symbols_of
from dkdist.sets import SampleSets


@serializable("PositionParams")
@dataclass(frozen=True)
class PositionParams(Params[Any]):
    """Parameters of a one-hot encoding: the number of positions, and the symbols of `fit`, ascending."""

    ordered = True

    n_positions: int
    symbols: tuple[int, ...]
    n_dims: int = 1
    domain: None = None

    @property
    def n_features(self) -> int:
        """Length m of a row."""
        return self.n_positions * len(self.symbols)

    def check_loaded(self) -> None:
        """Raise ValueError unless there are positions and ascending symbols."""
        if self.n_positions < 1 or not self.symbols or (np.diff(self.symbols) <= 0).any():
            raise ValueError(
                f"symbols must be ascending, for at least 1 position; got {self.symbols!r:.80} and {self.n_positions}."
            )

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise SampleSetError for real-valued points or weights."""
        require_symbols("PositionEmbedding", sets)

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32 of zeros and ones."""
        known, symbols = np.array(self.symbols, np.uint64), symbols_of(sets)
        index = np.searchsorted(known, symbols).clip(max=len(known) - 1)
        positions = np.arange(len(symbols)) - np.repeat(sets.offsets[:-1], sets.sizes)
        is_column = (known[index] == symbols) & (positions < self.n_positions)
        owners = np.repeat(np.arange(len(sets)), sets.sizes)
        rows = np.zeros((len(sets), self.n_features), np.float32)
        rows[owners[is_column], (positions * len(known) + index)[is_column]] = 1
        return rows


class PositionEmbedding(SetEmbedding):
    """Embed aligned strings by the symbol at each position, one-hot encoded.

    Column p K + k is 1 if the string has symbol k at position p, otherwise 0, for K symbols in ascending order. Half
    the squared distance of two strings of one length is their Hamming distance. For sequences that are aligned, such
    as windows around a site in DNA, a linear classifier on these columns is the usual first model.

    Parameters
    ----------
    n_positions : int or None, default=None
        Number of positions. None: the length of the longest string of `fit`. Symbols behind the last position are
        ignored, and positions behind the end of a string are zeros.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of sets that cannot be read. "raise" raises an error that names the first one. "skip" omits them
        in `fit` and gives them a row of NaN, with a warning.

    Attributes
    ----------
    spec_ : PositionParams
        The number of positions, and the symbols of `fit`: code points of characters, or codes.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`; ``n_features_in_`` is 1.

    Raises
    ------
    SampleSetError
        For real-valued points, and for weights.
    ValueError
        For invalid parameters, and for more than 1,048,576 columns.

    Notes
    -----
    Input is a list of str, of bytes or of integer sequences, or sets of codes with d = 1 (see
    `SampleSets.from_strings`). `LazySets` give a lazy dask array with known chunks, other collections an ndarray.
    Rows are float32, and a row depends on its string alone. `fit` reads the data once. Characters are compared by code
    point, so collections may have different alphabets. A symbol that `fit` did not see has zeros at its position, as
    in scikit-learn's ``OneHotEncoder(handle_unknown="ignore")``.

    Cost: writing dense rows of n_positions K float32.

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.PositionEmbedding().fit(["AC", "CA"]).transform(["AC", "CC", "N"])
    array([[1., 0., 0., 1.],
           [0., 1., 0., 1.],
           [0., 0., 0., 0.]], dtype=float32)
    """

    _label = "position_embedding"
    _accepts_strings = True

    def __init__(self, n_positions: int | None = None, on_error: str = "raise") -> None:
        self.n_positions = n_positions
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> PositionEmbedding:
        """Find the symbols and the largest length of the strings X, in one pass; ``y`` is not used."""
        n_positions = None if self.n_positions is None else check_int("n_positions", self.n_positions)
        skip, sets = should_skip(self), check_sets(X, text=True)
        require_symbols("PositionEmbedding", sets)
        results = map_set_blocks(partial(_symbols_of_block, skip), sets, "symbols")
        skipped = np.array([i for result in results for i in result.bad], np.int64)
        set_fit_attributes(
            self, sets, skipped, next((result.reason for result in results if result.reason), "")
        )
        symbols = np.unique(np.concatenate([part for result in results for part in result.results]))
        if n_positions is None:
            n_positions = int(np.delete(np.asarray(sets.sizes), skipped).max())
        if n_positions * len(symbols) > MAX_POSITION_COLUMNS:
            raise ValueError(
                f"n_positions must give at most {MAX_POSITION_COLUMNS} columns; got {n_positions} positions of "
                f"{len(symbols)} symbols. Pass a smaller n_positions."
            )
        self.spec_ = PositionParams(n_positions, tuple(symbols.tolist()))
        return self


def _symbols_of_block(skip: bool, sets: Any, first: int) -> Any:
    """Return a `PartialResult` of distinct symbols."""
    nothing = np.empty(0, np.int64)
    return run_skipping_invalid(_symbols, sets, range(first, first + len(sets)), nothing, skip=skip)


def _symbols(sets: SampleSets, first: int) -> I64:
    return np.unique(symbols_of(sets)).astype(np.int64)
