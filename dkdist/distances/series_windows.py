"""`SeriesWindowEmbedding`: a series as sets of windows, embedded by distribution functions of random projections.

    series --windows of K points, a apart--> set of vectors --random filters--> numbers --fractions above levels--> row

A projection of windows on a direction is a convolution of the series with a filter. Distribution functions of
projections are those of sliced distances; the fraction of outputs above one threshold is the feature of MiniRocket.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.array_record import Matrix
from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import Sets, SetsLike, check_sets, common_units, sample_sets
from dkdist._base.parameter_checks import RandomStateLike, check_int, draw_seed
from dkdist._base.params import FittedParams, Params
from dkdist._base.sampling import random_subset
from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import read_only
from dkdist._utils.memory_budget import require_memory
from dkdist._utils.serialization import serializable
from dkdist.distances._series_windows_numba import fill_fractions_above
from dkdist.distances._tuning import (
    MAX_DILATIONS,
    MAX_THRESHOLD_POINTS,
    MAX_THRESHOLD_SETS,
    MAX_THRESHOLD_WINDOWS,
    THRESHOLD_RTOL,
)
from dkdist.distances.sliced_wasserstein_embedding import random_directions
from dkdist.sets import SampleSetError, SampleSets


@serializable("SeriesWindowParams")
@dataclass(frozen=True)
class SeriesWindowParams(Params["SeriesWindowParameters"]):
    """Parameters of a window embedding of points (x - centre) / scale; thresholds (n_dilations L, Q)."""

    ordered = True

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    window_length: int
    n_filters: int
    dilations: tuple[int, ...]
    seed: int
    thresholds: Matrix

    def check_loaded(self) -> None:
        """Raise ValueError unless there is one row of thresholds per filter, and one scale per variable."""
        n_rows = self.n_filters * len(self.dilations)
        if len(self.thresholds) != n_rows or len(self.scale) != len(self.centre):
            raise ValueError(f"thresholds must have {n_rows} rows; got {len(self.thresholds)}")

    @property
    def n_dims(self) -> int:
        """Number of variables d."""
        return len(self.centre)

    @property
    def domain(self) -> None:
        """None: the domain is unbounded."""

    @property
    def n_features(self) -> int:
        """Length m of a row."""
        return int(self.thresholds.values.size)

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise SampleSetError for weights."""
        _require_no_weights(sets)

    def _build(self) -> SeriesWindowParameters:
        return SeriesWindowParameters(self)


class SeriesWindowParameters(FittedParams[SeriesWindowParams]):
    """Filters of a `SeriesWindowParams`; immutable, shared by all blocks."""

    def __init__(self, spec: SeriesWindowParams) -> None:
        self.spec = spec
        self.filters = window_filters(
            len(spec.dilations), spec.n_filters, spec.window_length, spec.n_dims, spec.seed
        )
        self._centre, self._inverse = np.array(spec.centre), 1 / np.array(spec.scale)

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32."""
        spec, out = self.spec, np.empty((len(sets), self.spec.n_features), np.float32)
        thresholds = spec.thresholds.values.reshape(len(spec.dilations), spec.n_filters, -1)
        units, width = (self._centre, self._inverse), thresholds[0].size
        for j, (dilation, filters) in enumerate(zip(spec.dilations, self.filters, strict=True)):
            block = np.empty((len(sets), width), np.float32)
            arrays = sets.relative, sets.offsets, *units, filters
            fill_fractions_above(*map(read_only, arrays), dilation, read_only(thresholds[j]), block)
            out[:, j * width : (j + 1) * width] = block
        return out


def window_filters(n_dilations: int, n_filters: int, length: int, n_dims: int, seed: int) -> F64:
    """Return random directions of windows, (n_dilations, n_filters, length, d); every other one has sum zero.

    A filter of sum zero per variable does not depend on the level of the series.
    """
    directions = random_directions(length * n_dims, n_dilations * n_filters, seed)
    filters = directions.reshape(n_dilations, n_filters, length, n_dims)
    filters[:, 1::2] -= filters[:, 1::2].mean(axis=2, keepdims=True)
    return filters


class SeriesWindowEmbedding(SetEmbedding):
    """Embed series by the distributions of random filters of their windows, at several dilations.

    Each series becomes a set of windows: K = ``window_length`` points that are a = 1, 2, 4, ... points apart. A
    filter is a random direction u of windows. A row holds, for each dilation and filter, the fractions of windows w
    with u . w above Q thresholds, which are quantiles of u . w over windows of `fit`. Rows depend on local shapes and
    not on their positions. A linear classifier on the rows is accurate for series that differ in local shapes.

    Parameters
    ----------
    n_filters : int, default=128
        Filters L of each dilation. Every other filter has sum zero, so that it ignores the level of the series.
    n_levels : int, default=8
        Thresholds Q of each filter, at the levels (q + 1/2) / Q.
    window_length : int, default=9
        Points K of a window, at least 2.
    dilations : "auto" or sequence of int, default="auto"
        Distances a between the points of a window. "auto": 1, 2, 4, ..., while (K - 1) a is smaller than the median
        length of the series of `fit`, up to 512.
    random_state : int, Generator or None, default=None
        Seed of the filters.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set (damaged or missing chunk): "raise" raises an error that names the first one;
        "skip" skips it in `fit` and gives it a row of NaN in `transform`, with a warning.

    Attributes
    ----------
    spec_ : SeriesWindowParams
        Fitted parameters.
    dilations_ : list of int
        Dilations.
    filters_ : (n_dilations, L, K, d) float64 array
        Filters of standardised series.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError
        For empty sets, strings, weights, NaN or infinite points, and another number of variables. The message names
        the set. Fill missing values, for example by interpolation.
    StoreFormatError
        For a set that cannot be read. The message names the set.
    ValueError
        For invalid parameters.
    MemoryError
        For filters or windows that do not fit into memory.

    Notes
    -----
    Points are ordered. Variables are standardised by the mean and the standard deviation of a sample of series.
    A series of n points has n windows, centred at its points; outside the series, windows contain the mean (zero after
    standardisation). Therefore series may have any length, also below that of a window, and lengths may differ.

    Columns are ordered by dilation, filter and threshold. For one filter, |row - row'|^2 / Q is the Cramér-von Mises
    distance int (F - F')^2 dH of the distributions F, F' of its outputs, with H that of all series of `fit`: a sliced
    distance, like that of `SlicedWassersteinEmbedding`, which has quantiles instead of fractions. `LazySets` give a
    lazy dask array with known chunks; any other input an ndarray. Rows are float32, and a row depends only on its
    series. `fit` reads the data once, and a sample of them twice more.
    Cost: n L (K d + Q) steps per dilation; 0.3 ms for a series of 200 points of one variable.

    References
    ----------
    Dempster, Petitjean, Webb (2020), ROCKET: exceptionally fast and accurate time series classification using random
    convolutional kernels. Dempster, Schmidt, Webb (2021), MiniRocket: a very fast (almost) deterministic transform for
    time series classification; thresholds are its biases, and a fraction is its PPV. Bonneel, Rabin,
    Peyre, Pfister (2015), Sliced and Radon Wasserstein barycenters of measures.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> t = np.arange(100)[:, None]
    >>> series = [np.sin(t / (3 + i % 2) + rng.uniform(0, 6)) for i in range(10)]  # two frequencies, any phase
    >>> A = dk.SeriesWindowEmbedding(random_state=0).fit_transform(series)
    >>> A.shape, A.dtype
    ((10, 4096), dtype('float32'))
    >>> d2 = ((A[:, None] - A) ** 2).sum(axis=-1)
    >>> bool(d2[0, 1::2].min() > d2[0, 2::2].max())
    True
    """

    _label = "series_window_embedding"
    spec_: SeriesWindowParams

    def __init__(
        self,
        n_filters: int = 128,
        n_levels: int = 8,
        window_length: int = 9,
        dilations: str | Sequence[int] = "auto",
        random_state: RandomStateLike = None,
        on_error: str = "raise",
    ) -> None:
        self.n_filters = n_filters
        self.n_levels = n_levels
        self.window_length = window_length
        self.dilations = dilations
        self.random_state = random_state
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> SeriesWindowEmbedding:
        """Choose units, dilations and thresholds from the series X, and draw filters; ``y`` is not used."""
        L, Q = check_int("n_filters", self.n_filters), check_int("n_levels", self.n_levels)
        length = check_int("window_length", self.window_length, minimum=2)
        dilations = _check_dilations(self.dilations)
        sets, seed = check_sets(X), draw_seed(self.random_state)
        _require_no_weights(sets)
        summary = self._summarize_fit_sets(sets, None)
        centre, scale = common_units(sets, summary.bad)
        dilations = dilations or auto_dilations(np.delete(sets.sizes, summary.bad), length)
        n_windows = len(dilations) * L + MAX_THRESHOLD_WINDOWS + max(dilations)
        n_bytes = 8 * length * sets.n_dims * n_windows
        require_memory(
            n_bytes, "filters and windows need", "use fewer filters, shorter windows or smaller dilations"
        )
        filters = window_filters(len(dilations), L, length, sets.n_dims, seed)
        thresholds = _thresholds(sets, summary.bad, (centre, scale), filters, dilations, Q)
        units = tuple(centre.tolist()), tuple(scale.tolist())
        self.spec_ = SeriesWindowParams(*units, length, L, dilations, seed, Matrix(thresholds))
        return self

    @property
    def dilations_(self) -> list[int]:
        """Distances between the points of a window."""
        return list(self.spec_.dilations)

    @property
    def filters_(self) -> F64:
        """Filters (n_dilations, L, K, d) of standardised series."""
        filters: F64 = self.spec_.materialize().filters.copy()
        return filters


def auto_dilations(sizes: I64, length: int) -> tuple[int, ...]:
    """Return 1, 2, 4, ... while windows are shorter than the median series."""
    max_dilation = (float(np.median(sizes)) - 1) / (length - 1)
    return tuple(2**j for j in range(MAX_DILATIONS) if j == 0 or 2**j <= max_dilation)


def _check_dilations(param: Any) -> tuple[int, ...]:
    """Return dilations; () for "auto"."""
    if isinstance(param, str) and param == "auto":
        return ()
    if isinstance(param, str) or not np.iterable(param) or len(values := list(param)) == 0:
        raise ValueError(f"dilations must be 'auto' or a list of at least 1 integer; got {param!r:.200}")
    return tuple(check_int("dilations", value) for value in values)


def _thresholds(
    sets: Sets, bad: I64, units: tuple[F64, F64], filters: F64, dilations: tuple[int, ...], n_levels: int
) -> F32:
    """Return quantiles (n_dilations L, Q) float32 of the outputs of filters for a sample of windows."""
    sample = sample_sets(sets, bad, MAX_THRESHOLD_SETS, MAX_THRESHOLD_POINTS)
    z = (sample.relative - units[0]) / units[1]
    rows = random_subset(len(z), MAX_THRESHOLD_WINDOWS)
    set_index = np.repeat(np.arange(len(sample)), sample.sizes)[rows]
    starts, ends = sample.offsets[set_index], sample.offsets[set_index + 1]
    ranks = ((2 * np.arange(n_levels) + 1) * len(rows) + 2 * n_levels - 1) // (2 * n_levels) - 1
    parts = []
    for U, dilation in zip(filters, dilations, strict=True):
        length = U.shape[1]
        positions = rows[:, None] + dilation * np.arange(length) - (length - 1) * dilation // 2
        is_inside = (starts[:, None] <= positions) & (positions < ends[:, None])
        windows = np.where(is_inside[..., None], z[positions.clip(0, len(z) - 1)], 0.0)
        outputs = U.reshape(len(U), -1) @ windows.reshape(len(rows), -1).T
        outputs.sort(axis=1)
        # Rounding must not decide whether equal outputs, as of constant pieces, are above.
        margin = THRESHOLD_RTOL * np.abs(outputs[:, [0, -1]]).max(axis=1, keepdims=True) + THRESHOLD_RTOL**2
        parts.append(outputs[:, ranks] + margin)
    return np.concatenate(parts).astype(np.float32)


def _require_no_weights(sets: Any) -> None:
    if (sets.weights_shape if hasattr(sets, "weights_shape") else sets.weights) is not None:
        raise SampleSetError("SeriesWindowEmbedding takes no weights, but all sets have weights. Remove them")
