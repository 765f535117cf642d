"""`domain_shift` of automatic models: clipped points, distances to the training sets, and p-values."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dkdist as dk


def collection(seed: int, n: int, shift: float = 0.0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(shift, 1 + (i % 2), (40, 2)) for i in range(n)]


@pytest.fixture(scope="module")
def model():
    return dk.SetClassifier(["moments"], random_state=0).fit(collection(0, 80), np.arange(80) % 2)


def test_distances_are_those_of_the_rows_of_the_largest_member(model):
    member = max(model.machine_.parts, key=lambda part: abs(part.share))
    new = collection(1, 30)
    spec = next(root.spec for root in model.machine_.trees.roots if root.leaf == member.leaf)
    rows = spec.materialize().embed(model.scaler_.transform(dk.SampleSets.from_arrays(new)))
    expected = cdist(rows.astype(float), member.rows[0].astype(float)).min(axis=1)
    shift = model.domain_shift(new)
    # squared distances of centred rows have errors of 1e-16 times squared norms of up to 1e4
    np.testing.assert_allclose(shift["distance"], expected, rtol=1e-6, atol=1e-6)
    among_training = cdist(member.rows[0].astype(float), member.rows[0].astype(float))
    np.fill_diagonal(among_training, np.inf)
    nearest = among_training.min(axis=1)
    p = [(1 + (nearest >= d).sum()) / (len(nearest) + 1) for d in expected]
    np.testing.assert_allclose(shift["p_value"], p, atol=1e-12)


def test_p_values_of_equally_distributed_sets_are_uniform():
    shares = []
    for seed in range(20):
        model = dk.SetClassifier(["moments"], cv=3, random_state=0).fit(
            collection(seed, 60), np.arange(60) % 2
        )
        shares.append((model.domain_shift(collection(1000 + seed, 200))["p_value"] <= 0.1).mean())
    # the share has mean of at most about 0.1 and, over training sets of 60, a standard deviation of about 0.04
    assert abs(np.mean(shares) - 0.1) < 4 * 0.04 / np.sqrt(20)


def test_shifted_sets_have_small_p_values_and_clipped_points(model):
    shift = model.domain_shift(collection(2, 20, shift=50.0))
    assert (shift["p_value"] == 1 / 81).all()
    densities = dk.SetClassifier(["hellinger"], random_state=0).fit(collection(0, 80), np.arange(80) % 2)
    assert (densities.domain_shift(collection(2, 20, shift=50.0))["clipped"] == 1).all()
    assert densities.domain_shift(collection(3, 20))["clipped"].mean() < 0.05


def test_stores_and_saved_models_give_the_same_values(model, tmp_path):
    new = collection(4, 25)
    dk.write_sets(tmp_path / "sets.zarr", new)
    dk.save_model(model, tmp_path / "model.npz")
    expected = model.domain_shift(new)
    np.testing.assert_array_equal(model.domain_shift(dk.open_sets(tmp_path / "sets.zarr")), expected)
    np.testing.assert_array_equal(dk.load_model(tmp_path / "model.npz").domain_shift(new), expected)


def test_a_constant_model_has_no_distances():
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(20, 1)) for _ in range(40)]
    model = dk.SetRegressor(["moments"], random_state=0).fit(sets, rng.normal(size=40))
    assert model.fallback_ == "constant"
    shift = model.domain_shift(sets)
    assert np.isnan(shift["distance"]).all()
    assert np.isnan(shift["p_value"]).all()
