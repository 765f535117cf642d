"""Order of points in automatic models: what is assumed, what is left out, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import dkdist as dk

RNG = np.random.default_rng(0)
WALKS = [np.cumsum(RNG.normal(size=(40 + i % 7, 1)), axis=0) for i in range(40)]
CLOUDS = [RNG.normal(size=(30, 2)) for _ in range(40)]
Y = np.arange(40) % 2


def digits_by_row(n: int) -> list[np.ndarray]:
    """Return coordinates of dark pixels, row by row."""
    return [np.argwhere(image > 7).astype(float) for image in load_digits().images[:n]]


@pytest.mark.parametrize(
    ("sets", "ordered", "is_used", "note"),
    [
        (WALKS, "auto", True, "Sets are treated as series: the correlation of points up to 8 apart is 0."),
        (WALKS, False, False, "The order of points is not used (ordered=False)."),
        (CLOUDS, "auto", False, "not used: the correlation of points up to 8 apart is 0.0"),
        (CLOUDS, True, True, "Sets are treated as series (ordered=True)."),
        (
            digits_by_row(40),
            "auto",
            False,
            "not used: dimension 0 is sorted, with repeated values, in every set",
        ),
    ],
)
def test_summary_states_whether_order_was_used(sets, ordered, is_used, note):
    model = dk.SetClassifier(["means", "dtw"] if is_used else ["means"], ordered=ordered, random_state=0)
    if ordered == "auto" and is_used:
        model.set_params(candidates="auto")
    model.fit(sets, Y)
    assert model.ordered_ is is_used
    assert note in model.summary()


def test_permuted_points_change_predictions_only_by_rounding_if_unordered():
    y = np.array([len(walk) for walk in WALKS]) % 2
    sets = [walk * (1 + label) for walk, label in zip(WALKS, y, strict=True)]
    permuted = [RNG.permutation(one) for one in sets]
    model = dk.SetClassifier(ordered=False, random_state=0).fit(sets, y)
    assert model.fallback_ is None
    np.testing.assert_allclose(model.predict_proba(permuted), model.predict_proba(sets), atol=1e-4)
    refitted = dk.SetClassifier(ordered=False, random_state=0).fit(permuted, y)
    np.testing.assert_array_equal(refitted.predict(sets), model.predict(sets))


def test_permuted_points_change_predictions_of_series():
    """Rising and falling series have the same points."""
    rising = [np.sort(RNG.normal(size=(30, 1)), axis=0) for _ in range(40)]
    series = [x if label else x[::-1] for x, label in zip(rising, Y, strict=True)]
    train, test = slice(0, 24), slice(24, 40)
    model = dk.SetClassifier(ordered=True, random_state=0).fit(series[train], Y[train])
    assert model.score(series[test], Y[test]) > 0.9
    permuted = [RNG.permutation(x) for x in series[test]]
    assert model.score(permuted, Y[test]) < 0.8
    unordered = dk.SetClassifier(ordered=False, random_state=0).fit(series[train], Y[train])
    assert unordered.score(series[test], Y[test]) < 0.8


def test_long_series_without_time_warping_are_reported_and_requested_time_warping_is_tried():
    long = [np.cumsum(RNG.normal(size=(300, 1)), axis=0) for _ in range(20)]
    model = dk.SetClassifier(random_state=0).fit(long, Y[:20])
    assert "dtw (series have 300 points on average, more than 256)" in model.summary()
    with pytest.warns(UserWarning, match="half of the objects have more than 300 points"):
        model = dk.SetClassifier(["dtw"], random_state=0).fit(long, Y[:20])
    assert "dynamic time warping to subsamples" in [entry["name"] for entry in model.leaderboard_]
    assert "Not tried" not in model.summary()


@pytest.mark.parametrize(
    ("sets", "params", "reason"),
    [
        (WALKS, {"candidates": ["dtw"], "ordered": False}, "'dtw' cannot be tried: ordered is False"),
        (
            CLOUDS,
            {"candidates": ["components"]},
            "'components' cannot be tried: X has fewer than 8 dimensions",
        ),
        (CLOUDS, {"candidates": ["ngrams"]}, "'ngrams' cannot be tried: X contains real-valued points"),
        (
            ["ab", "ba", "aa", "bb"] * 10,
            {"candidates": ["means"]},
            "'means' cannot be tried: X contains strings",
        ),
        (
            ["ab", "ba", "aa", "bb"] * 10,
            {"ordered": False},
            "ordered must be True or 'auto' for strings; got False",
        ),
        (WALKS, {"ordered": "yes"}, "ordered must be 'auto', True or False; got 'yes'"),
    ],
)
def test_requests_that_cannot_be_met_raise(sets, params, reason):
    with pytest.raises(ValueError, match=reason):
        dk.SetClassifier(random_state=0, **params).fit(sets, Y)


def test_order_of_weighted_points_is_not_used():
    weighted = dk.SampleSets.from_arrays(WALKS, [np.ones(len(walk)) / 2 for walk in WALKS])
    with pytest.raises(ValueError, match="'dtw' cannot be tried: points have weights"):
        dk.SetClassifier(["dtw"], random_state=0).fit(weighted, Y)
    with pytest.raises(ValueError, match="ordered must be False or 'auto' for weighted points; got True"):
        dk.SetClassifier(["means"], ordered=True, random_state=0).fit(weighted, Y)
    model = dk.SetClassifier(["means"], random_state=0).fit(weighted, Y)
    assert "The order of points is not used, because points have weights." in model.summary()
