"""Options of mean embeddings: automatic choices, warnings, skipped sets, model files and invalid parameters."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk

from .test_mean_embedding import N_SETS, mean_kernels, products, sets_of


@pytest.mark.parametrize(("d", "sigma", "selected"), [
    (1, 0.3, "GridMeanSpec"), (3, 0.3, "GridMeanSpec"), (3, 0.05, "sobol"), (8, 0.3, "sobol"), (17, 0.3, "orthogonal"),
])  # fmt: skip
def test_auto_selects_the_grid_if_it_is_accurate(d, sigma, selected):
    embedding = dk.MeanEmbedding(1000, sigma).fit(sets_of(d))
    if selected == "GridMeanSpec":
        assert type(embedding.spec_).__name__ == selected
        assert embedding.error_bound_ < 0.011
    else:
        assert embedding.spec_.method == selected
        assert embedding.error_bound_ is None


def test_median_sigma_of_stores_and_weights(tmp_path):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((n, 3)).astype(np.float32) for n in rng.integers(1, 50, 700)]
    in_memory = dk.MeanEmbedding().fit(arrays)
    exact = np.median(np.sqrt(2) * np.linalg.norm(rng.standard_normal((100_000, 3)), axis=1))
    assert in_memory.sigma_ == pytest.approx(exact, rel=0.05)
    dk.write_sets(tmp_path / "sets.zarr", dk.SampleSets.from_arrays(arrays))
    assert (
        dk.MeanEmbedding().fit(dk.open_sets(tmp_path / "sets.zarr", block_sets=50)).sigma_ == in_memory.sigma_
    )
    padded = [np.concatenate([x, np.full((50, 3), -4, np.float32)]) for x in arrays]
    weights = [np.r_[np.ones(len(x)), np.zeros(50)] for x in arrays]
    assert dk.MeanEmbedding().fit(dk.SampleSets.from_arrays(padded, weights)).sigma_ == in_memory.sigma_
    single_set = dk.MeanEmbedding().fit([arrays[0]])  # one set
    assert single_set.sigma_ == pytest.approx(
        np.median([np.linalg.norm(x - y) for i, x in enumerate(arrays[0]) for y in arrays[0][:i]]), rel=1e-6
    )


def test_points_outside_the_domain_are_clipped_with_warning():
    sets = sets_of(2)
    grid = dk.MeanEmbedding(sigma=0.3, method="fourier").fit(sets)
    low, high = sets.bounds
    margin = np.float32(0.049) * (high - low)
    inside = [np.stack([low - margin, high + margin])]
    np.testing.assert_allclose(
        products(grid.transform(inside)), mean_kernels(dk.SampleSets.from_arrays(inside), 0.3), atol=2e-6
    )
    with pytest.warns(UserWarning, match=r"2 points in 1 sets \(first: set 1\) are outside"):
        rows = grid.transform([*inside, [[-5, 0.5], [0.5, 9.0]]])
    bounds = grid.spec_.domain.arrays
    clipped = np.array([[[bounds[0][0], 0.5], [0.5, bounds[1][1]]]], np.float32)
    np.testing.assert_array_equal(rows[1], grid.transform(clipped)[0])
    unbounded = dk.MeanEmbedding(sigma=0.3, method="sobol", random_state=0).fit(sets)
    far = unbounded.transform([[[90.0, 7.0]], [[90.3, 7.0]]])  # no domain, no warning
    assert products(far)[0, 1] == pytest.approx(np.exp(-0.5), abs=0.02)


@pytest.mark.parametrize("method", ["auto", "iid", "sobol"])
def test_sigma_below_float32_precision_warns(method):
    sets = np.random.default_rng(0).normal(size=(3, 20, 2))
    with pytest.warns(UserWarning, match="rounding to float32 changes the kernel by"):
        dk.MeanEmbedding(sigma=1e-8, method=method).fit(sets)
    dk.MeanEmbedding(sigma=1e-4, method=method).fit(sets)  # no warning


def test_constant_columns_and_equal_points():
    rng = np.random.default_rng(0)
    flat = [np.c_[rng.random(30), np.full(30, 7.0)] for _ in range(N_SETS)]
    grid = dk.MeanEmbedding(sigma=0.3).fit(flat)
    assert grid.n_features_in_ == 2
    np.testing.assert_allclose(
        products(grid.transform(flat)), mean_kernels(dk.SampleSets.from_arrays(flat), 0.3), atol=2e-6
    )
    rows = dk.MeanEmbedding(sigma=1.0).fit_transform([[[5.0]], [[5.0]]])
    np.testing.assert_allclose(rows, 1)
    with pytest.raises(ValueError, match=r"sampled points are equal\. Pass a number"):
        dk.MeanEmbedding().fit([[[5.0]], [[5.0]]])


@pytest.mark.parametrize("method", ["fourier", "sobol"])
def test_invalid_sets_are_skipped(method):
    sets = sets_of(2)
    weights = np.ones(sets.n_points, np.float32)
    weights[sets.offsets[4]] = -1
    invalid_sets = dk.SampleSets(sets.points, sets.offsets, weights)
    with pytest.raises(dk.SampleSetError, match="set 4"):
        dk.MeanEmbedding(method=method).fit(invalid_sets)
    embedding = dk.MeanEmbedding(100, method=method, random_state=0, on_error="skip")
    with pytest.warns(UserWarning, match=r"1 invalid set\(s\)"):
        embedding.fit(invalid_sets)
    with pytest.warns(UserWarning, match="rows of NaN"):
        rows = embedding.transform(invalid_sets)
    assert embedding.skipped_.tolist() == [4]
    assert np.isnan(rows[4]).all()
    good = np.arange(N_SETS) != 4
    np.testing.assert_array_equal(rows[good], rows_without_invalid_sets(embedding, sets[good]))


def rows_without_invalid_sets(embedding, sets):
    return dk.MeanEmbedding(100, method=embedding.method, random_state=0).fit_transform(sets)


@pytest.mark.parametrize("method", ["fourier", "orthogonal"])
@pytest.mark.parametrize("sigma", [0.4, [0.3, 0.9]])
def test_model_file_round_trip(tmp_path, method, sigma):
    sets = sets_of(2)
    embedding = dk.MeanEmbedding(200, sigma, method, random_state=0).fit(sets)
    dk.save_model(embedding, tmp_path / "model")
    loaded = dk.load_model(tmp_path / "model")
    assert (loaded.spec_, loaded.error_bound_) == (embedding.spec_, embedding.error_bound_)
    np.testing.assert_array_equal(loaded.sigma_, embedding.sigma_)
    np.testing.assert_array_equal(loaded.transform(sets), embedding.transform(sets))


@pytest.mark.parametrize(("parameters", "message"), [
    ({"method": "taylor"}, "method must be one of 'auto', 'fourier', 'orthogonal', 'sobol', 'iid'; got 'taylor'"),
    ({"method": "iid", "n_components": 11}, "n_components must be even, half sines and half cosines; got 11. Use 12"),
    ({"n_components": 100, "sigma": [1, 2, 3]}, "for each of 3 bandwidths; got 100. Use 102"),
    ({"method": "fourier", "n_components": 2, "sigma": [1, 2, 3]}, "at least 1 for each of 3 bandwidths; got 2"),
    ({"n_components": 1}, "n_components must be an integer >= 2"),
    ({"sigma": 0.0}, "sigma must be a positive number; got"),
    ({"sigma": [1.0, -1.0]}, "sigma must be a positive number; got"),
    ({"sigma": []}, "got an empty sequence"),
    ({"sigma": "scott"}, "sigma must be one of 'median'; got 'scott'"),
    ({"random_state": "x"}, "random_state must be"),
    ({"on_error": "ignore"}, "on_error must be one of"),
])  # fmt: skip
def test_invalid_parameters_raise(parameters, message):
    with pytest.raises(ValueError, match=message):
        dk.MeanEmbedding(**parameters).fit(sets_of(2))


def test_grid_in_four_dimensions_raises():
    with pytest.raises(ValueError, match=r"at most 3 dimensions; got 4\. Use 'orthogonal' or 'sobol'"):
        dk.MeanEmbedding(method="fourier").fit(sets_of(4))
