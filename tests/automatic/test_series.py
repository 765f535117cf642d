"""Automatic models of time series: windows keep the order of points, also in long series."""

import numpy as np

import dkdist as dk


def sines(n_series, length, seed):
    """Return sines of two frequencies with random phases and lengths, and their frequencies.

    Over whole periods, the values of both have the same distribution, so they differ only in their order.
    """
    rng, y = np.random.default_rng(seed), np.arange(n_series) % 2
    series = [
        np.sin((12 + 3 * c) * 2 * np.pi * np.linspace(0, 1, n)[:, None] + rng.uniform(0, 6))
        for c, n in zip(y, rng.integers(length, length + 20, n_series), strict=True)
    ]
    return [x + rng.normal(0, 0.2, x.shape) for x in series], y


def test_long_series_are_classified_by_the_order_of_their_points(tmp_path):
    series, y = sines(120, 300, 0)
    train, test = series[:60], series[60:]
    model = dk.SetClassifier(["sliced-wasserstein", "windows"], cv=3, random_state=0).fit(train, y[:60])
    assert model.best_name_ == "filters of windows"
    assert model.score(test, y[60:]) > 0.95
    assert model.best_estimator_.score(test, y[60:]) > 0.95
    store = dk.write_sets(tmp_path / "series.zarr", test)
    np.testing.assert_array_equal(model.predict_proba(store), model.predict_proba(test))
    dk.save_model(model, tmp_path / "model.npz")
    np.testing.assert_array_equal(
        dk.load_model(tmp_path / "model.npz").predict_proba(test), model.predict_proba(test)
    )
    rng = np.random.default_rng(1)
    shuffled = [rng.permutation(x) for x in test]
    assert model.score(shuffled, y[60:]) < 0.7
    (influences,) = model.explain(test[:1])
    assert influences.shape == (len(test[0]),)
    assert np.isfinite(influences).all()


def test_a_regressor_predicts_frequencies():
    series, y = sines(90, 280, 2)
    model = dk.SetRegressor(["means", "windows"], cv=3, random_state=0).fit(series[:60], y[:60] * 1.0)
    assert model.best_name_ == "filters of windows"
    assert model.score(series[60:], y[60:] * 1.0) > 0.8
