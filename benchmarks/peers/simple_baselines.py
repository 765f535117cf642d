"""Ten simple baselines for sets of points from scikit-learn, and selection of the best by inner cross-validation.

For points: logistic or ridge regression on means, on moments (means and covariances) and on summaries; random forest,
extra trees and gradient boosting on summaries; support vector machines on summaries, mean embeddings and sliced
Wasserstein rows. Summaries are mean, standard deviation, seven quantiles (with minimum and maximum) of each dimension,
and the log size. For strings: character n-grams with a linear model. Least squares on class indicators replaces
logistic regression if sets times classes exceed 20,000.

Transformers, scalers and kernel widths are fitted on training sets only. Inner cross-validation selects the setting of
each baseline, and then the baseline.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
MAX_COVARIANCE_DIMENSIONS = 40  # at most 820 covariances; above this, moments are means and variances
N_FOURIER_FEATURES = 512
N_DIRECTIONS = 50
N_SLICE_QUANTILES = 20
N_TREES = 200
N_INNER_FOLDS = 5
MAX_CROSS_VALIDATED_SETS = 5000  # above this, one inner hold-out replaces cross-validation
MAX_LOGISTIC_VALUES = 20_000  # sets times classes
MAX_EXACT_BOOSTING_SETS = 1000
MAX_SUPPORT_VECTOR_SETS = 5000  # maximum number of training sets of support vector machines
MAX_MEDIAN_ROWS = 1000  # sample size of the median distance
CODE_BASE = 0x4E00  # string codes are shifted to letters that the vectorizer does not change


class Means(TransformerMixin, BaseEstimator):
    """Mean of each dimension."""

    def fit(self, X: Any, y: Any = None) -> Means:
        return self

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([x.mean(axis=0, dtype=np.float64) for x in X])


class Moments(Means):
    """Means and covariances of dimensions; only variances above 40 dimensions."""

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([_moments(np.asarray(x, np.float64)) for x in X])


def _moments(x: np.ndarray) -> np.ndarray:
    centered = x - x.mean(axis=0)
    if x.shape[1] > MAX_COVARIANCE_DIMENSIONS:
        return np.concatenate([x.mean(axis=0), (centered**2).mean(axis=0)])
    covariance = centered.T @ centered / len(x)
    return np.concatenate([x.mean(axis=0), covariance[np.triu_indices(x.shape[1])]])


class Summaries(Means):
    """Mean, standard deviation and quantiles of each dimension, and the log size."""

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([_summaries(np.asarray(x, np.float64)) for x in X])


def _summaries(x: np.ndarray) -> np.ndarray:
    return np.concatenate(
        [x.mean(axis=0), x.std(axis=0), sorted_quantiles(x, QUANTILES).ravel(), [np.log(len(x))]]
    )


def sorted_quantiles(x: np.ndarray, levels: Any) -> np.ndarray:
    """Return linear-interpolation quantiles (levels, d) of x (n, d), like `numpy.quantile` but faster."""
    ordered = np.sort(x, axis=0)
    position = np.asarray(levels) * (len(x) - 1)
    below = np.floor(position).astype(int)
    above = np.minimum(below + 1, len(x) - 1)
    fraction = (position - below)[:, None]
    return ordered[below] + fraction * (ordered[above] - ordered[below])


class _ScaledPoints(TransformerMixin, BaseEstimator):
    """Base class of transformers that standardize points with the pooled training points."""

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Any:
        points = np.concatenate([np.asarray(x, np.float64) for x in X])
        self.scaler_ = StandardScaler().fit(points)
        self._fit_points(self.scaler_.transform(points), np.random.default_rng(self.random_state))
        return self

    def _fit_points(self, points: np.ndarray, rng: np.random.Generator) -> None:
        raise NotImplementedError

    def _row(self, x: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def transform(self, X: Any) -> np.ndarray:
        return np.stack([self._row(self.scaler_.transform(np.asarray(x, np.float64))) for x in X])


class MeanMap(_ScaledPoints):
    """Mean of random Fourier features of the points; the kernel width is the median distance."""

    def _fit_points(self, points: np.ndarray, rng: np.random.Generator) -> None:
        sample = points[rng.permutation(len(points))[:MAX_MEDIAN_ROWS]]
        shape = points.shape[1], N_FOURIER_FEATURES // 2
        self.frequencies_ = rng.standard_normal(shape) / median_distance(sample)

    def _row(self, x: np.ndarray) -> np.ndarray:
        angles = x @ self.frequencies_
        return np.concatenate([np.cos(angles).mean(axis=0), np.sin(angles).mean(axis=0)])


class SlicedQuantiles(_ScaledPoints):
    """Quantiles of projections on random directions: Euclidean distances are sliced Wasserstein distances."""

    def _fit_points(self, points: np.ndarray, rng: np.random.Generator) -> None:
        d = points.shape[1]
        directions = rng.standard_normal((d, N_DIRECTIONS if d > 1 else 1))
        self.directions_ = directions / np.linalg.norm(directions, axis=0)

    def _row(self, x: np.ndarray) -> np.ndarray:
        levels = (np.arange(N_SLICE_QUANTILES) + 0.5) / N_SLICE_QUANTILES
        return sorted_quantiles(x @ self.directions_, levels).ravel()


class NGrams(TransformerMixin, BaseEstimator):
    """Counts or tf-idf weights of character n-grams of strings (sets of codes) with boundary marks."""

    def __init__(self, max_n: int, weighted: bool) -> None:
        self.max_n = max_n
        self.weighted = weighted

    def fit(self, X: Any, y: Any = None) -> NGrams:
        options = {"analyzer": "char", "ngram_range": (1, self.max_n), "min_df": 2, "lowercase": False}
        vectorizer = (
            TfidfVectorizer(sublinear_tf=True, **options) if self.weighted else CountVectorizer(**options)
        )
        self.vectorizer_ = vectorizer.fit(_texts(X))
        return self

    def transform(self, X: Any) -> Any:
        return self.vectorizer_.transform(_texts(X))


def _texts(X: Any) -> list[str]:
    return [f"^{''.join(map(chr, x.ravel().astype(int) + CODE_BASE))}$" for x in X]


def median_distance(rows: np.ndarray) -> float:
    """Return the median distance between distinct rows; 1 if all are identical."""
    distances = pdist(rows)
    distances = distances[distances > 0]
    return float(np.median(distances)) if len(distances) else 1.0


class SupportVectors(BaseEstimator):
    """SVC or SVR with a Gaussian kernel; its width is ``width`` times the median distance of standardized rows."""

    def __init__(
        self, C: float, width: float, is_classifier: bool, standardize: bool, random_state: int
    ) -> None:
        self.C = C
        self.width = width
        self.is_classifier = is_classifier
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> SupportVectors:
        rng = np.random.default_rng(self.random_state)
        if len(X) > MAX_SUPPORT_VECTOR_SETS:
            subset = rng.choice(len(X), MAX_SUPPORT_VECTOR_SETS, replace=False)
            X, y = X[subset], y[subset]
        self.scaler_ = StandardScaler(with_mean=self.standardize, with_std=self.standardize).fit(X)
        rows = self.scaler_.transform(X)
        sample = rows[rng.permutation(len(rows))[:MAX_MEDIAN_ROWS]]
        gamma = 0.5 / (self.width * median_distance(sample)) ** 2
        self.shift_, self.scale_ = (0.0, 1.0) if self.is_classifier else (y.mean(), y.std() or 1.0)
        kind = SVC if self.is_classifier else SVR
        targets = y if self.is_classifier else (y - self.shift_) / self.scale_
        self.model_ = kind(C=self.C, gamma=gamma).fit(rows, targets)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        values = self.model_.predict(self.scaler_.transform(X))
        return values if self.is_classifier else values * self.scale_ + self.shift_


@dataclass(frozen=True)
class Setting:
    """A setting of a baseline: name of its rows, label, and factory of its learner."""

    baseline: str
    rows: str
    label: str
    learner: Callable[[], Any]


def transformers(is_text: bool, seed: int) -> dict[str, Any]:
    """Return transformers from sets to rows, by name."""
    if is_text:
        return {
            "counts of 3-grams": NGrams(3, False), "counts of 5-grams": NGrams(5, False),
            "weighted 5-grams": NGrams(5, True),
        }  # fmt: skip
    return {
        "means": Means(), "moments": Moments(), "summaries": Summaries(), "mean map": MeanMap(seed),
        "sliced Wasserstein": SlicedQuantiles(seed),
    }  # fmt: skip


def settings(is_text: bool, is_classifier: bool, n_sets: int, n_classes: int, seed: int) -> Iterator[Setting]:
    """Yield all settings of all baselines."""
    linear = "logistic regression" if is_classifier else "ridge regression"
    for rows in tuple(transformers(True, 0)) if is_text else ("means", "moments", "summaries"):
        name = f"{linear} on n-grams" if is_text else f"{linear} on {rows}"
        for strength in (0.01, 0.1, 1.0, 10.0, 100.0):
            yield Setting(
                name, rows, f"{rows}, strength {strength:g}",
                lambda strength=strength: _linear(strength, is_text, is_classifier, n_sets * n_classes),
            )  # fmt: skip
    if is_text:
        return
    for name, kinds in {
        "random forest": (RandomForestClassifier, RandomForestRegressor),
        "extra trees": (ExtraTreesClassifier, ExtraTreesRegressor),
    }.items():
        kind, fraction = kinds[not is_classifier], "sqrt" if is_classifier else 0.3
        yield Setting(
            f"{name} on summaries", "summaries", f"max_features {fraction}",
            lambda kind=kind, fraction=fraction: kind(N_TREES, max_features=fraction, random_state=seed),
        )  # fmt: skip
    yield Setting(
        "boosting on summaries", "summaries", "default", lambda: _boosting(n_sets, is_classifier, seed)
    )
    for rows in ("summaries", "mean map", "sliced Wasserstein"):
        for C in (1.0, 10.0):
            for width in (0.5, 1.0, 2.0):
                yield Setting(
                    f"support vectors on {rows}", rows, f"C {C:g}, width {width:g}",
                    lambda C=C, width=width, rows=rows: SupportVectors(
                        C, width, is_classifier, rows == "summaries", seed
                    ),
                )  # fmt: skip


def _boosting(n_sets: int, is_classifier: bool, seed: int) -> Any:
    """Return stochastic gradient boosting; above 1,000 sets with histograms, which are faster."""
    if n_sets > MAX_EXACT_BOOSTING_SETS:
        kind = HistGradientBoostingClassifier if is_classifier else HistGradientBoostingRegressor
        return kind(max_features=0.3, early_stopping=False, random_state=seed)
    kind = GradientBoostingClassifier if is_classifier else GradientBoostingRegressor
    fraction = "sqrt" if is_classifier else 0.3
    return kind(n_estimators=150, max_features=fraction, subsample=0.8, random_state=seed)


def _linear(strength: float, is_text: bool, is_classifier: bool, n_values: int) -> Any:
    """Return a linear model with penalty 1 / strength; least squares if logistic regression would take minutes."""
    if not is_classifier:
        model = Ridge(1 / strength)
    elif n_values > MAX_LOGISTIC_VALUES and not is_text:
        model = RidgeClassifier(1 / strength)
    else:
        model = LogisticRegression(C=strength, max_iter=300, tol=1e-3)
    return model if is_text else make_pipeline(StandardScaler(), model)


def folds(y: np.ndarray, groups: Any, is_classifier: bool, n_folds: int, seed: int) -> list[tuple[Any, Any]]:
    """Return shuffled (train, test) indices by class and group; at most as many folds as sets of a class."""
    n_folds = min(n_folds, len(y) if groups is None else len(np.unique(groups)))
    if is_classifier:
        smallest = int(np.unique(y, return_counts=True)[1].min())
        n_folds = max(2, min(n_folds, smallest))
    kinds = {
        (False, False): KFold, (True, False): StratifiedKFold, (False, True): GroupKFold,
        (True, True): StratifiedGroupKFold,
    }  # fmt: skip
    splitter = kinds[is_classifier, groups is not None](n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(y)), y, groups))


def values_of(y: np.ndarray, predicted: np.ndarray, is_classifier: bool, variance: float) -> np.ndarray:
    """Return one value per set, whose mean is the accuracy or 1 - mean squared error / variance."""
    return (y == predicted).astype(float) if is_classifier else 1 - (y - predicted) ** 2 / variance


@dataclass(frozen=True)
class Selection:
    """Inner scores and test predictions of each baseline in its best setting; ``best`` has the maximum score."""

    inner: dict[str, float]
    labels: dict[str, str]
    predictions: dict[str, np.ndarray]
    best: str


def select_baseline(sets: Any, y: np.ndarray, test_sets: Any, groups: Any = None, seed: int = 0) -> Selection:
    """Select settings and a baseline by inner cross-validation on the training sets, and predict the test sets.

    Parameters
    ----------
    sets, test_sets : SampleSets
        Training and test sets.
    y : (n,) array
        Classes, or targets of kind "f".
    groups : (n,) array, optional
        Sets of one group stay in one inner fold.
    seed : int, default=0
        Seed of folds, random features and trees.

    Returns
    -------
    Selection
    """
    with warnings.catch_warnings():  # classes with fewer sets than folds, and many classes of few sets
        warnings.filterwarnings(
            "ignore", "The least populated class|The number of unique classes", UserWarning
        )
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _select(sets, y, test_sets, groups, seed)


def _select(sets: Any, y: np.ndarray, test_sets: Any, groups: Any, seed: int) -> Selection:
    is_classifier = y.dtype.kind != "f"
    is_text = sets.relative.dtype.kind == "u"
    n_classes = len(np.unique(y)) if is_classifier else 1
    candidates = list(settings(is_text, is_classifier, len(y), n_classes, seed))
    splits = folds(y, groups, is_classifier, N_INNER_FOLDS, seed)
    splits = splits[:1] if len(y) > MAX_CROSS_VALIDATED_SETS else splits
    variance = 1.0 if is_classifier else float(y.var())
    values: list[list[np.ndarray]] = [[] for _ in candidates]
    arrays = list(sets)
    for train, held_out in splits:
        rows = _rows([arrays[i] for i in train], [arrays[i] for i in held_out], is_text, seed)
        for k, setting in enumerate(candidates):
            train_rows, test_rows = rows[setting.rows]
            predicted = setting.learner().fit(train_rows, y[train]).predict(test_rows)
            values[k].append(values_of(y[held_out], predicted, is_classifier, variance))
    scores = [float(np.concatenate(value).mean()) for value in values]
    best: dict[str, int] = {}
    for k, setting in enumerate(candidates):
        if setting.baseline not in best or scores[k] > scores[best[setting.baseline]]:
            best[setting.baseline] = k
    rows = _rows(arrays, list(test_sets), is_text, seed)
    predictions = {}
    for name, k in best.items():
        train_rows, test_rows = rows[candidates[k].rows]
        predictions[name] = candidates[k].learner().fit(train_rows, y).predict(test_rows)
    inner = {name: scores[k] for name, k in best.items()}
    labels = {name: candidates[k].label for name, k in best.items()}
    return Selection(inner, labels, predictions, max(inner, key=lambda name: inner[name]))


def _rows(train: list[Any], test: list[Any], is_text: bool, seed: int) -> dict[str, tuple[Any, Any]]:
    """Return rows of training and test sets by the name of the transformer, fitted on training sets."""
    return {
        name: (transformer.fit(train).transform(train), transformer.transform(test))
        for name, transformer in transformers(is_text, seed).items()
    }
