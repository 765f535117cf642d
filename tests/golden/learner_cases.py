"""Golden cases of linear learners, searches, explanations, and automatic models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk

from .harness import IN_MEMORY, LAZY, approximation, case, float32, float64
from .inputs import LABELS, arrays, classes, rounded, table, targets

X, Y, C = table()
NEW = rounded(np.random.default_rng(18).normal(size=(20, X.shape[1])))
SAMPLE_WEIGHT = rounded(np.random.default_rng(19).uniform(0.5, 2, len(X)))
# The Gram matrix of 400 standard normal rows of 12 columns has condition 2.
RIDGE64 = float64("normal equations of condition 2, products of 400 rows", condition=10)
RIDGE32 = float32(400, "products of 400 float32 rows", condition=2)
SGD = float32(
    3200, "4 operations in each of 400 steps in 2 epochs; later steps shrink the errors of earlier ones"
)
PLANE = dk.DivergenceEmbedding(bandwidth=0.2, domain="unit", n_basis=6)


def of_ridge(model: Any, rows: Any, y: Any, X_new: Any, **more: Any) -> dict[str, Any]:
    """Coefficients, penalty, errors of penalties, and predictions of a ridge."""
    model.fit(rows, y, **more)
    return {
        "coefficients": model.coef_,
        "intercept": model.intercept_,
        "alpha": np.asarray(model.alpha_),
        "errors": model.alpha_errors_,
        "predictions": model.predict(X_new),
    }


@case(RIDGE64)
def ridge_of_float64(inputs: Any) -> Mapping[str, Any]:
    rows = inputs.rows(X.astype(np.float64))
    return of_ridge(dk.IncrementalRidge(random_state=0), rows, Y, NEW)


@case(RIDGE32)
def ridge_of_float32(inputs: Any) -> Mapping[str, Any]:
    y = np.stack([Y, -2 * Y + 1], axis=1)
    model = dk.IncrementalRidge(alphas=(0.1, 10.0), selection="held-out", random_state=0)
    return of_ridge(model, inputs.rows(X), y, NEW.astype(np.float32), sample_weight=SAMPLE_WEIGHT)


@case(RIDGE64)
def ridge_classifier(inputs: Any) -> Mapping[str, Any]:
    rows = inputs.rows(X.astype(np.float64))
    model = dk.IncrementalRidgeClassifier(class_weight="balanced", random_state=0)
    results = of_ridge(model, rows, C, NEW)
    return {**results, "scores": model.decision_function(NEW)}


@case(
    approximation(1e-6, "the calibration is a Newton method that ends at changes of 1e-8; scores are float64")
)
def ridge_probabilities(inputs: Any) -> Mapping[str, Any]:
    model = dk.IncrementalRidgeClassifier(random_state=0).fit(inputs.rows(X.astype(np.float64)), C)
    return {"probabilities": model.predict_proba(NEW)}


@case(RIDGE64, forms=IN_MEMORY)
def ridge_in_parts(inputs: Any) -> Mapping[str, Any]:
    del inputs
    model = dk.IncrementalRidge(alphas=1.0)
    for start in range(0, len(X), 100):
        model.partial_fit(X[start : start + 100].astype(np.float64), Y[start : start + 100])
    return {"coefficients": model.coef_, "predictions": model.predict(NEW)}


def of_sgd(inputs: Any) -> dict[str, Any]:
    """Coefficients of learners by stochastic gradients."""
    rows, results = inputs.rows(X), {}
    for name, model, y in (
        ("squares", dk.IncrementalSGDRegressor(n_epochs=2, random_state=0), Y),
        ("huber", dk.IncrementalSGDRegressor("huber", epsilon=1.0, n_epochs=2, random_state=0), Y),
        ("logistic", dk.IncrementalSGDClassifier(n_epochs=2, alpha=1e-3, random_state=0), C),
        (
            "hinge",
            dk.IncrementalSGDClassifier("hinge", n_epochs=2, class_weight="balanced", random_state=0),
            C > 0,
        ),
        ("two_lanes", dk.IncrementalSGDClassifier(n_epochs=2, n_lanes=2, random_state=0), C),
    ):
        model.fit(rows, y, sample_weight=SAMPLE_WEIGHT)
        results[f"{name} coefficients"], results[f"{name} intercept"] = model.coef_, model.intercept_
        if hasattr(model, "predict_proba"):
            results[f"{name} probabilities"] = model.predict_proba(NEW.astype(np.float32))
    return results


@case(SGD, forms=IN_MEMORY)
def sgd_of_one_block(inputs: Any) -> Mapping[str, Any]:
    return of_sgd(inputs)


@case(SGD, forms=LAZY)
def sgd_of_seven_blocks(inputs: Any) -> Mapping[str, Any]:
    return of_sgd(inputs)


@case(SGD, forms=IN_MEMORY)
def sgd_in_parts(inputs: Any) -> Mapping[str, Any]:
    del inputs
    model = dk.IncrementalSGDClassifier(random_state=0)
    for start in range(0, len(X), 100):
        model.partial_fit(X[start : start + 100], C[start : start + 100], classes=[0, 1, 2])
    return {"coefficients": model.coef_}


@case(
    float32(
        300, "embedded rows of 300 points; a ridge of 24 rows with alpha 0.1 of the largest", condition=100
    )
)
def pipeline_of_sets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = make_pipeline(
        clone(PLANE),
        dk.RandomFourierFeatures(60, sigma=0.5, random_state=0),
        dk.IncrementalRidge(alphas=1.0),
    )
    model.fit(sets, targets())
    return {"predictions": model.predict(sets)}


@case(float32(300, "embedded rows of 300 points; a ridge of 19 rows", condition=100))
def search_in_one_pass(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = make_pipeline(
        clone(PLANE), dk.RandomFourierFeatures(60, random_state=0), dk.IncrementalRidge(alphas=(0.1, 1.0))
    )
    grid = {"divergenceembedding__bandwidth": [0.2, 0.3], "randomfourierfeatures__sigma": [0.3, 0.6]}
    search = dk.OnePassSearch(model, grid, validation_fraction=0.2, random_state=0).fit(sets, targets())
    return {
        "scores": search.cv_results_["mean_test_score"],
        "best": search.best_index_,
        "held_out": search.held_out_,
        "predictions": search.predict(sets),
    }


@case(float32(300, "influences of 300 points on rows, and differences of predictions", condition=100))
def explanations_of_a_pipeline(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = make_pipeline(clone(PLANE), dk.IncrementalRidge(alphas=1.0)).fit(list(sets), targets())
    by_point = dk.explain(model, sets, background=list(sets)[:6], random_state=0)
    return {
        "points": np.concatenate(by_point),
        "dimensions": dk.explain(model, sets, by="dimension", background=list(sets)[:6], random_state=0),
        "places": dk.explain(model, sets, at=[[0.2, 0.2], [0.5, 0.8]]),
    }


@case(
    float32(
        340, "rows are means over 300 points; weights exp(-u^2 / 2) of u = d / 0.11, u about 1", condition=50
    )
)
def set_smoother(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = dk.SetSmoother(dk.MeanEmbedding(40, sigma=0.3, random_state=0)).fit(sets, targets())
    return {
        "bandwidth": np.asarray(model.bandwidth_),
        "errors": model.bandwidth_errors_,
        "predictions": model.predict(sets),
        "others": model.predict([x + 0.05 for x in arrays("plane")]),
    }


@case(
    float32(
        300,
        "embedded rows of 300 points with condition 4; a ridge with alpha a 25th of the largest eigenvalue",
        condition=100,
    )
)
def density_regressor(inputs: Any) -> Mapping[str, Any]:
    sets, responses = inputs.sets("plane"), inputs.sets("line")
    model = dk.DensityRegressor(clone(PLANE), bandwidth=0.1, domain="unit", alphas=0.01, random_state=0)
    densities = model.fit(sets, responses).predict(sets)
    points = np.linspace(0, 1, 33)[:, None]
    return {
        "densities": np.array([density.pdf(points) for density in densities]),
        "mean": model.mean_density_.pdf(points),
        "degrees": model.basis_.exponents,
    }


# Members are kernel machines on exact kernels in float64 of float32 rows; calibration and weights follow.
AUTOMATIC = float32(300, "rows of 300 points, kernel systems, calibrated outer predictions", condition=1000)
CANDIDATES = ["means", "hellinger"]


@case(AUTOMATIC)
def set_classifier(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = dk.SetClassifier(CANDIDATES, cv=4, random_state=0).fit(sets, classes())
    return {
        "probabilities": model.predict_proba(sets),
        "classes": model.predict(sets),
        "sets": model.predict_set(sets, coverage=0.8),
        "names": [entry["name"] for entry in model.leaderboard_],
        "scores": [entry["score"] for entry in model.leaderboard_],
        "errors": [entry["std_error"] for entry in model.leaderboard_],
        "best": model.best_estimator_.predict(list(sets)),
        "p_value": model.p_value_,
    }


@case(AUTOMATIC)
def set_regressor(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = dk.SetRegressor(CANDIDATES, cv=4, random_state=0).fit(sets, targets())
    return {
        "predictions": model.predict(sets),
        "intervals": model.predict_interval(sets, coverage=0.8),
        "names": [entry["name"] for entry in model.leaderboard_],
        "scores": [entry["score"] for entry in model.leaderboard_],
        "points": np.concatenate(model.explain(sets[:5])),
    }


@case(AUTOMATIC, forms=IN_MEMORY)
def set_classifier_of_words(inputs: Any) -> Mapping[str, Any]:
    words = inputs.strings()
    model = dk.SetClassifier(["levenshtein", "ngrams"], cv=4, random_state=0).fit(words, LABELS)
    return {"probabilities": model.predict_proba(words), "names": [e["name"] for e in model.leaderboard_]}


@case(AUTOMATIC, forms=IN_MEMORY)
def set_classifier_with_groups(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("space")
    extremes = make_pipeline(dk.SummaryEmbedding(), StandardScaler())
    model = dk.SetClassifier(["symmetric", extremes], class_weight="balanced", random_state=0)
    model.fit(
        sets, LABELS, groups=np.arange(len(LABELS)) // 2, sample_weight=np.linspace(0.5, 2, len(LABELS))
    )
    return {"probabilities": model.predict_proba(sets), "verdicts": sorted(model.verdicts_.items())}
