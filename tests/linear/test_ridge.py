"""Ridge regression in one pass, compared with scikit-learn's exact solvers."""

from __future__ import annotations

import pickle
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV

from dkdist import IncrementalRidge, IncrementalRidgeClassifier
from dkdist._runtime.blocks import Blocks
from dkdist._runtime.map_reduce import tree_sum
from dkdist.linear.ridge_fitting import make_jobs
from dkdist.linear.rows import RowLabels

from .problems import smooth_problem

ALPHAS = [0.01, 1.0, 30.0, 1000.0]


def data(n: int = 700, d: int = 12, k: int = 2, offset: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) + offset * rng.random(d)
    return X, X @ rng.standard_normal((d, k)) + 3 * rng.standard_normal((n, k)) + 7.0


def forms(X: Any) -> list[Any]:
    return [X, da.from_array(X, chunks=(90, -1)), da.from_array(X, chunks=(8, 5))]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_single_alpha_matches_ridge(fit_intercept: bool) -> None:
    X, y = data()
    exact = Ridge(alpha=2.0, fit_intercept=fit_intercept).fit(X, y)
    for form in forms(X):
        model = IncrementalRidge(2.0, fit_intercept=fit_intercept).fit(form, y)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-10)
        np.testing.assert_allclose(model.predict(form), exact.predict(X), rtol=1e-8)
        assert np.isnan(model.alpha_errors_).all()
    single_target = IncrementalRidge(2.0).fit(X, y[:, 0])
    assert single_target.coef_.shape == (12,)
    assert single_target.predict(X).shape == (700,)


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_leave_one_out_matches_ridge_cv(offset: float) -> None:
    X, y = data(offset=offset)
    exact = RidgeCV(ALPHAS, store_cv_results=True).fit(X, y)
    for form in forms(X):
        model = IncrementalRidge(ALPHAS, selection="leave-one-out").fit(form, y)
        assert model.alpha_ == exact.alpha_
        np.testing.assert_allclose(model.alpha_errors_, exact.cv_results_.mean(axis=(0, 1)), rtol=1e-9)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-8)


def test_leave_one_out_with_more_features_than_rows() -> None:
    X, y = data(30, 50, 1)
    exact = RidgeCV(ALPHAS, store_cv_results=True).fit(X, y[:, 0])
    model = IncrementalRidge(ALPHAS, selection="leave-one-out").fit(X, y[:, 0])
    np.testing.assert_allclose(model.alpha_errors_, exact.cv_results_.mean(axis=0), rtol=1e-6)


def test_held_out_selection_refits_on_all_rows() -> None:
    X, y = data()
    model = IncrementalRidge(ALPHAS, selection="held-out", random_state=3).fit(
        da.from_array(X, chunks=(90, -1)), y
    )
    exact = Ridge(alpha=model.alpha_).fit(X, y)
    np.testing.assert_allclose(model.coef_, exact.coef_, rtol=1e-9)
    assert model.alpha_ == ALPHAS[int(np.argmin(model.alpha_errors_))]
    eager = IncrementalRidge(ALPHAS, selection="held-out", random_state=3).fit(X, y)
    np.testing.assert_allclose(eager.alpha_errors_, model.alpha_errors_, rtol=1e-9)
    assert not np.allclose(
        IncrementalRidge(ALPHAS, selection="held-out", random_state=4).fit(X, y).alpha_errors_,
        model.alpha_errors_,
    )


def test_held_out_selection_generalises() -> None:
    p = smooth_problem(n=300, n_features=200)
    scores = {
        a: Ridge(alpha=a).fit(p.X.astype("f8"), p.y).score(p.X_test, p.y_test) for a in (1e-4, 0.1, 100.0)
    }
    X = da.from_array(p.X, chunks=(100, -1))
    models = [IncrementalRidge(random_state=seed).fit(X, p.y) for seed in range(5)]
    assert models[0].coef_.dtype == np.float32
    # median, because 30 held-out rows select a poor alpha for some seeds
    chosen = np.median([model.score(p.X_test, p.y_test) for model in models])
    assert chosen > max(scores.values()) - 0.01
    assert max(scores.values()) > min(scores.values()) + 0.05  # the penalty matters for this problem


@pytest.mark.parametrize("k", [2, 4])
def test_classifier_matches_ridge_classifier(k: int) -> None:
    X, y = data()
    names = np.array(list("dbca"))[np.digitize(y[:, 0], np.quantile(y[:, 0], np.arange(1, k) / k))]
    exact = RidgeClassifierCV(ALPHAS).fit(X, names)
    for form in forms(X):
        model = IncrementalRidgeClassifier(ALPHAS, selection="leave-one-out").fit(form, names)
        assert model.alpha_ == exact.alpha_
        np.testing.assert_allclose(model.coef_, np.atleast_2d(exact.coef_), rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(model.decision_function(form), exact.decision_function(X), atol=1e-8)
        np.testing.assert_array_equal(model.predict(form), exact.predict(X))
    held_out_model = IncrementalRidgeClassifier(ALPHAS, random_state=0).fit(X, names)
    expected = RidgeClassifier(alpha=held_out_model.alpha_).fit(X, names).coef_
    np.testing.assert_allclose(held_out_model.coef_, np.atleast_2d(expected), atol=1e-9)


def test_tasks_send_class_indices(monkeypatch: Any) -> None:
    X, _y = data(200)
    sent: list[Any] = []
    monkeypatch.setattr(
        "dkdist.linear.ridge_fitting.tree_sum",
        lambda b, j, *a, **k: (sent.extend(job.extra.labels.targets for job in j), tree_sum(b, j, *a, **k))[
            1
        ],
    )
    IncrementalRidgeClassifier(random_state=0).fit(X, np.arange(200) % 5)
    np.testing.assert_array_equal(np.concatenate(sent), np.arange(200) % 5)  # not five numbers per row


def test_schedulers_give_identical_results_with_few_tasks(monkeypatch: Any) -> None:
    X, y = data(2000)
    lazy = da.from_array(X.astype("f4"), chunks=(30, -1))  # 67 blocks
    jobs: list[int] = []
    monkeypatch.setattr(
        "dkdist.linear.ridge_fitting.tree_sum",
        lambda b, j, *a, **k: (jobs.append(len(j)), tree_sum(b, j, *a, **k))[1],
    )
    bits = set()
    for config in ({"num_workers": 1}, {"num_workers": 5}, {"scheduler": "synchronous"}):
        with dask.config.set(**config):
            model = IncrementalRidge(ALPHAS, random_state=0).fit(lazy, y)
        bits.add(pickle.dumps([model.coef_, model.intercept_, model.alpha_errors_]))
    assert len(bits) == 1
    # three blocks per task: a task computes four times what it sends, or there are 32 tasks
    assert jobs == [23] * 3


@pytest.mark.parametrize(
    ("n_blocks", "columns", "sizes"),
    [
        (16, 5000, [8, 8]),  # a Gram matrix is as large as ten blocks: fewer tasks of equal size
        (977, 5000, [30, 31]),  # 32 tasks: computing four times what is sent would give 25
        (977, 600, [4, 5]),
        (40, 100, [1]),  # no fewer tasks than blocks
        (1, 100, [1]),
    ],
)
def test_tasks_partition_the_blocks(n_blocks: int, columns: int, sizes: list[int]) -> None:
    bounds = 1024 * np.arange(n_blocks + 1)
    blocks = Blocks("rows", bounds, [None] * n_blocks, row_bytes=4 * columns, n_columns=columns)  # type: ignore[list-item]
    jobs = make_jobs(
        blocks, RowLabels(np.zeros(int(bounds[-1])), np.zeros(int(bounds[-1]), bool)), skip=False
    )
    assert sorted({len(job.blocks) for job in jobs}) == sorted(set(sizes))
    assert [i for job in jobs for i in job.blocks] == list(range(n_blocks))
    if n_blocks > 1:
        assert 2 <= len(jobs) <= 256


def test_invalid_input_raises() -> None:
    X, y = data(50)
    for alphas in (0.0, [1.0, -1.0], [], [np.nan]):
        with pytest.raises(ValueError, match="alphas"):
            IncrementalRidge(alphas).fit(X, y)
    with pytest.raises(ValueError, match="50 rows of X; got 49 targets"):
        IncrementalRidge().fit(da.from_array(X, chunks=(10, -1)), y[1:])
    bad = X.copy()
    bad[33, 2] = np.inf
    with pytest.raises(ValueError, match="got inf in row 33, column 2"):
        IncrementalRidge().fit(da.from_array(bad, chunks=(10, -1)), y)
    with pytest.raises(ValueError, match="1 class"):
        IncrementalRidgeClassifier().fit(X, np.zeros(50))
    with pytest.raises(ValueError, match="selection"):
        IncrementalRidge(selection="cv").fit(X, y)


@pytest.mark.parametrize(("of_X", "of_y", "of_w"), [(1e30, 1.0, 1.0), (1.0, 1e200, 1.0), (1.0, 1.0, 1e80)])
def test_overflow_raises_without_warnings(of_X: float, of_y: float, of_w: float) -> None:
    X = np.random.default_rng(0).standard_normal((200, 5), np.float32)
    with pytest.raises(ValueError, match="finite sums of squares"):
        IncrementalRidge(1.0).fit(
            np.float32(of_X) * X, of_y * X[:, 0].astype(float), sample_weight=np.full(200, of_w)
        )


def test_noisy_rows_select_a_large_penalty() -> None:
    rng = np.random.default_rng(2)
    coef = rng.normal(size=40)
    X = rng.normal(size=(60, 40))
    y = X @ coef + 15 * rng.normal(size=60)
    T = rng.normal(size=(2000, 40))
    model = IncrementalRidge().fit(X, y)
    assert model.alpha_ == RidgeCV(10.0 ** np.arange(-4, 4)).fit(X, y).alpha_ == 1000
    small = IncrementalRidge(alphas=10.0 ** np.arange(-4, 3)).fit(X, y)
    assert model.score(T, T @ coef) > small.score(T, T @ coef)
