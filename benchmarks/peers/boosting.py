"""Gradient boosting on what anybody would compute of a set: moments, quantiles, histograms.

Columns of a set: means, standard deviations, skewnesses; correlations (up to 16 dimensions); nine quantiles of each
dimension (three in more than 16); a histogram of each dimension, and one of all together in two and three dimensions;
the logarithm of the size where sizes differ. Histograms lie on the range of the training points without a thousandth at
each end. Trees are scikit-learn's HistGradientBoosting, early stopping and the best of four settings by the loss on a
validation part of the training sets, the final fit on all of them with as many trees as were best.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from stopwatch import seconds

HIGH_DIMENSION = 16
JOINT_BINS = {2: 14, 3: 7}  # by the dimension
SETTINGS = tuple(
    {"learning_rate": rate, "max_leaf_nodes": leaves} for rate in (0.1, 0.04) for leaves in (31, 10)
)
MOST_TREES, PATIENCE = 600, 20
HELD_OUT, MOST_HELD_OUT = 0.15, 2000
SETS_AT_ONCE = 500
SAMPLE_POINTS = 2**18  # that ranges are taken from


class Summaries:
    """Rows of sets: see above."""

    def fit(self, sets: Any) -> Summaries:
        sample = sets.points[:: max(1, len(sets.points) // SAMPLE_POINTS)]
        self.low_, self.high_ = np.quantile(sample, (0.001, 0.999), axis=0)
        self.high_ = np.where(self.high_ > self.low_, self.high_, self.low_ + 1)
        self.sizes_differ_ = bool(np.ptp(sets.sizes) > 0)
        return self

    def transform(self, sets: Any) -> np.ndarray:
        """(n, m) float64."""
        rows: list[Any] = [None] * len(sets)
        for chosen in of_one_size(sets.sizes):
            points = np.asarray(sets.points)[sets.offsets[chosen][:, None] + np.arange(sets.sizes[chosen[0]])]
            for i, row in zip(chosen, self._rows(points.astype(np.float64)), strict=True):
                rows[i] = row
        return np.stack(rows)

    def _rows(self, x: np.ndarray) -> np.ndarray:
        """Of sets (k, n, d) of one size."""
        d = x.shape[2]
        where = np.clip((x - self.low_) / (self.high_ - self.low_), 0, 1 - 1e-12)
        few = d > HIGH_DIMENSION
        levels = (0.1, 0.5, 0.9) if few else (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)
        columns = [moments(x, products=not few), np.concatenate(np.quantile(x, levels, axis=1), axis=1)]
        columns += [histogram(where[..., [j]], 6 if few else 20) for j in range(d)]
        if d in JOINT_BINS:
            columns.append(histogram(where, JOINT_BINS[d]))
        if self.sizes_differ_:
            columns.append(np.full((len(x), 1), np.log(x.shape[1])))
        return np.hstack(columns)


def of_one_size(sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Indices of sets of the same size, some hundred at a time."""
    order = np.argsort(sizes, kind="stable")
    for same in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
        yield from (same[a : a + SETS_AT_ONCE] for a in range(0, len(same), SETS_AT_ONCE))


def moments(x: np.ndarray, products: bool) -> np.ndarray:
    """Means, deviations and skewnesses of each dimension; correlations of every pair."""
    mean, deviation = x.mean(axis=1), x.std(axis=1)
    z = (x - mean[:, None]) / np.where(deviation > 0, deviation, 1)[:, None]
    columns = [mean, deviation, (z**3).mean(axis=1)]
    if products:
        pairs = np.triu_indices(x.shape[2], 1)
        columns.append(np.einsum("kni,knj->kij", z, z)[:, *pairs] / x.shape[1])
    return np.hstack(columns)


def histogram(where: np.ndarray, n_bins: int) -> np.ndarray:
    """Shares of points (k, n, d) of the unit cube in its n_bins^d cells: (k, n_bins^d)."""
    k, n, d = where.shape
    cell = (where * n_bins).astype(np.int64) @ n_bins ** np.arange(d)[::-1]
    cell += n_bins**d * np.arange(k)[:, None]
    return np.bincount(cell.ravel(), minlength=k * n_bins**d).reshape(k, -1) / n


class Boosting:
    """Summaries and trees. Attributes after ``fit``: ``choosing_``, ``fitting_`` (seconds), ``tried_``, ``chosen_``."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, sets: Any, y: np.ndarray) -> Boosting:
        start = seconds()
        self.summaries_ = Summaries().fit(sets)
        X, classes = self.summaries_.transform(sets), y.dtype.kind != "f"
        held = min(round(HELD_OUT * len(y)), MOST_HELD_OUT)
        a, b, y_a, y_b = train_test_split(
            X, y, test_size=held, stratify=y if classes else None, random_state=self.seed
        )
        kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor

        def model(**setting: Any) -> Any:
            return kind(random_state=self.seed, **setting)

        best: tuple[float, dict[str, Any]] | None = None
        self.tried_ = {}
        for setting in SETTINGS:
            stopped = {"max_iter": MOST_TREES, "early_stopping": True, "n_iter_no_change": PATIENCE}
            tried = model(**setting, **stopped, scoring="loss").fit(a, y_a, X_val=b, y_val=y_b)
            n_trees = max(int(np.argmax(tried.validation_score_)), 1)  # the first score is that of no tree
            score = float(tried.validation_score_[n_trees])
            self.tried_[f"{told(setting)}, {n_trees} trees"] = score
            if best is None or score > best[0]:
                best = score, setting | {"max_iter": n_trees}
        assert best is not None
        self.choosing_ = seconds() - start
        self.model_ = model(**best[1], early_stopping=False).fit(X, y)
        self.fitting_ = seconds() - start - self.choosing_
        self.chosen_ = f"{told(best[1])}, {best[1]['max_iter']} trees"
        return self

    def predict(self, sets: Any) -> np.ndarray:
        return self.model_.predict(self.summaries_.transform(sets))


def told(setting: dict[str, Any]) -> str:
    return f"rate {setting['learning_rate']:g}, {setting['max_leaf_nodes']} leaves"
