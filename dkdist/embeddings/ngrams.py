"""`NGramEmbedding`: tf-idf weighted counts of the n-grams of strings.

N-grams are hashed to 4,194,304 buckets. `fit` counts in how many strings each bucket occurs, and keeps the most
frequent buckets as columns.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dkdist._base.embedding import SetEmbedding, set_fit_attributes
from dkdist._base.inputs import SetsLike, check_sets, map_set_blocks
from dkdist._base.invalid_sets import run_skipping_invalid, should_skip
from dkdist._base.parameter_checks import check_int
from dkdist._base.params import FittedParams, Params
from dkdist._numba.arrays import F32, I64
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import check_bool
from dkdist.embeddings._tuning import MAX_SYMBOLS, N_BUCKETS
from dkdist.embeddings.symbols import require_symbols, symbols_of
from dkdist.sets import SampleSets

# Marks both ends of a string: the largest code point + 1 (RFC 3629, 2003).
BOUNDARY_SYMBOL = 0x110000
SPLITMIX64_MULTIPLIERS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of SplitMix64


@serializable("NGramParams")
@dataclass(frozen=True)
class NGramParams(Params["NGramTables"]):
    """Parameters of an n-gram embedding: buckets of the columns (ascending) and their inverse document frequencies."""

    ordered = True

    ngram_range: tuple[int, int]
    boundaries: bool
    buckets: tuple[int, ...]
    idf: tuple[float, ...]
    n_dims: int = 1
    domain: None = None

    @property
    def n_features(self) -> int:
        """Length m of a row."""
        return len(self.buckets)

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise SampleSetError for real-valued points or weights."""
        require_symbols("NGramEmbedding", sets)

    def _build(self) -> NGramTables:
        return NGramTables(self)


class NGramTables(FittedParams[NGramParams]):
    """Fitted parameters of `NGramParams`, as arrays."""

    def __init__(self, spec: NGramParams) -> None:
        self.spec = spec
        self._buckets, self._idf = np.array(spec.buckets, np.int64), np.array(spec.idf)
        if self._buckets.shape != self._idf.shape or (np.diff(self._buckets) <= 0).any():
            raise ValueError(f"buckets must be ascending, one for each of {len(self._idf)} idf values")

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32 of norm 1; zeros for strings that contain no n-gram of the columns."""
        return np.asarray(self.sparse_rows(sets).toarray())

    def sparse_rows(self, sets: SampleSets) -> sparse.csr_array:
        """Return the rows of `embed` as a sparse array."""
        parts = [sparse.csr_array((0, len(self._buckets)), dtype=np.float32)]
        for _, part in _iter_batches(sets):
            owners, buckets, counts = _count_ngrams(part, self.spec.ngram_range, self.spec.boundaries)
            columns = np.searchsorted(self._buckets, buckets).clip(max=len(self._buckets) - 1)
            is_column = self._buckets[columns] == buckets
            # scikit-learn's solvers take 32-bit indices
            owners, columns = owners[is_column].astype(np.int32), columns[is_column].astype(np.int32)
            values = counts[is_column] * self._idf[columns]
            norms = np.sqrt(np.bincount(owners, values**2))
            shape = len(part), len(self._buckets)
            parts.append(
                sparse.csr_array(((values / norms[owners]).astype(np.float32), (owners, columns)), shape)
            )
        return sparse.vstack(parts, format="csr")


def _iter_batches(sets: SampleSets) -> Iterator[tuple[int, SampleSets]]:
    """Yield batches of consecutive sets with about `MAX_SYMBOLS` symbols, as (position of the first set, sets)."""
    starts = np.searchsorted(sets.offsets[:-1], np.arange(0, sets.n_points, MAX_SYMBOLS))
    for a, b in itertools.pairwise(np.unique(np.append(starts, len(sets))).tolist()):
        yield a, sets[a:b]


def _count_ngrams(sets: SampleSets, ngram_range: tuple[int, int], boundaries: bool) -> tuple[I64, I64, I64]:
    """Return (set, bucket, count), each (k,), for the distinct buckets of each set, in ascending order."""
    symbols, sizes = symbols_of(sets), sets.sizes
    if boundaries:
        edges = sets.offsets + 2 * np.arange(len(sets) + 1)
        marked = np.full(edges[-1], BOUNDARY_SYMBOL, np.uint64)
        inner = np.ones(len(marked), np.bool_)
        inner[edges[:-1]] = inner[edges[1:] - 1] = False
        marked[inner] = symbols
        symbols, sizes = marked, sizes + 2
    owners = np.repeat(np.arange(len(sets)), sizes)
    positions, remaining = (
        np.arange(len(symbols)),
        np.repeat(np.cumsum(sizes), sizes) - np.arange(len(symbols)),
    )
    hashes, keys = np.zeros(len(symbols), np.uint64), []
    n_min, n_max = ngram_range
    for n in range(1, min(n_max, int(sizes.max())) + 1):
        inside = remaining >= n
        owners, positions, remaining = owners[inside], positions[inside], remaining[inside]
        hashes = _splitmix64(hashes[inside] + symbols[positions + (n - 1)] + np.uint64(1))
        bucket_keys = owners * N_BUCKETS + (hashes % np.uint64(N_BUCKETS)).astype(np.int64)
        # a string shorter than n_min counts as one n-gram
        keys.append(bucket_keys if n >= n_min else bucket_keys[sizes[owners] == n])
    distinct, counts = np.unique(np.concatenate(keys), return_counts=True)
    return distinct // N_BUCKETS, distinct % N_BUCKETS, counts


def _splitmix64(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash 64-bit integers by SplitMix64, which is a bijection."""
    first, second, third = (np.uint64(m) for m in SPLITMIX64_MULTIPLIERS)
    x = x * first
    x = (x ^ (x >> np.uint64(30))) * second
    x = (x ^ (x >> np.uint64(27))) * third
    return x ^ (x >> np.uint64(31))


class NGramEmbedding(SetEmbedding):
    """Embed strings by tf-idf weighted counts of their n-grams, in rows of norm 1.

    The entry of an n-gram g in the row of a string s is proportional to

        count of g in s  x  (ln((1 + n_sets) / (1 + n_g)) + 1),    n_g: number of strings of `fit` that contain g.

    These are the rows of scikit-learn's ``TfidfVectorizer(analyzer="char")`` for the same n-grams, in another order of
    the columns. A linear classifier on them is strong for names, words and other short texts.

    Parameters
    ----------
    ngram_range : (int, int), default=(1, 5)
        Smallest and largest length of n-grams. A string shorter than the smallest length counts as one n-gram.
    max_features : int, default=4096
        Largest number of columns: the n-grams that occur in most strings of `fit`. Rows are dense: 4 bytes per column.
    boundaries : bool, default=True
        Whether n-grams include the start and the end of a string as an extra symbol, like the blanks of
        ``TfidfVectorizer(analyzer="char_wb")`` around a word, so that prefixes and suffixes differ from inner parts.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of sets that cannot be read. "raise" raises an error that names the first one. "skip" omits them
        in `fit` and gives them a row of NaN, with a warning.

    Attributes
    ----------
    spec_ : NGramParams
        The hashed n-grams and their inverse document frequencies.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`; ``n_features_in_`` is 1.

    Raises
    ------
    SampleSetError
        For real-valued points, and for weights.
    ValueError
        For invalid parameters.

    Notes
    -----
    Input is a list of str, of bytes or of integer sequences, or sets of codes with d = 1 (see
    `SampleSets.from_strings`). `LazySets` give a lazy dask array with known chunks, other collections an ndarray.
    Rows are float32, and a row depends on its string alone. `fit` reads the data once.

    Characters are compared by code point, so collections may have different alphabets. N-grams that are not
    among the columns are ignored, including those with characters that do not occur in `fit`. N-grams are
    identified by a hash of 22 bits: of 10,000 distinct n-grams, 0.2 % share a column with another.

    Cost: one sort of the n-grams of each block, and writing dense rows; 27,000 names take 0.4 s of processor time.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> names = ["Anna", "Hanna", "Bob", "Rob"]
    >>> rows = dk.NGramEmbedding(ngram_range=(2, 3)).fit_transform(names)
    >>> rows.shape
    (4, 26)
    >>> np.round(rows @ rows[0], 1)  # of each with "Anna"
    array([1. , 0.4, 0. , 0. ], dtype=float32)
    """

    _label = "ngram_embedding"
    _accepts_strings = True

    def __init__(
        self,
        ngram_range: tuple[int, int] = (1, 5),
        max_features: int = 4096,
        boundaries: bool = True,
        on_error: str = "raise",
    ) -> None:
        self.ngram_range = ngram_range
        self.max_features = max_features
        self.boundaries = boundaries
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> NGramEmbedding:
        """Choose columns and compute document frequencies from the strings X, in one pass; ``y`` is not used."""
        lengths, skip = _check_ngram_range(self.ngram_range), should_skip(self)
        max_features = check_int("max_features", self.max_features)
        boundaries = check_bool("boundaries", self.boundaries)
        sets = check_sets(X, text=True)
        require_symbols("NGramEmbedding", sets)
        results = map_set_blocks(partial(_frequencies_of_block, skip, lengths, boundaries), sets, "ngrams")
        skipped = np.array([i for result in results for i in result.bad], np.int64)
        set_fit_attributes(
            self, sets, skipped, next((result.reason for result in results if result.reason), "")
        )
        totals = np.zeros(N_BUCKETS, np.int64)
        for buckets, counts in itertools.chain.from_iterable(result.results for result in results):
            totals[buckets] += counts
        occurring = np.flatnonzero(totals)
        selected = np.sort(occurring[np.argsort(-totals[occurring], kind="stable")[:max_features]])
        idf = np.log((1 + len(sets) - len(skipped)) / (1 + totals[selected])) + 1
        self.spec_ = NGramParams(lengths, boundaries, tuple(selected.tolist()), tuple(idf.tolist()))
        return self


def _check_ngram_range(param: Any) -> tuple[int, int]:
    pair = tuple(param) if isinstance(param, (tuple, list, np.ndarray)) else ()
    if (
        len(pair) != 2
        or not all(isinstance(n, (int, np.integer)) for n in pair)
        or not 1 <= pair[0] <= pair[1]
    ):
        raise ValueError(f"ngram_range must be two integers (min, max) with 1 <= min <= max; got {param!r}")
    return int(pair[0]), int(pair[1])


def _frequencies_of_block(
    skip: bool, ngram_range: tuple[int, int], boundaries: bool, sets: Any, first: int
) -> Any:
    """Return a `PartialResult` of (buckets, number of sets that contain each)."""
    work = partial(_frequencies, ngram_range, boundaries)
    nothing = np.empty(0, np.int64), np.empty(0, np.int64)
    return run_skipping_invalid(work, sets, range(first, first + len(sets)), nothing, skip=skip)


def _frequencies(
    ngram_range: tuple[int, int], boundaries: bool, sets: SampleSets, first: int
) -> tuple[I64, I64]:
    buckets = [_count_ngrams(part, ngram_range, boundaries)[1] for _, part in _iter_batches(sets)]
    distinct, counts = np.unique(np.concatenate(buckets), return_counts=True)
    return distinct, counts
