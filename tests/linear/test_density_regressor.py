"""Predicted densities compared with known densities, and coefficients with scikit-learn's ridge on cosine means."""

import importlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from dask.distributed import Client
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.linear.density_errors import kernel_diagonal, squared_errors

RNG = np.random.default_rng(0)
T = RNG.uniform(-1, 1, 80)
INPUTS = [RNG.normal(t, 1, (30, 2)) for t in T]
RESPONSES = [RNG.normal(t**2, 0.3, (20, 1)) for t in T]
PLANES = [np.c_[y, RNG.normal(size=len(y))] for y in RESPONSES]
MOMENTS = dk.MomentEmbedding()


def cosine_means(sets, low, high, n_basis):
    """Return coefficients (n_sets, n_basis^d) of sets in the orthonormal cosines."""
    rows = []
    for points in sets:
        unit = np.clip((points - low) / (high - low), 0, 1)
        total = np.ones((len(unit), 1))
        for x in unit.T:
            factors = np.sqrt(2.0) ** (np.arange(n_basis) > 0) * np.cos(
                np.pi * np.outer(x, np.arange(n_basis))
            )
            total = (total[:, :, None] * factors[:, None, :]).reshape(len(unit), -1)
        rows.append(total.mean(axis=0))
    return np.array(rows)


def damping(d, n_basis, bandwidth):
    degrees = np.indices((n_basis,) * d).reshape(d, -1).T
    return np.exp(-((np.pi * degrees * bandwidth) ** 2).sum(axis=1) / 2)


@pytest.mark.parametrize(
    ("responses", "bandwidth", "n_basis"), [(RESPONSES, 0.1, 9), (PLANES, [0.2, 0.1], 5)]
)
def test_coefficients_are_a_ridge_of_cosine_means(responses, bandwidth, n_basis):
    model = dk.DensityRegressor(MOMENTS, bandwidth=bandwidth, n_basis=n_basis, alphas=2.0, domain="data")
    model.fit(INPUTS, responses)
    pooled = np.concatenate(responses)
    low, high = pooled.min(axis=0), pooled.max(axis=0)
    predicted = model.predict(INPUTS[:7])
    # the points are float32
    np.testing.assert_allclose(predicted[0].domain, (low, high), rtol=1e-6)
    d = pooled.shape[1]
    C = cosine_means(responses, low, high, n_basis) * damping(d, n_basis, bandwidth)
    Z = model.embedding_.transform(INPUTS).astype(float)
    expected = Ridge(2.0).fit(Z, C).predict(Z[:7])
    result = [density.coefficients.ravel() for density in predicted]
    # float32 coordinates of degree 8: errors of 8 pi 2^-23, then float32 coefficients
    np.testing.assert_allclose(result, expected, atol=1e-5)
    np.testing.assert_allclose(model.mean_density_.coefficients.ravel(), C.mean(axis=0), atol=1e-5)
    np.testing.assert_array_equal(
        model.bandwidth_, np.broadcast_to(np.float32(bandwidth).astype(float), d).round(7)
    )


def test_the_bandwidth_minimises_the_leave_one_out_error():
    responses = [np.clip(y, 0, 1) for y in RESPONSES]
    model = dk.DensityRegressor(MOMENTS, n_basis=16, alphas=1.0, domain="unit").fit(INPUTS, responses)
    C = cosine_means(responses, np.zeros(1), np.ones(1), 16)
    Z = model.embedding_.transform(INPUTS).astype(float)
    held_out = cross_val_predict(Ridge(1.0), Z, C, cv=LeaveOneOut())

    def error(h):
        g = damping(1, 16, h)
        return ((g * held_out) ** 2 - 2 * g * held_out * C).sum()

    single = dk.L2Embedding(n_basis=16, domain="unit").fit(responses).bandwidth_[0]
    errors = [error(h) for h in np.geomspace(single / 4, 2 * single, 300)]
    # candidates are 9 % apart, so that the best one is nearly as good as the best of a fine grid
    assert error(model.bandwidth_[0]) <= min(errors) + 0.01 * (max(errors) - min(errors))


@pytest.mark.parametrize("name", ["mean shift", "mixture weight", "rotation"])
def test_predictions_are_nearer_to_the_true_densities_than_the_mean(name, monkeypatch):
    """By more than three standard errors of the mean difference over test sets; `score` estimates the ratio."""
    for folder in ("benchmarks", "benchmarks/papers"):
        monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / folder))
    s, n_train, n_test = importlib.import_module("density_regression").SETTINGS[name], 80, 60
    t, rng = RNG.uniform(-0.8, 0.8, n_train + n_test), np.random.default_rng(0)
    inputs, responses = [s.input(v, 60, rng) for v in t], [s.response(v, 60, rng) for v in t]
    model = dk.DensityRegressor(random_state=0).fit(inputs[:n_train], responses[:n_train])
    nodes, cell = s.nodes(), s.cell
    p = np.array([s.density(v, nodes) for v in t[n_train:]])
    f = np.array([density.pdf(nodes) for density in model.predict(inputs[n_train:])])
    # the midpoint rule has this error at the edge of the domain
    np.testing.assert_allclose(f.sum(axis=1) * cell, 1, atol=0.02)
    error = ((f - p) ** 2).sum(axis=1) * cell
    mean_error = ((model.mean_density_.pdf(nodes) - p) ** 2).sum(axis=1) * cell
    gain = mean_error - error
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(n_test)
    more = [s.response(v, 480, rng) for v in t[n_train:]]
    assert abs(model.score(inputs[n_train:], more) - (1 - error.sum() / mean_error.sum())) < 0.05


@pytest.mark.parametrize("d", [1, 2, 3])
def test_dirichlet_kernels_are_sums_of_squared_cosines(d):
    x = np.vstack([RNG.random((50, d)), np.zeros(d), np.ones(d), np.full(d, 0.5)])
    expected = np.ones(len(x))
    for column in x.T:
        expected *= 1 + 2 * (np.cos(np.pi * np.outer(column, np.arange(1, 12))) ** 2).sum(axis=1)
    np.testing.assert_allclose(kernel_diagonal(x, 12), expected, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_sums_over_pairs_of_points(weighted):
    """U-statistic: int p^2 ~ sum over i != j of u_i u_j k(x_i, x_j) / sum over i != j of u_i u_j."""
    model = dk.DensityRegressor(MOMENTS, n_basis=6, bandwidth=0.1, domain=([-2], [3])).fit(INPUTS, RESPONSES)
    weights = [RNG.uniform(0.5, 2, len(y)) if weighted else np.ones(len(y)) for y in RESPONSES[:5]]
    sets = dk.SampleSets.from_arrays(RESPONSES[:5], weights)
    predicted = model.predict(INPUTS[:5])
    relative = sets.rebased(model._origin)
    result = squared_errors(model.basis_, predicted, model.mean_density_, relative, 0)
    for i in range(5):
        unit, u = (RESPONSES[i] + 2) / 5, weights[i] / weights[i].sum()
        phi = np.c_[np.ones(len(unit)), np.sqrt(2) * np.cos(np.pi * unit * np.arange(1, 6))]
        pairs = np.outer(u, u) * (1 - np.eye(len(u)))
        square = (pairs * (phi @ phi.T)).sum() / pairs.sum()
        for j, f in enumerate((predicted[i], model.mean_density_)):
            expected = (f.grid_values**2).mean() - 2 * 5 * (u @ f.pdf(RESPONSES[i])) + square
            np.testing.assert_allclose(result[i, j], expected, rtol=1e-5)


def test_score_weights_and_ratio():
    model = dk.DensityRegressor(MOMENTS, random_state=0).fit(INPUTS, RESPONSES)
    sets = dk.SampleSets.from_arrays(RESPONSES).rebased(model._origin)
    errors = squared_errors(model.basis_, model.predict(INPUTS), model.mean_density_, sets, 0)
    w = RNG.uniform(0, 2, len(T))
    expected = 1 - (w @ errors[:, 0]) / (w @ errors[:, 1])
    np.testing.assert_allclose(model.score(INPUTS, RESPONSES, w), expected, rtol=1e-12)


def test_scores_without_a_positive_error_of_the_mean_are_nan():
    sets = [RNG.normal(size=(20, 1)) for _ in range(40)]
    model = dk.DensityRegressor(MOMENTS).fit(sets, sets)
    scores = np.array([model.score(sets[i : i + 1], sets[i : i + 1]) for i in range(40)])
    # all sets have the same distribution, so that unbiased estimates of the error of the mean are about zero
    assert 0 < np.isnan(scores).sum() < 40


def test_weights_of_zero_remove_pairs():
    w = (np.arange(len(T)) % 3 > 0).astype(float)
    used = np.flatnonzero(w)
    kept = dk.DensityRegressor(random_state=0).fit([INPUTS[i] for i in used], [RESPONSES[i] for i in used])
    weighted = dk.DensityRegressor(random_state=0).fit(INPUTS, RESPONSES, w)
    for a, b in zip(kept.predict(INPUTS[:4]), weighted.predict(INPUTS[:4]), strict=True):
        np.testing.assert_allclose(a.coefficients, b.coefficients, atol=1e-6)


def test_a_prediction_depends_on_its_set_alone():
    model = dk.DensityRegressor(random_state=0).fit(INPUTS, PLANES)
    predictions = model.predict(INPUTS[:9])
    for i in (0, 8):
        np.testing.assert_array_equal(
            model.predict(INPUTS[i : i + 1])[0].coefficients, predictions[i].coefficients
        )


@pytest.mark.parametrize("d", [1, 2, 3])
def test_three_sets_give_three_densities(d):
    sets = [RNG.normal(size=(30, d)) for _ in range(43)]
    predicted = dk.DensityRegressor(random_state=0).fit(sets[:40], sets[:40]).predict(sets[40:43])
    assert len(predicted) == 3
    assert all(isinstance(p, dk.PredictedDensity) and p.n_dims == d for p in predicted)


def test_stores_and_clusters_give_the_same_densities(tmp_path):
    X = dk.write_sets(tmp_path / "x", INPUTS, chunk_rows=256)
    Y = dk.write_sets(tmp_path / "y", RESPONSES, chunk_rows=256)
    model = dk.DensityRegressor(random_state=0).fit(INPUTS, RESPONSES)
    expected, score = model.predict(INPUTS), model.score(INPUTS, RESPONSES)
    with Client(processes=False, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        on_cluster = dk.DensityRegressor(random_state=0).fit(X, Y)
        scores = [on_cluster.score(X, Y)]
    lazy = dk.DensityRegressor(random_state=0).fit(X, Y)
    scores.append(lazy.score(X, Y))
    # coefficients are float32, and rows of blocks are summed in another order
    np.testing.assert_allclose(scores, score, rtol=1e-4)
    for other in (on_cluster, lazy):
        assert other.bandwidth_ == model.bandwidth_
        for a, b in zip(other.predict(X), expected, strict=True):
            np.testing.assert_allclose(a.coefficients, b.coefficients, atol=1e-5)
            np.testing.assert_array_equal(a.domain, b.domain)


def test_models_are_cloned_pickled_saved_and_validated(tmp_path):
    pipeline = make_pipeline(dk.L2Embedding(), dk.RandomFourierFeatures(50, random_state=1))
    for model in (dk.DensityRegressor(random_state=0), dk.DensityRegressor(pipeline, bandwidth=0.1)):
        model.fit(INPUTS, RESPONSES)
        dk.save_model(model, tmp_path / "m.npz")
        expected = model.predict(INPUTS[:3])
        for other in (pickle.loads(pickle.dumps(model)), dk.load_model(tmp_path / "m.npz")):
            assert other.score(INPUTS, RESPONSES) == model.score(INPUTS, RESPONSES)
            for a, b in zip(other.predict(INPUTS[:3]), expected, strict=True):
                np.testing.assert_array_equal(a.sample(5, 0), b.sample(5, 0))
    scores = cross_val_score(clone(model), INPUTS, RESPONSES, cv=3)
    assert scores.min() > 0


def test_points_far_from_zero_keep_their_location():
    moved = [y + 1e6 for y in RESPONSES]
    sets = dk.SampleSets.from_arrays(moved)
    density = dk.DensityRegressor(random_state=0).fit(INPUTS, sets).predict(INPUTS[:1])[0]
    at_zero = dk.DensityRegressor(random_state=0).fit(INPUTS, RESPONSES).predict(INPUTS[:1])[0]
    x = np.linspace(-0.5, 1.5, 50)
    np.testing.assert_allclose(density.pdf(x + 1e6), at_zero.pdf(x), atol=1e-3)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"embedding": "euclid"}, "embedding must be one of"),
        ({"bandwidth": -1}, "bandwidth must be a number >= 0"),
        ({"bandwidth": [[0.1], [0.2]]}, "bandwidth must be 'auto', one number or 1 of them"),
        ({"bandwidth": "scott"}, "bandwidth must be 'auto', one number or 1 of them; got 'scott'"),
        ({"n_basis": 1}, "n_basis must be an integer >= 2; got 1"),
        ({"domain": "circle"}, "domain must be one of"),
        ({"domain": (0, 1)}, r"point 0 of set \d+ is .* outside the given"),
        ({"alphas": 0}, "alphas must be one or more positive numbers; got 0"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_invalid_parameters_raise(params, message):
    with pytest.raises(ValueError, match=message):
        dk.DensityRegressor(**params).fit(INPUTS, [y + 5 for y in RESPONSES])


def test_invalid_pairs_raise():
    model, ids = dk.DensityRegressor(random_state=0), np.arange(80)
    fitted = dk.DensityRegressor(random_state=0).fit(INPUTS, RESPONSES)
    X, Y = (dk.SampleSets.from_arrays(s).labelled(ids=i) for s, i in ((INPUTS, ids), (RESPONSES, ids[::-1])))
    constant = [np.c_[y, np.ones(20)] for y in RESPONSES]
    for call, arguments, message in (
        (
            model.fit,
            (INPUTS, RESPONSES[1:]),
            "y must have one response set for each of the 80 sets of X; got 79",
        ),
        (
            model.fit,
            (INPUTS, [np.zeros((5, 4))] * 80),
            r"y must have 1 to 3 dimensions; got 4\. Reduce it \(SetP",
        ),
        (model.fit, (INPUTS, constant), "y must vary in every dimension; got the same value of dimension 1"),
        (
            model.fit,
            (INPUTS, RESPONSES, np.eye(80)[0]),
            "X must have at least 2 sets with a weight .*; got 1",
        ),
        (model.fit, (X, Y), r"y must have the ids of X in the same order; got .*79.* \(set 0\)"),
        (model.fit, (INPUTS, [*RESPONSES[1:], np.full((2, 1), np.nan)]), r"NaN|finite"),
        (fitted.score, (INPUTS[:3], [*RESPONSES[:2], [[1.0]]]), "set 2 of y must have at least 2 points"),
        (fitted.score, (INPUTS, PLANES), r"must have 1 dimension\(s\), as in fit; got 2"),
        (fitted.predict, (RESPONSES,), r"must have 2 dimension\(s\), as in fit; got 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call(*arguments)


def test_regressor_refuses_skipped_sets_by_position():
    skipping = dk.DensityRegressor(dk.DivergenceEmbedding(domain=(-50, 50), on_error="skip"))
    outside = [INPUTS[0], INPUTS[1] + 99, *INPUTS[2:]]
    for weights in (None, np.r_[0, np.ones(79)]):
        with (
            pytest.warns(UserWarning, match="invalid set"),
            pytest.raises(ValueError, match="those of set 1 are not"),
        ):
            skipping.fit(outside, RESPONSES, weights)
    skipping.fit(INPUTS, RESPONSES)
    with (
        pytest.warns(UserWarning, match="invalid set"),
        pytest.raises(ValueError, match="those of set 1 are not"),
    ):
        skipping.predict(outside)


def test_predictions_far_from_the_training_sets_are_densities():
    """Features of 1e6 to 1e37 give coefficients that are far larger than those of any density."""
    model = dk.DensityRegressor(MOMENTS, random_state=0).fit(INPUTS, RESPONSES)
    low, high = model.mean_density_.domain
    for density in model.predict([INPUTS[0] * scale for scale in (1e2, 1e6, 1e18, 1e37)]):
        np.testing.assert_allclose(density.grid_values.mean(), 1, rtol=1e-12)
        assert density.grid_values.min() >= 0
        sample = density.sample(20, random_state=0)
        assert ((sample >= low) & (sample <= high)).all()
