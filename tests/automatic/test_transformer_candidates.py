"""Scikit-learn transformers of sets as candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist.auto.representations import fit_spec, user_representations

Y = np.arange(60) % 2
SETS = dk.SampleSets.from_arrays(
    [np.random.default_rng(i).normal(2 * (i % 2), 1, (5 + i // 2 % 4, 3)) for i in range(60)]
)


class Medians(TransformerMixin):  # no BaseEstimator: without get_params
    def fit(self, X: Any, y: Any = None) -> Medians:
        self.centre_ = np.median(np.concatenate(list(X)), axis=0)
        return self

    def transform(self, X: Any) -> Any:
        return np.array([np.median(x, axis=0) for x in X]) - self.centre_


class Sparse(Medians):
    def transform(self, X: Any) -> Any:
        return csr_matrix(super().transform(X))


PIPELINE = make_pipeline(dk.SetScaler(), dk.MomentEmbedding(2), StandardScaler())


@pytest.mark.parametrize("candidate", [PIPELINE, Medians(), Sparse()])
def test_rows_match_the_transformer(candidate: Any) -> None:
    (entry,) = user_representations([candidate])
    spec = fit_spec(entry, SETS[:40])
    expected = np.asarray(Medians().fit(SETS[:40]).transform(SETS[40:]))
    if candidate is PIPELINE:
        expected = np.asarray(PIPELINE.fit(SETS[:40]).transform(SETS[40:]))
    rows = spec.materialize().embed(SETS[40:])
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, rtol=1e-6, atol=1e-7)
    assert spec.n_features == rows.shape[1]
    fit_spec(entry, SETS[40:])  # another fit of the same candidate
    np.testing.assert_array_equal(spec.materialize().embed(SETS[40:]), rows)


@pytest.mark.parametrize("candidate", [PIPELINE, Medians()])
def test_automatic_model_with_transformer_candidate(candidate: Any) -> None:
    model = dk.SetClassifier([candidate], random_state=0).fit(SETS[:40], Y[:40])
    assert model.score(SETS[40:], Y[40:]) >= 0.9
    assert any(entry["name"].startswith(f"{type(candidate).__name__} 0") for entry in model.leaderboard_)
    contributions = model.explain(SETS[40:42])
    assert [len(c) for c in contributions] == SETS[40:42].sizes.tolist()
    assert model.best_estimator_.predict(SETS[40:]).shape == (20,)


class Broken(BaseEstimator, TransformerMixin):
    def __init__(self, result: Any) -> None:
        self.result = result

    def fit(self, X: Any, y: Any = None) -> Broken:
        return self

    def transform(self, X: Any) -> Any:
        return self.result(X)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda X: X, "must transform 1 sets into an array .*got SampleSets"),
        (lambda X: [[1.0]] * len(X), "got list of shape None"),
        (lambda X: np.zeros(len(X)), r"got ndarray of shape \(1,\)"),
        (lambda X: np.zeros((len(X) + 1, 2)), r"got ndarray of shape \(2, 2\)"),
        (lambda X: np.zeros((len(X), min(len(X), 2))), "must return 1 columns, as in fit; got 2"),
        (
            lambda X: np.array([[0.0 if x[0, 0] != SETS[33][0, 0] else np.inf] for x in X]),
            "^set 33 has non-finite features",
        ),
    ],
)
def test_invalid_transformer_output_raises(result: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dk.SetClassifier([Broken(result)], random_state=0).fit(SETS, Y)


@pytest.mark.parametrize(
    "candidate", [5, Medians, LogisticRegression(), make_pipeline(dk.MomentEmbedding(), LogisticRegression())]
)
def test_invalid_candidate_raises(candidate: Any) -> None:
    with pytest.raises(
        TypeError, match="candidates must contain names, embeddings or transformers of sets; got"
    ):
        dk.SetClassifier(["means", candidate]).fit(SETS, Y)
