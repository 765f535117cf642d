"""Bundled and simulated sets: images, mixtures and cells have the documented contents and distributions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression

import dkdist as dk
from dkdist.datasets.mixtures import Mixture


def test_digits_match_images():
    images, labels = load_digits(return_X_y=True)
    sets, result = dk.datasets.load_digits_as_sets()
    assert np.array_equal(result, labels)
    for i in (0, 7, 1796):
        image = np.zeros((8, 8))
        for (x, y), ink in zip(sets[i], sets.weights_of(i), strict=True):
            image[7 - int(y * 8), int(x * 8)] = ink
        assert np.array_equal(image, images[i].reshape(8, 8))


def test_mixtures_have_the_moments_of_their_components():
    rng = np.random.default_rng(0)
    for _ in range(5):
        mixture, n = Mixture(rng), 40_000
        points = mixture.sample(n, rng)
        mean, covariance = mixture.means.mean(0), mixture.covariances.mean(0)
        covariance = covariance + np.cov(mixture.means.T, bias=True)
        np.testing.assert_allclose(points.mean(0), mean, atol=5 * np.sqrt(covariance.max() / n))
        np.testing.assert_allclose(np.cov(points.T), covariance, atol=0.03 * np.trace(covariance))


def test_labels_of_mixtures_are_numbers_of_components():
    sets, y = dk.datasets.make_mixtures(2000, 2, random_state=0)
    assert (sets.sizes == 2).all()
    assert np.abs(sets.points).max() <= 10
    assert np.abs(np.bincount(y, minlength=11)[1:] - 200).max() < 5 * np.sqrt(200)


def test_cells_differ_between_groups_as_documented():
    cells, donors = dk.datasets.make_cells(200, 1000, random_state=0, as_frame=True)
    # half-way between cell types
    active = (cells[["CD3", "CD8", "CD38"]] > 2.5).all(axis=1) & (cells["CD4"] < 2.5)
    active_fraction = active.groupby(cells["donor"]).mean().reindex(donors.index)
    means = active_fraction.groupby(donors["group"]).mean()
    assert means["healthy"] == pytest.approx(0.01, abs=0.004)
    assert means["ill"] == pytest.approx(0.05, abs=0.008)
    regression = LinearRegression().fit(
        np.column_stack([active_fraction, donors["age"] - 20]), donors["severity"]
    )
    np.testing.assert_allclose(
        [*regression.coef_, regression.intercept_], [50, 0.06, 0], rtol=0.06, atol=0.15
    )


def test_frames_match_sets():
    sets, y = dk.datasets.make_cells(7, 20, random_state=3)
    cells, donors = dk.datasets.make_cells(7, 20, random_state=3, as_frame=True)
    ids = cells["donor"].unique()
    assert sets.ids.tolist() == ids.tolist()
    assert sets.names == tuple(cells.columns[1:])
    assert donors.index.tolist() == sorted(ids) != ids.tolist()
    assert donors.loc[ids, "group"].tolist() == y.tolist()
    for name in donors:
        np.testing.assert_array_equal(sets.targets[name], donors.loc[ids, name])
    for donor, points in zip(ids, sets, strict=True):
        np.testing.assert_array_equal(cells[cells["donor"] == donor].iloc[:, 1:].astype("f4"), points)
    assert sorted(np.unique(y, return_counts=True)[1].tolist()) == [3, 4]


@pytest.mark.parametrize("make", [dk.datasets.make_mixtures, dk.datasets.make_cells])
def test_samples_depend_on_the_seed(make):
    first_points, same_seed, other_seed = (make(5, 10, random_state=seed)[0].points for seed in (1, 1, 2))
    assert np.array_equal(first_points, same_seed)
    assert not np.array_equal(first_points[:5], other_seed[:5])


def test_invalid_arguments_raise():
    with pytest.raises(ValueError, match="n_donors must be an integer >= 2; got 1"):
        dk.datasets.make_cells(1)
    with pytest.raises(ValueError, match="n_sets must be an integer >= 1; got 0"):
        dk.datasets.make_mixtures(0)
    with pytest.raises(ValueError, match="n_points must be an integer from 1 to 1000000"):
        dk.datasets.make_mixtures(1, 10**9)


def test_frames_without_pandas_raise(monkeypatch):
    monkeypatch.setattr("dkdist.datasets.cells.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'dkdist\[frames\]'"):
        dk.datasets.make_cells(2, 2, as_frame=True)
