"""Ridge regression on sparse n-grams, and its use in models of many strings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dkdist as dk
from dkdist.auto import large_collections as sparse_ngrams
from dkdist.auto import large_collections as streamed
from dkdist.auto import selection as choosing
from dkdist.auto._tuning import SPARSE_RIDGE_TOL
from dkdist.auto.ensemble import LinearMember
from dkdist.auto.large_collections import fit_sparse_ridge, sparse_rows


def words(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Return words whose last letter determines their class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    letters = rng.integers(ord("a"), ord("z") + 1, (n, 5))
    return [
        "".join(map(chr, row)) + ("a" if label else "o") for row, label in zip(letters, y, strict=True)
    ], y


@pytest.mark.parametrize("n_targets", [1, 3])
def test_sparse_ridge_matches_dense_ridge(n_targets: int) -> None:
    sets = dk.SampleSets.from_strings(words(60)[0])
    rng = np.random.default_rng(1)
    y, weights = rng.normal(size=(60, n_targets)), rng.uniform(0.5, 1.5, 60)
    embedding = dk.NGramEmbedding().fit(sets)
    rows = embedding.transform(sets).astype(float)
    for alpha in (0.1, 1.0):
        W, b = fit_sparse_ridge(sparse_rows(embedding.spec_, sets), y, weights, alpha)
        exact = Ridge(alpha).fit(rows, y, sample_weight=weights)
        # conjugate gradients stop at a residual of tol |A'y|, and all eigenvalues are at least alpha
        centred = weights[:, None] * (y - np.average(y, axis=0, weights=weights))
        bound = SPARSE_RIDGE_TOL * np.linalg.norm(rows.T @ centred, axis=0) / alpha
        errors = np.linalg.norm(W - exact.coef_.reshape(W.shape), axis=1)
        assert (errors <= bound).all()
        assert (np.abs(b - exact.intercept_) <= bound).all()  # rows have length 1


def test_many_strings_use_sparse_ngrams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 50)
    monkeypatch.setattr(choosing, "N_COMPONENTS", 64)
    strings, y = words(120)
    store = dk.write_sets(tmp_path / "words.zarr", dk.SampleSets.from_strings(strings))
    model = dk.SetClassifier(["ngrams"], random_state=0).fit(store, y)
    ngrams = [part for part in model.machine_.parts if isinstance(part, LinearMember)]
    assert len({part.leaf for part in ngrams}) == 1
    n_features = ngrams[0].W.shape[1]
    assert n_features > len(set("".join(strings)))
    fresh, y_fresh = words(100, seed=1)
    assert model.score(fresh, y_fresh) > 0.9
    assert model.best_estimator_[:-1].transform(fresh).shape == (100, n_features)
    np.testing.assert_array_equal(model.best_estimator_.predict(fresh), model.predict(fresh))
    path = tmp_path / "model.npz"
    dk.save_model(model, path)
    np.testing.assert_array_equal(
        dk.load_model(path).decision_function(fresh), model.decision_function(fresh)
    )


def test_sparse_ngrams_that_exceed_memory_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 50)
    monkeypatch.setattr(choosing, "N_COMPONENTS", 64)
    monkeypatch.setattr(sparse_ngrams, "BYTES_PER_SYMBOL", 2**60)
    monkeypatch.delattr(streamed, "fit_sparse_ridge")
    strings, y = words(120)
    model = dk.SetClassifier(["ngrams"], random_state=0).fit(strings, y)
    assert model.score(*words(100, seed=1)) > 0.9


@pytest.mark.parametrize(("n_missing_bytes", "is_sparse"), [(0, True), (2, False)])
def test_rows_are_sparse_if_they_fit_in_half_of_free_memory(
    monkeypatch: pytest.MonkeyPatch, n_missing_bytes: int, is_sparse: bool
) -> None:
    sets = dk.SampleSets.from_strings(words(120)[0])
    spec = dk.NGramEmbedding().fit(sets).spec_
    trial: Any = SimpleNamespace(view=SimpleNamespace(spec=spec, entry=SimpleNamespace(family="own")))
    needed = 2 * sparse_ngrams.BYTES_PER_SYMBOL * sets.n_points
    monkeypatch.setattr(sparse_ngrams, "memory_limit", lambda: needed + 1000)
    monkeypatch.setattr(sparse_ngrams, "resident_bytes", lambda: 1000 + n_missing_bytes)
    monkeypatch.setattr(sparse_ngrams, "replace", lambda trial, **_: trial)
    assert sparse_ngrams.with_sparse_ngrams([trial], sets)[1] == [is_sparse]
