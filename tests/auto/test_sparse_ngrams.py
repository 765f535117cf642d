"""Ridge regression on sparse n-grams, and its use in models of many strings."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score

import dkdist as dk
from dkdist.auto import large_collections as sparse_ngrams
from dkdist.auto import large_collections as streamed
from dkdist.auto import selection as choosing
from dkdist.auto._tuning import SPARSE_RIDGE_TOL
from dkdist.auto.ensemble import LinearMember
from dkdist.auto.large_collections import fit_sparse_ridge, sparse_rows


def words(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Return words of 3 to 8 letters, of which the last one determines the class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    letters = [rng.integers(ord("a"), ord("z") + 1, rng.integers(2, 8)) for _ in range(n)]
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
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 64)
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
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 64)
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


def texts_with_motif(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Return random strings that contain one of two motifs anywhere, which n-grams find and edit distances do not."""
    rng = np.random.default_rng(seed)
    y, strings = rng.integers(0, 2, n), []
    for label in y:
        letters = rng.choice(list("acgt"), rng.integers(20, 40))
        start = rng.integers(0, len(letters) - 5)
        letters[start : start + 5] = list(("gatta", "tacgc")[label])
        strings.append("".join(letters))
    return strings, y


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 200)
    monkeypatch.setattr("dkdist.auto._tuning.MAX_NESTED_SETS", 200)
    monkeypatch.setattr("dkdist.auto._tuning.MAX_SELECTION_SETS", 200)
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 64)


@pytest.mark.usefixtures("small_limits")
def test_clearly_better_ngrams_are_fitted_alone_on_all_strings(tmp_path: Path) -> None:
    strings, y = texts_with_motif(600)
    model = dk.SetClassifier(random_state=0).fit(strings, y)
    (root,), (part,) = model.machine_.trees.roots, model.machine_.parts
    assert root.sparse
    assert len(model._used) == 600  # the hold-out of the score is part of the final fit
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 5), lowercase=False)
    rows, targets = vectorizer.fit_transform(strings), 2.0 * y - 1
    alpha = model._best.alpha
    exact = Ridge(alpha, solver="cholesky").fit(rows.toarray(), targets)
    # bound of `test_sparse_ridge_matches_dense_ridge`, for the coefficients and the intercept
    bound = 2 * SPARSE_RIDGE_TOL * np.linalg.norm(rows.T @ (targets - targets.mean())) / alpha
    fresh, y_fresh = texts_with_motif(200, seed=1)
    values = model.decision_function(fresh)
    assert np.abs(values - exact.predict(vectorizer.transform(fresh))).max() <= bound
    assert accuracy_score(y_fresh, exact.predict(vectorizer.transform(fresh)) > 0) > 0.8
    np.testing.assert_array_equal(model.decision_function(fresh[3:5]), values[3:5])
    np.testing.assert_array_equal(model.best_estimator_.predict(fresh), model.predict(fresh))
    store = dk.write_sets(tmp_path / "texts.zarr", dk.SampleSets.from_strings(strings))
    np.testing.assert_array_equal(
        dk.SetClassifier(random_state=0).fit(store, y).decision_function(fresh), values
    )
    sums = np.array([contributions.sum() for contributions in model.explain(fresh[:3])])
    np.testing.assert_allclose(sums, values[:3], rtol=0, atol=1e-5 * np.abs(part.W).sum())  # float32 rows
    leads = model.leads_["character n-grams"]
    assert leads == (0.0, 0.0)  # the model is this baseline
    dk.save_model(model, tmp_path / "model.npz")
    loaded = dk.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.decision_function(fresh), values)


@pytest.mark.usefixtures("small_limits")
def test_distances_are_fitted_where_they_are_better(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    find = choosing.sufficient_ngrams
    monkeypatch.setattr(
        choosing, "sufficient_ngrams", lambda *args: results.append(find(*args)) or results[-1]
    )
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    prototypes = rng.choice(list("ab"), (2, 30))
    strings = []
    for label in y:  # a fifth of the symbols is deleted, so that positions are not aligned
        string = prototypes[label][rng.random(30) > 0.2]
        strings.append("".join(np.where(rng.random(len(string)) < 0.2, "a", string)))
    model = dk.SetClassifier(random_state=0).fit(strings, y)
    assert results == [None]
    assert model.leads_["character n-grams"][0] >= 0


@pytest.mark.usefixtures("small_limits")
def test_a_regression_on_ngrams_uses_sparse_rows() -> None:
    strings, y = texts_with_motif(500)
    model = dk.SetRegressor(random_state=0).fit(strings, 3.0 * y)
    assert model.machine_.trees.roots[0].sparse
    fresh, y_fresh = texts_with_motif(200, seed=1)
    assert accuracy_score(y_fresh, model.predict(fresh) > 1.5) > 0.8


@pytest.mark.usefixtures("small_limits")
def test_a_held_out_part_may_be_one_group() -> None:
    strings, y = texts_with_motif(400)
    model = dk.SetClassifier(random_state=0).fit(strings, y, groups=np.arange(400) % 7)
    assert model.score(strings, y) > 0.8


def test_positions_of_aligned_strings_are_candidates_and_a_baseline() -> None:
    rng = np.random.default_rng(0)
    letters = rng.choice(list("ACGT"), (240, 12))
    strings, y = ["".join(row) for row in letters], (letters[:, 4] == letters[:, 7]).astype(int)
    y[letters[:, 4] == "A"] = 0
    aligned = dk.SetClassifier(random_state=0).fit(strings[:160], y[:160])
    assert "positions" in aligned.leads_
    direct = (letters[160:, 4] == "A").astype(int)
    simple = dk.SetClassifier(random_state=0).fit(strings[:160], (letters[:160, 4] == "A").astype(int))
    assert simple.score(strings[160:], direct) > 0.95
    ragged = [string[: 6 + i % 6] for i, string in enumerate(strings)]
    automatic = dk.SetClassifier(random_state=0).fit(ragged[:100], y[:100])
    assert "positions" not in automatic.leads_
    assert "positions (the lengths of strings differ)" in automatic.summary()
    assert "positions" in dk.SetClassifier(["positions"], random_state=0).fit(ragged, y).leads_


@pytest.mark.parametrize("family", ["levenshtein", "ngrams", "positions"])
def test_models_predict_strings_with_unknown_symbols(family: str) -> None:
    strings, y = words(80)
    model = dk.SetClassifier([family], random_state=0).fit(strings, y)
    assert np.isfinite(model.predict_proba(["ÄÖÜÄÖa", "Zoé"])).all()
