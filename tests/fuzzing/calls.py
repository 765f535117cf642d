"""Valid calls of all public callables, invalid values, and the criteria of a clear error."""

from __future__ import annotations

import random
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask.array as da
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

import dkdist as dk

matplotlib.use("Agg")
RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 2, 1, (8, 2)) for i in range(12)]
ROWS = RNG.normal(size=(12, 4)).astype("f4")
LABELS = np.arange(12) % 2
P, Q = SETS[0], SETS[1]
PLACE = Path(tempfile.mkdtemp())
# sets', stores' and sources' errors are ValueErrors
CLEAR = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    MemoryError,
)
MIN_MESSAGE_LENGTH = 15  # characters of a message


@dataclass(frozen=True)
class Call:
    """A public callable and valid arguments."""

    function: Callable[..., Any]
    valid: dict[str, Any]


def _fit_and_use(make: Callable[..., Any], X: Any) -> Callable[..., Any]:
    """Return a function that constructs, fits and uses an estimator."""

    def call(X: Any = X, y: Any = LABELS, use: Any = X, **params: Any) -> Any:
        model = make(**params).fit(X, y)
        return model.transform(use) if hasattr(model, "transform") else model.predict(use)

    return call


def _estimator_call(make: type, X: Any, **params: Any) -> Call:
    defaults = {
        name: p.default
        for name, p in __import__("inspect").signature(make).parameters.items()
        if p.default is not p.empty and name not in ("checkpoint", "verbose")
    }
    return Call(_fit_and_use(make, X), {"X": X, "y": LABELS, "use": X, **defaults, **params})


def _store(**more: Any) -> Any:
    place = Path(tempfile.mkdtemp(dir=PLACE)) / "s.zarr"
    return dk.write_sets(place, **{"sets": SETS, "targets": LABELS, "ids": np.arange(12), **more})


def _append(sets: Any, targets: Any, ids: Any) -> Any:
    view = _store()
    view.append(sets, targets, ids)
    return view.load().points


def _partial_fit(make: type) -> Callable[..., Any]:
    def call(X: Any, y: Any, classes: Any) -> Any:
        model = make(random_state=0)
        more = {"classes": classes} if "Classifier" in make.__name__ else {}
        return model.partial_fit(X, y, **more).predict(ROWS)

    return call


def _weighted(sample_weight: Any, class_weight: Any) -> Any:
    models = (
        dk.IncrementalRidgeClassifier(class_weight=class_weight),
        dk.IncrementalSGDClassifier(n_epochs=1, class_weight=class_weight),
    )
    return [model.fit(ROWS, LABELS, sample_weight).predict_proba(ROWS) for model in models]


def _score(X: Any, y: Any, sample_weight: Any) -> Any:
    return dk.IncrementalRidge(random_state=0).fit(ROWS, LABELS).score(X, y, sample_weight)


def _search(X: Any, y: Any, param_grid: Any, **params: Any) -> Any:
    model = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge())
    return dk.OnePassSearch(model, param_grid, **params).fit(X, y).best_score_


def _features(store: Any, features: Any, overwrite: Any) -> Any:
    return dk.write_features(store, features, overwrite=overwrite).compute(scheduler="synchronous")


def _write(batch: Any, targets: Any, ids: Any, place: Any = None, **params: Any) -> Any:
    place = Path(tempfile.mkdtemp(dir=PLACE)) / "s.zarr" if place is None else place
    with dk.SetWriter(place, **params) as writer:
        writer.append(batch, targets, ids)
    return dk.open_sets(place).load().points


def _measure(make: Any) -> Callable[..., Any]:
    if make is dk.DirectedModifiedHausdorff:  # two values per pair
        return lambda sets, other: dk.DistanceEmbedding(make(), n_components=2).fit(sets).transform(other)
    return lambda sets, other, **params: dk.distance_matrix(sets, other, distance=make(**params))


DISTANCES: dict[Any, dict[str, Any]] = {
    dk.Chamfer: {"squared": True},
    dk.DirectedModifiedHausdorff: {},
    dk.DynamicTimeWarping: {"ground": "sqeuclidean", "root": False, "band": None, "normalize": False},
    dk.ERP: {"gap": 0.0, "band": None},
    dk.TWED: {"nu": 0.1, "penalty": 1.0, "band": None},
    dk.MSM: {"cost": 1.0, "band": None},
    dk.SoftDTW: {"gamma": 1.0, "band": None, "divergence": True},
    dk.GlobalAlignment: {"sigma": 1.0, "triangular": None, "metric": False},
    dk.Energy: {"squared": False},
    dk.Hausdorff: {},
    dk.ModifiedHausdorff: {},
    dk.SlicedWasserstein: {"directions": np.eye(2), "p": 2},
    dk.Wasserstein: {"p": 1},
}
WEIGHTED = dk.SampleSets.from_arrays(SETS, [np.ones(8)] * 12)
COLLECTION = dk.SampleSets.from_arrays(SETS)
LABELLED = COLLECTION.labelled(ids=np.arange(12) + 50, names=["a", "b"], targets={"age": np.arange(12.0)})
FRAME = pd.DataFrame(np.concatenate(SETS), columns=["a", "b"]).assign(
    donor=np.repeat(np.arange(12), 8), one=1.0
)
RIDGE = {"alphas": (0.1, 1.0), "random_state": 0}
SQUARE = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
CURVE = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])

# the automatic models warn of fewer than 20 sets, and of equal sets
TWICE = [*SETS, *(one + 0.5 for one in SETS)]
CLASSIFIER = dk.SetClassifier(["means"], random_state=0).fit(TWICE, np.tile(LABELS, 2))
DENSITY_MODEL = dk.DensityRegressor(dk.MomentEmbedding(), n_basis=5).fit(SETS, SETS)
DENSITY: dk.PredictedDensity = DENSITY_MODEL.mean_density_
EXPLAINED = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge(**RIDGE)).fit(SETS, LABELS)


def _draw(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that draws a plot and closes its figure."""

    def call(**arguments: Any) -> None:
        try:
            draw(**arguments)
        finally:
            plt.close("all")

    return call


REGRESSOR = dk.SetRegressor(["means"], random_state=0).fit(TWICE, np.arange(24.0))
CENSORED_TIMES = np.array(
    list(zip(np.arange(24) % 3 > 0, np.arange(1, 25), strict=True)), dtype=[("event", bool), ("time", float)]
)
SCORES = np.linspace(0, 1, 6).reshape(3, 2)
PLOTS: dict[str, dict[str, Any]] = {
    "calibration": {"model": CLASSIFIER, "sets": SETS, "y": LABELS, "n_bins": 3, "ax": None},
    "collection": {"rows": ROWS, "y": LABELS, "distances": False, "ax": None},
    "contributions": {
        "sets": SETS[:2],
        "contributions": [x[:, 0] for x in SETS[:2]],
        "which": 0,
        "output": None,
        "dims": None,
        "ax": None,
    },
    "distances": {"matrix": SQUARE, "y": np.arange(6) % 2, "ax": None},
    "error_against_features": {"n_features": [10, 100], "errors": [0.1, 0.03], "ax": None},
    "intervals": {"model": REGRESSOR, "sets": SETS, "y": np.arange(12.0), "coverage": 0.8, "ax": None},
    "leaderboard": {"model": CLASSIFIER, "ax": None},
    "learning_curve": {"result": [np.array([1, 2, 4]), SCORES, SCORES], "ax": None},
    "sets": {"sets": SETS[:3], "which": [0, 1], "y": [0, 1, 0], "dims": (0, 1), "ax": None},
    "validation_curve": {"result": [[0.1, 1, 10], SCORES, SCORES], "name": "alpha", "ax": None},
    "witness": {"P": P, "Q": Q, "sigma": 1.0, "kernel": "gaussian", "ax": None},
}

CALLS: dict[str, Call] = {
    "SampleSets": Call(
        lambda **a: dk.SampleSets(**a).points,
        {
            "points": np.concatenate(SETS),
            "offsets": np.arange(13) * 8,
            "weights": np.ones(96),
            "alphabet": None,
        },
    ),
    "from_arrays": Call(
        lambda **a: dk.SampleSets.from_arrays(**a).points, {"arrays": SETS, "weights": [np.ones(8)] * 12}
    ),
    "from_frame": Call(
        lambda **a: dk.SampleSets.from_frame(**a).points,
        {
            "frame": FRAME,
            "set_id": "donor",
            "points": ["a", "b"],
            "targets": pd.Series(LABELS),
            "weights": "one",
        },
    ),
    "labelled": Call(
        COLLECTION.labelled, {"ids": np.arange(12), "names": ["a", "b"], "targets": pd.Series(LABELS)}
    ),
    "import_frame": Call(
        lambda **a: dk.import_frame(PLACE / "d.zarr", overwrite=True, **a).load().points,
        {"frame": FRAME, "set_id": "donor", "points": ["a", "b"], "targets": None, "weights": None},
    ),
    "open_anndata": Call(
        lambda **a: (
            dk.open_anndata(
                SimpleNamespace(
                    obs=FRAME,
                    X=None,
                    var_names=["a", "b"],
                    obsm={},
                    layers={"raw": FRAME[["a", "b"]].to_numpy()},
                ),
                **a,
            )
            .load()
            .points
        ),
        {"set_key": "donor", "columns": ["a", "b"], "targets": None, "layer": "raw", "obsm": None},
    ),
    "import_anndata": Call(
        lambda **a: (
            dk.import_anndata(
                PLACE / "annotated.zarr",
                SimpleNamespace(
                    obs=FRAME,
                    X=None,
                    var_names=["a", "b"],
                    obsm={},
                    layers={"raw": FRAME[["a", "b"]].to_numpy()},
                ),
                overwrite=True,
                **a,
            )
            .load()
            .points
        ),
        {"set_key": "donor", "columns": ["a", "b"], "targets": None, "layer": "raw", "obsm": None},
    ),
    "from_strings": Call(
        lambda **a: dk.SampleSets.from_strings(**a).points, {"strings": ["ab", "ba"], "alphabet": "ab"}
    ),
    "getitem": Call(lambda key: COLLECTION[key], {"key": [0, 2]}),
    "store_getitem": Call(lambda key: _store()[key], {"key": [0, 2]}),
    "weights_of": Call(lambda i: WEIGHTED.weights_of(i), {"i": 0}),
    "write_sets": Call(
        lambda **a: _store(**a).load().points,
        {"sets": SETS, "targets": LABELS, "ids": np.arange(12), "overwrite": False},
    ),
    "write_where": Call(
        lambda store: dk.write_sets(store, SETS, overwrite=True), {"store": str(PLACE / "w.zarr")}
    ),
    "as_sets": Call(
        lambda **a: list(dk.as_sets(**a)),
        {
            "data": ROWS,
            "offsets": [0, 3, len(ROWS)],
            "weights": np.ones(len(ROWS)),
            "ids": ["a", "b"],
            "names": None,
            "targets": [0, 1],
        },
    ),
    "as_lazy_sets": Call(
        lambda points, **a: list(dk.as_sets(da.from_array(points, chunks=4), **a)),
        {"points": ROWS, "offsets": [0, 3, len(ROWS)], "weights": np.ones(len(ROWS)), "targets": [0, 1]},
    ),
    "fold": Call(
        lambda **a: dk.fold(step=lambda state, block: len(block), **a),
        {"data": ROWS, "state": 0, "window": 3, "order": None},
    ),
    "IncrementalWrapper": Call(
        lambda X, y, **a: dk.IncrementalWrapper(SGDClassifier(random_state=0), **a).fit(X, y).predict(X),
        {"X": ROWS, "y": LABELS, "n_epochs": 1, "random_state": 0},
    ),
    "lazy_predict": Call(
        lambda **a: dk.lazy_predict(**a).compute(scheduler="synchronous"),
        {"model": SGDClassifier().fit(ROWS, LABELS), "X": da.from_array(ROWS, chunks=6), "method": "predict"},
    ),
    "open_sets": Call(lambda store: dk.open_sets(store), {"store": str(PLACE / "o.zarr")}),
    "append": Call(_append, {"sets": SETS[:2], "targets": LABELS[:2], "ids": np.arange(2) + 50}),
    "write_features": Call(_features, {"store": str(PLACE / "z.zarr"), "features": ROWS, "overwrite": True}),
    "open_features": Call(lambda store: dk.open_features(store), {"store": str(PLACE / "f.zarr")}),
    "save_model": Call(
        lambda model, path: dk.save_model(model, path),
        {"model": dk.MomentEmbedding().fit(SETS), "path": PLACE / "m.npz"},
    ),
    "load_model": Call(lambda path: dk.load_model(path).transform(SETS), {"path": PLACE / "l.npz"}),
    "verify_sets": Call(lambda store: dk.verify_sets(store).n_sets, {"store": str(PLACE / "o.zarr")}),
    "compact": Call(lambda **a: dk.compact(_store(), **a), {"to": None}),
    "make_mixtures": Call(
        lambda **a: dk.datasets.make_mixtures(**a)[0].points,
        {"n_sets": 3, "n_points": 5, "random_state": 0},
    ),
    "make_cells": Call(
        lambda **a: dk.datasets.make_cells(**a),
        {"n_donors": 4, "n_cells": 5, "as_frame": False, "random_state": 0},
    ),
    "import_sets": Call(
        lambda sources, read: dk.import_sets(PLACE / "i.zarr", sources, read, overwrite=True),
        {"sources": [str(PLACE / "a.npz")], "read": None},
    ),
    "ArrayReader": Call(
        lambda path, **a: [s.points for s, _, _ in dk.ArrayReader(**a).read(path)],
        {"path": PLACE / "a.npz", "values": None, "offsets": None, "weight": None, "targets": None},
    ),
    "kernel_distance": Call(
        dk.kernel_distance,
        {
            "P": P,
            "Q": Q,
            "sigma": 1.0,
            "squared": False,
            "method": "auto",
            "eps": 1e-4,
            "weights": None,
            "kernel": "gaussian",
            "unbiased": False,
        },
    ),
    "coreset": Call(
        lambda **a: dk.coreset(**a).indices,
        {
            "P": P,
            "size": 3,
            "sigma": 1.0,
            "kernel": "gaussian",
            "weights": None,
            "method": "swap",
            "optimal_weights": False,
            "random_state": 0,
        },
    ),
    "merge_coresets": Call(
        lambda parts, **a: dk.merge_coresets(parts, **a).indices,
        {
            "parts": [dk.coreset(P, 3, sigma=1.0, random_state=0)] * 2,
            "size": 3,
            "optimal_weights": False,
            "random_state": 0,
        },
    ),
    "RunningCoreset": Call(
        lambda P, weights, optimal_weights, **a: (
            dk.RunningCoreset(**a).add(P, weights).coreset(optimal_weights=optimal_weights).indices
        ),
        {
            "P": P,
            "weights": None,
            "size": 3,
            "sigma": 1.0,
            "kernel": "gaussian",
            "optimal_weights": False,
            "random_state": 0,
        },
    ),
    "coreset_size": Call(dk.coreset_size, {"eps": 0.1, "delta": 0.05}),
    "align": Call(
        lambda **a: dk.align(**a).rotation,
        {"Q": Q, "P": P, "sigma": 1.0, "transform": "rigid", "random_state": 0},
    ),
    "Curve": Call(lambda **a: dk.Curve(**a).points, {"vertices": CURVE, "closed": True}),
    "Surface": Call(
        lambda **a: dk.Surface(**a).points,
        {"vertices": RNG.normal(size=(4, 3)), "faces": [[0, 1, 2], [2, 1, 3]], "varifold": False},
    ),
    "distance_matrix": Call(
        dk.distance_matrix, {"sets": SETS[:4], "other": SETS[:2], "distance": "energy", "random_state": 0}
    ),
    "divergence_matrix": Call(
        lambda **a: dk.divergence_matrix(**a),
        {"sets": SETS[:4], "divergence": "hellinger", "estimator": "knn", "k": 2},
    ),
    **{
        make.__name__: Call(
            lambda make=make, name=name, **a: dk.divergence_matrix(SETS[:4], name, estimator=make(**a)),
            options,
        )
        for make, name, options in (
            (dk.EntropyDivergence, "jensen-shannon", {"k": 2, "mixture": "all"}),
            (dk.KNNDivergence, "hellinger", {"k": 2, "duplicates": "raise"}),
            (dk.PluginDivergence, "chi2", {"n_basis": 4, "bandwidth": 0.2, "domain": "data"}),
            (dk.GaussianDivergence, "jensen-shannon", {"shrinkage": 0.1, "n_points": 64}),
            (dk.HeldOutDivergence, "jensen-shannon", {"bandwidth": 0.2, "random_state": 0}),
        )
    },
    "project_psd": Call(lambda **a: dk.project_psd(**a), {"gram": SQUARE, "method": "clip"}),
    "two_sample_test": Call(
        lambda **a: dk.two_sample_test(**a),
        {"P": P, "Q": Q, "sigma": 1.0, "n_permutations": 19, "random_state": 0},
    ),
    "two_sample_test, no bandwidth": Call(
        lambda **a: dk.two_sample_test(**a), {"P": P, "Q": Q, "n_permutations": 19, "random_state": 0}
    ),
    "two_sample_power": Call(
        lambda **a: dk.two_sample_power(**a).power,
        {
            "P": P,
            "Q": Q,
            "sizes": [3],
            "level": 0.2,
            "n_repetitions": 2,
            "n_permutations": 9,
            "random_state": 0,
        },
    ),
    "group_test_power": Call(
        lambda **a: dk.group_test_power(**a).power,
        {
            "draw": lambda n, rng: {"sets": SETS[:4], "groups": [0, 1] * 2},
            "sizes": [3],
            "level": 0.2,
            "n_repetitions": 2,
            "n_permutations": 9,
            "random_state": 0,
        },
    ),
    "adjusted_p_values": Call(
        lambda **a: dk.adjusted_p_values(**a), {"p_values": [0.5, 0.01], "method": "holm"}
    ),
    "group_test": Call(
        lambda **a: dk.group_test(**a).p_value,
        {
            "sets": SETS,
            "groups": LABELS,
            "n_permutations": 19,
            "statistic": "auto",
            "random_state": 0,
            "blocks": np.arange(12) // 4,
            "adjust": None,
            "contrast": None,
        },
    ),
    "n_features_for": Call(
        dk.n_features_for,
        {
            "eps": 0.1,
            "delta": 0.05,
            "rule": "rff",
            "n_dims": 2,
            "diameter": 1.0,
            "sigma": 1.0,
        },
    ),
    "hdd_error_bound": Call(
        lambda **a: dk.hdd_error_bound(**a),
        {
            "n_points": 100,
            "n_components": 10,
            "sigma": 1.0,
            "bandwidth": 0.1,
            "lipschitz": 1.0,
            "divergence": "hellinger",
            "n_dims": 1,
        },
    ),
    "kernel_error": Call(
        lambda **a: dk.kernel_error(**a),
        {
            "model": dk.MeanEmbedding(16, random_state=0).fit(SETS),
            "sets": SETS,
            "n_pairs": 5,
            "random_state": 0,
        },
    ),
    "explain": Call(
        lambda **a: dk.explain(EXPLAINED, **a),
        {"sets": SETS[:3], "by": "point", "at": None, "reference": 0.5},
    ),
    "explain_dimensions": Call(
        lambda **a: dk.explain(**a),
        {
            "model": EXPLAINED,
            "sets": SETS[:3],
            "by": "dimension",
            "background": SETS[3:6],
            "random_state": 0,
        },
    ),
    "explain_at": Call(lambda **a: dk.explain(EXPLAINED, **a), {"sets": SETS[:3], "at": P}),
    "predict_set": Call(
        lambda **a: CLASSIFIER.predict_set(SETS, **a), {"coverage": 0.5, "class_conditional": False}
    ),
    "OnePassSearch": Call(
        _search,
        {
            "X": SETS,
            "y": np.linspace(0, 1, 12),
            "param_grid": {"incrementalridge__alphas": [0.1, 1.0]},
            "validation_fraction": 0.3,
            "refit": True,
            "random_state": 0,
            "scoring": None,
        },
    ),
    "partial_fit": Call(
        _partial_fit(dk.IncrementalSGDClassifier), {"X": ROWS, "y": LABELS, "classes": [0, 1]}
    ),
    "ridge_part": Call(_partial_fit(dk.IncrementalRidge), {"X": ROWS, "y": LABELS, "classes": None}),
    "ridge_classes": Call(
        _partial_fit(dk.IncrementalRidgeClassifier), {"X": ROWS, "y": LABELS, "classes": [0, 1]}
    ),
    "weighted": Call(_weighted, {"sample_weight": np.ones(12), "class_weight": {0: 1.0, 1: 2.0}}),
    "partial_regress": Call(
        _partial_fit(dk.IncrementalSGDRegressor), {"X": ROWS, "y": LABELS, "classes": None}
    ),
    "score": Call(_score, {"X": ROWS, "y": LABELS, "sample_weight": np.ones(12)}),
    "DivergenceEmbedding": _estimator_call(dk.DivergenceEmbedding, SETS),
    "L2Embedding": _estimator_call(dk.L2Embedding, SETS),
    "HistogramEmbedding": _estimator_call(dk.HistogramEmbedding, SETS),
    "CodebookEmbedding": _estimator_call(dk.CodebookEmbedding, SETS, n_words=4),
    "MomentEmbedding": _estimator_call(dk.MomentEmbedding, SETS),
    "GaussianEmbedding": _estimator_call(dk.GaussianEmbedding, SETS),
    "SummaryEmbedding": _estimator_call(dk.SummaryEmbedding, SETS),
    "SeriesWindowEmbedding": _estimator_call(dk.SeriesWindowEmbedding, SETS, n_filters=4),
    "SlicedWassersteinEmbedding": _estimator_call(dk.SlicedWassersteinEmbedding, SETS),
    "MeanEmbedding": _estimator_call(dk.MeanEmbedding, SETS, n_components=16),
    "DistanceEmbedding": _estimator_call(dk.DistanceEmbedding, SETS, distance="energy", n_components=8),
    "NystroemSets": _estimator_call(dk.NystroemSets, SETS, divergence="hellinger", n_components=4),
    "InvariantFeatures": _estimator_call(
        dk.InvariantFeatures, SETS, embedding=dk.HistogramEmbedding(n_bins=4), features=None
    ),
    "PseudoEuclidean": _estimator_call(dk.PseudoEuclideanEmbedding, SQUARE, y=None),
    "RandomFourierFeatures": _estimator_call(dk.RandomFourierFeatures, ROWS, n_components=8),
    "SetPCA": _estimator_call(dk.SetPCA, SETS),
    "PrincipalAxes": _estimator_call(dk.PrincipalAxes, SETS),
    "DistanceProfiles": _estimator_call(dk.DistanceProfiles, SETS),
    "SetScaler": _estimator_call(dk.SetScaler, SETS),
    "SetColumns": _estimator_call(dk.SetColumns, LABELLED, columns=["age"]),
    "CoresetThinning": _estimator_call(dk.CoresetThinning, SETS, size=3),
    "IncrementalRidge": _estimator_call(dk.IncrementalRidge, ROWS, **RIDGE),
    "RidgeClassifier": _estimator_call(dk.IncrementalRidgeClassifier, ROWS, **RIDGE),
    "SGDClassifier": _estimator_call(dk.IncrementalSGDClassifier, ROWS, n_epochs=1, random_state=0),
    "SGDRegressor": _estimator_call(dk.IncrementalSGDRegressor, ROWS, n_epochs=1, random_state=0),
    "SetClassifier": _estimator_call(
        dk.SetClassifier, TWICE, y=np.tile(LABELS, 2), candidates=["means"], random_state=0
    ),
    "SetRegressor": _estimator_call(
        dk.SetRegressor, TWICE, y=np.tile(LABELS, 2), candidates=["means"], random_state=0
    ),
    "SetSurvival": _estimator_call(
        dk.SetSurvival, TWICE, y=CENSORED_TIMES, candidates=["means"], random_state=0
    ),
    "DensityRegressor": _estimator_call(
        dk.DensityRegressor, SETS, y=SETS, embedding=dk.MomentEmbedding(), n_basis=5
    ),
    "PredictedDensity": Call(
        lambda x, n, random_state: [DENSITY.pdf(x), DENSITY.sample(n, random_state)],
        {"x": SETS[0], "n": 5, "random_state": 0},
    ),
    "density_score": Call(
        # NaN: the estimated error of the mean is not positive
        lambda X, y, sample_weight: np.nan_to_num(DENSITY_MODEL.score(X, y, sample_weight)),
        {"X": SETS, "y": SETS, "sample_weight": np.ones(12)},
    ),
    "SetSmoother": _estimator_call(dk.SetSmoother, SETS),
    "FunctionEmbedding": _estimator_call(dk.FunctionEmbedding, SETS, function=np.ravel),
    "NGramEmbedding": _estimator_call(dk.NGramEmbedding, ["abc", "abd"] * 6),
    "PositionEmbedding": _estimator_call(dk.PositionEmbedding, ["abc", "abd"] * 6),
    "NearestSets": Call(
        lambda X, use, k, **params: dk.NearestSets(**params).fit(X).kneighbors(use, k),
        {"X": ROWS, "use": ROWS, "k": 2, "n_neighbors": 3, "engine": "exact"},
    ),
    "SetWriter": Call(
        _write,
        {
            "n_dims": 2,
            "mode": "w",
            "overwrite": False,
            "chunk_rows": 64,
            "shards": None,
            "batch": SETS,
            "targets": {"y": LABELS},
            "ids": np.arange(12),
        },
    ),
    "write_to": Call(
        lambda store: _write(SETS, None, None, place=store, n_dims=2, overwrite=True),
        {"store": str(PLACE / "v.zarr")},
    ),
    "TableReader": Call(
        lambda path, **a: [s.points for s, _, _ in dk.TableReader(**a).read(path)],
        {
            "path": PLACE / "t.csv",
            "set_id": "id",
            "points": ("u", "v"),
            "weight": "w",
            "targets": ("y",),
            "text": (),
            "sort": False,
            "missing_targets": "raise",
        },
    ),
    "CytometryReader": Call(
        lambda **a: dk.CytometryReader(**a).points,
        {
            "points": ("CD3", "CD4"),
            "compensation": "file",
            "transform": "arcsinh",
            "cofactor": 5.0,
            "logicle": (262144.0, 0.5, 4.5, 0.0),
        },
    ),
    "NestedReader": Call(
        lambda **a: dk.NestedReader(**a).points,
        {"points": ("pt", "eta"), "empty_sets": "drop", "targets": ("y",)},
    ),
    "HDF5Reader": Call(lambda **a: dk.HDF5Reader(**a).points, {"points": ("features",), "id_parts": 1}),
    "LidarReader": Call(lambda **a: dk.LidarReader(**a).points, {"points": ("x", "y", "z")}),
    "pairwise": Call(
        lambda sets, **a: dk.distance_matrix(sets, distance=dk.pairwise(**a)),
        {"sets": SETS[:4], "function": lambda a, b: abs(a.mean() - b.mean()), "symmetric": True},
    ),
    "pair_value": Call(
        lambda value: dk.distance_matrix(SETS[:4], distance=dk.pairwise(lambda a, b: value)), {"value": 1.0}
    ),
    "witness": Call(
        dk.witness,
        {
            "P": P,
            "Q": Q,
            "queries": P[:3],
            "sigma": 1.0,
            "h": None,
            "gamma": None,
            "weights": None,
            "kernel": "gaussian",
        },
    ),
    "gridded_shape": Call(lambda **a: dk.gridded_shape(**a).points, {"shape": dk.Curve(CURVE), "side": 0.1}),
    "sampled_shape": Call(
        lambda **a: dk.sampled_shape(**a).points, {"shape": dk.Curve(CURVE), "size": 5, "random_state": 0}
    ),
    "refine_shapes": Call(
        lambda **a: [shape.points for shape in dk.refine_shapes(**a)],
        {"P": dk.Curve(CURVE), "Q": dk.Curve(CURVE + 1), "sigma": 1.0, "eps": 1e-2},
    ),
    "shape_error_bound": Call(
        dk.shape_error_bound, {"P": dk.Curve(CURVE), "Q": dk.Curve(CURVE + 1), "sigma": 1.0}
    ),
    "shape_distance": Call(
        dk.kernel_distance,
        {"P": dk.Curve(CURVE), "Q": dk.gridded_shape(dk.Curve(CURVE + 1), 0.1), "sigma": 1.0},
    ),
    **{
        make.__name__: Call(_measure(make), {"sets": SETS[:4], "other": SETS[:2], **params})
        for make, params in DISTANCES.items()
    },
    **{f"plot_{name}": Call(_draw(getattr(dk.plot, name)), valid) for name, valid in PLOTS.items()},
    "DamerauLevenshtein": Call(
        _measure(dk.DamerauLevenshtein),
        {"sets": ["ab", "ba"], "other": ["b"], "normalize": True, "cutoff": 3},
    ),
    "JaroWinkler": Call(
        _measure(dk.JaroWinkler), {"sets": ["ab", "ba"], "other": ["b"], "prefix_weight": 0.1}
    ),
    "Levenshtein": Call(
        _measure(dk.Levenshtein),
        {
            "sets": ["ab", "ba"],
            "other": ["b"],
            "normalize": False,
            "cutoff": None,
            "insertion": 1.0,
            "deletion": 2.0,
            "substitution": 0.5,
            "transposition": 0.7,
            "substitution_costs": {("a", "b"): 0.5},
        },
    ),
}


MAY_BE_NAN = ("write_features",)  # a row of NaN means that the features could not be computed


def prepare() -> None:
    """Write the files that calls read."""
    dk.write_sets(PLACE / "o.zarr", SETS)
    dk.write_features(PLACE / "f.zarr", ROWS)
    dk.save_model(dk.MomentEmbedding().fit(SETS), PLACE / "l.npz")
    rows = "".join(f"{i // 4},{i},{i % 3},1,{i // 4}\n" for i in range(12))
    (PLACE / "t.csv").write_text("id,u,v,w,y\n" + rows)
    np.savez(PLACE / "a.npz", values=np.concatenate(SETS), offsets=np.arange(13) * 8, y=LABELS)


def invalid_value(rng: random.Random, valid: Any) -> Any:
    """Return a value of an arbitrary kind, or a modified valid value."""
    if isinstance(valid, (np.ndarray, list)) and len(valid) and rng.random() < 0.4:
        return _modified(rng, valid)
    return rng.choice(VALUES)()


def _modified(rng: random.Random, valid: Any) -> Any:
    modifications: list[Callable[[], Any]] = [
        lambda: valid[:-1],
        lambda: valid[:0],
        lambda: [*list(valid), None],
        lambda: [*list(valid)[:-1], rng.choice(VALUES)()],
        lambda: tuple(valid),
        lambda: dict(enumerate(valid)),
        lambda: iter(valid),
        lambda: np.asarray(valid, object),
        lambda: np.asarray(valid)[None],
        lambda: np.asarray(valid).astype(complex),
        lambda: np.asarray(valid).astype(str),
        lambda: np.asarray(valid).astype("f8") * np.nan,
        lambda: np.asarray(valid).astype("f8") * 1e300,
        lambda: np.asarray(valid).astype("f8") * 1e-300,
        lambda: -np.asarray(valid).astype("f8"),
        lambda: np.asarray(valid).astype("M8[s]"),
        lambda: np.ma.masked_invalid(np.where(np.asarray(valid) > 0, np.asarray(valid), np.nan)),
        lambda: da.from_array(np.asarray(valid, "f8")),
        lambda: (
            pd.DataFrame(np.asarray(valid).reshape(len(valid), -1)).astype("Float64").mask(lambda f: f > 0)
        ),
        lambda: np.asarray(valid).astype("f2"),
        lambda: np.broadcast_to(np.asarray(valid)[:1], np.shape(valid)),
    ]
    try:
        return rng.choice(modifications)()
    except (TypeError, ValueError):
        return None


VALUES: list[Callable[[], Any]] = [
    lambda value=value: value  # type: ignore[misc]
    for value in (
        None, True, False, "", "auto", "no", "a" * 99, b"bytes",
        -1, 0, 1, 3, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.5,
        1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 1 + 2j, [], [[]], [None], [[1, 2], [3]], [["a"]], {},
        {"a": 1}, {1, 2}, (), (1, 2), ((0, 1), (2, 3)), object(), int, len, ..., slice(1), range(3), np.float32("nan"),
        np.array(3.0), np.zeros(0), np.zeros((0, 2)), np.zeros((3, 0)), np.zeros((2, 2, 2, 2)), np.ones(12), np.eye(12),
        np.array(["a", None], object), np.array([1, 2], "M8[s]"), np.zeros(3, [("a", "f4")]), np.array([1j]), np.True_,
        np.ma.masked, np.ma.array([1.0, 2], mask=[0, 1]), sp.eye(3).tocsr(), pd.Series([1, None], dtype="Int64"),
        pd.DataFrame({"a": [1.0, 2]}), da.ones((4, 2), chunks=2), "http://", "s3://", "none.npz", Path("none"),
        Path("/"),
        "x\0y", dk.MomentEmbedding(), dk.MomentEmbedding, np.random.default_rng(0), np.random.RandomState(0), 10**400,
    )
] + [lambda: (i for i in range(3)), lambda: iter([P]), lambda: memoryview(b"abc")]  # fmt: skip


def outcome(name: str, seed: int) -> str:
    """Return the outcome of a call with one or two invalid arguments: "fine", "clear", or a description of a bug."""
    rng = random.Random(f"{name} {seed}")
    call = CALLS[name]
    arguments = dict(call.valid)
    for key in rng.sample(list(arguments), min(len(arguments), rng.choice((1, 1, 2)))):
        arguments[key] = invalid_value(rng, call.valid[key])
    changed_arguments = ", ".join(f"{k}={_short(v)}" for k, v in arguments.items() if v is not call.valid[k])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call.function(**arguments)
    except Exception as error:
        if is_clear(error, list(arguments)):
            return "clear"
        last = traceback.extract_tb(error.__traceback__)[-3:]
        location = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(last))
        return (
            f"UNCLEAR {name}({changed_arguments}): {type(error).__name__}: {str(error)[:150]!r} at {location}"
        )
    return "fine" if name in MAY_BE_NAN or is_finite(result) else f"NOT FINITE {name}({changed_arguments})"


def _short(value: Any) -> str:
    try:
        return f"{type(value).__name__} {np.shape(value) if isinstance(value, np.ndarray) else ''} {value!r}"[
            :90
        ].replace("\n", " ")
    except Exception:
        return type(value).__name__


def is_clear(error: Exception, names: list[str]) -> bool:
    """Whether an error has a suitable type and a message, and was raised by this package or names an argument."""
    text = str(error)
    if isinstance(error, IndexError):
        clear = (
            "out of range",
            "index must be an integer",
            "index of a set must be an integer",
            "mask must have",
        )
        return any(phrase in text for phrase in clear)
    if not isinstance(error, CLEAR) or len(text) < MIN_MESSAGE_LENGTH or isinstance(error, UnicodeError):
        return False
    source_file = traceback.extract_tb(error.__traceback__)[-1].filename
    is_own = "/dkdist/" in source_file or "/sklearn/" in source_file
    is_named = any(name in text for name in names if len(name) > 1) or "sparse data was passed" in text
    if isinstance(error, MemoryError):
        is_named = "Unable to allocate" in text  # NumPy's message contains size and shape
    return is_own or is_named or (isinstance(error, OSError) and error.filename is not None)


def is_finite(result: Any) -> bool:
    """Whether all numbers of a result are finite."""
    if isinstance(result, (list, tuple)):
        return all(map(is_finite, result))
    if isinstance(result, (float, np.floating)):
        return bool(np.isfinite(result))
    if isinstance(result, np.ndarray) and result.dtype.kind == "f":
        return bool(np.isfinite(result).all())
    return True
