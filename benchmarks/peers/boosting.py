"""Gradient boosting on summaries of sets: moments, quantiles, histograms.

Columns: means, standard deviations, skewnesses; correlations (up to 16 dimensions); nine quantiles per dimension (three
above 16 dimensions); a histogram per dimension, and a joint one in two and three dimensions; the logarithm of the size
if sizes differ. Histograms span the range of the training points between the quantiles 0.001 and 0.999. Trees are
HistGradientBoosting of scikit-learn. Early stopping and the best of four settings use the loss on a validation set; the
final fit on all training sets has the best number of trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from stopwatch import seconds

MAX_CORRELATION_DIMS = 16
JOINT_BINS = {2: 14, 3: 7}  # bins per axis by dimension
SETTINGS = tuple(
    {"learning_rate": rate, "max_leaf_nodes": leaves} for rate in (0.1, 0.04) for leaves in (31, 10)
)
MAX_TREES, PATIENCE = 600, 20
VALIDATION_FRACTION, MAX_VALIDATION_SETS = 0.15, 2000
SETS_PER_BATCH = 500
N_RANGE_POINTS = 2**18  # sample size for ranges


class Summaries:
    """Transformer of sets to the columns above."""

    def fit(self, sets: Any) -> Summaries:
        sample = sets.points[:: max(1, len(sets.points) // N_RANGE_POINTS)]
        self.low_, self.high_ = np.quantile(sample, (0.001, 0.999), axis=0)
        self.high_ = np.where(self.high_ > self.low_, self.high_, self.low_ + 1)
        self.sizes_differ_ = bool(np.ptp(sets.sizes) > 0)
        return self

    def transform(self, sets: Any) -> np.ndarray:
        """Return rows (n, m) float64."""
        rows: list[Any] = [None] * len(sets)
        for indices in equal_size_batches(sets.sizes):
            points = np.asarray(sets.points)[
                sets.offsets[indices][:, None] + np.arange(sets.sizes[indices[0]])
            ]
            for i, row in zip(indices, self._rows(points.astype(np.float64)), strict=True):
                rows[i] = row
        return np.stack(rows)

    def _rows(self, x: np.ndarray) -> np.ndarray:
        """Return rows of sets (k, n, d) of equal size."""
        d = x.shape[2]
        scaled = np.clip((x - self.low_) / (self.high_ - self.low_), 0, 1 - 1e-12)
        is_high_dimensional = d > MAX_CORRELATION_DIMS
        levels = (
            (0.1, 0.5, 0.9) if is_high_dimensional else (0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98)
        )
        columns = [
            moments(x, products=not is_high_dimensional),
            np.concatenate(np.quantile(x, levels, axis=1), axis=1),
        ]
        columns += [histogram(scaled[..., [j]], 6 if is_high_dimensional else 20) for j in range(d)]
        if d in JOINT_BINS:
            columns.append(histogram(scaled, JOINT_BINS[d]))
        if self.sizes_differ_:
            columns.append(np.full((len(x), 1), np.log(x.shape[1])))
        return np.hstack(columns)


def equal_size_batches(sizes: np.ndarray) -> Iterator[np.ndarray]:
    """Yield indices of sets of equal size, at most SETS_PER_BATCH at a time."""
    order = np.argsort(sizes, kind="stable")
    for indices in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
        yield from (indices[a : a + SETS_PER_BATCH] for a in range(0, len(indices), SETS_PER_BATCH))


def moments(x: np.ndarray, products: bool) -> np.ndarray:
    """Return means, standard deviations and skewnesses of each dimension, and correlations of all pairs."""
    mean, deviation = x.mean(axis=1), x.std(axis=1)
    z = (x - mean[:, None]) / np.where(deviation > 0, deviation, 1)[:, None]
    columns = [mean, deviation, (z**3).mean(axis=1)]
    if products:
        pairs = np.triu_indices(x.shape[2], 1)
        columns.append(np.einsum("kni,knj->kij", z, z)[:, *pairs] / x.shape[1])
    return np.hstack(columns)


def histogram(scaled: np.ndarray, n_bins: int) -> np.ndarray:
    """Return fractions (k, n_bins^d) of points (k, n, d) of the unit cube in its n_bins^d cells."""
    k, n, d = scaled.shape
    cell = (scaled * n_bins).astype(np.int64) @ n_bins ** np.arange(d)[::-1]
    cell += n_bins**d * np.arange(k)[:, None]
    return np.bincount(cell.ravel(), minlength=k * n_bins**d).reshape(k, -1) / n


class Boosting:
    """Summaries and trees; ``fit`` sets ``choosing_``, ``fitting_`` (seconds), ``tried_`` and ``chosen_``."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, sets: Any, y: np.ndarray) -> Boosting:
        start = seconds()
        self.summaries_ = Summaries().fit(sets)
        X, classes = self.summaries_.transform(sets), y.dtype.kind != "f"
        n_validation = min(round(VALIDATION_FRACTION * len(y)), MAX_VALIDATION_SETS)
        a, b, y_a, y_b = train_test_split(
            X, y, test_size=n_validation, stratify=y if classes else None, random_state=self.seed
        )
        kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor

        def model(**setting: Any) -> Any:
            return kind(random_state=self.seed, **setting)

        best: tuple[float, dict[str, Any]] | None = None
        self.tried_ = {}
        for setting in SETTINGS:
            early_stopping = {"max_iter": MAX_TREES, "early_stopping": True, "n_iter_no_change": PATIENCE}
            trial = model(**setting, **early_stopping, scoring="loss").fit(a, y_a, X_val=b, y_val=y_b)
            n_trees = max(int(np.argmax(trial.validation_score_)), 1)  # the first score is without trees
            score = float(trial.validation_score_[n_trees])
            self.tried_[f"{describe(setting)}, {n_trees} trees"] = score
            if best is None or score > best[0]:
                best = score, setting | {"max_iter": n_trees}
        assert best is not None
        self.choosing_ = seconds() - start
        self.model_ = model(**best[1], early_stopping=False).fit(X, y)
        self.fitting_ = seconds() - start - self.choosing_
        self.chosen_ = f"{describe(best[1])}, {best[1]['max_iter']} trees"
        return self

    def predict(self, sets: Any) -> np.ndarray:
        return self.model_.predict(self.summaries_.transform(sets))


def describe(setting: dict[str, Any]) -> str:
    return f"rate {setting['learning_rate']:g}, {setting['max_leaf_nodes']} leaves"
