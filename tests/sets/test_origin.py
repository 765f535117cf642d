"""Origins of collections: their choice, and the accuracy of float32 coordinates relative to them."""

import pickle
import warnings

import numpy as np
import pytest

import dkdist as dk
from dkdist.sets import as_sample_sets


def test_far_points_have_float32_accuracy_relative_to_their_spread():
    rng = np.random.default_rng(0)
    for middle in (1e9, -4.5e6, 1e15, 1.7e17):
        x = middle + rng.normal(0, 1e4, (500, 1))
        sets = dk.SampleSets(x, [0, 200, 500])
        np.testing.assert_allclose(sets.points - middle, x - middle, rtol=0, atol=2.0**-24 * 5e4)
        assert sets.points.dtype == sets[0].dtype == sets.bounds[0].dtype == np.float64
        assert sets.relative.dtype == np.float32
        assert np.array_equal(np.concatenate(list(sets)), sets.points)


def test_origins_have_few_bits():
    x = 1e9 + np.random.default_rng(0).normal(0, 1000, (100, 1))
    origin = dk.SampleSets(x, [0, 100]).origin[0]
    assert origin % 512 == 0
    assert abs(origin - 1e9) < 2000


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).normal(5, 1, (100, 2)),
        np.full((100, 2), 0.1),
        np.random.default_rng(0).integers(1, 4, (100, 2))
        / 10
        * np.nextafter(1, np.arange(200).reshape(100, 2) % 3),
        0.3 + np.spacing(0.3) * np.random.default_rng(0).integers(-3, 4, (100, 2)),
        1e9 + np.random.default_rng(0).normal(0, 1, (100, 2)).astype("f4"),
        np.arange(200).reshape(100, 2) + 2**23,
        np.where(np.arange(200) < 150, 0.1, 3.0).reshape(100, 2),
        np.arange(200).astype("i2").reshape(100, 2),
        np.random.default_rng(0).standard_cauchy((100, 2)),
    ],
    ids=[
        "near",
        "constant",
        "rounded grid",
        "rounded constant",
        "float32",
        "integers",
        "mostly one value",
        "i2",
        "cauchy",
    ],
)
def test_points_without_need_of_an_origin_stay_float32(x):
    sets = dk.SampleSets(x, [0, 100])
    assert not sets.origin.any()
    assert sets.points.dtype == np.float32
    assert np.array_equal(sets.points, x.astype(np.float32))
    assert "origin" not in repr(sets)


def test_outliers_and_zeros_for_missing_values_do_not_move_the_origin():
    rng = np.random.default_rng(0)
    x = 1e9 + rng.normal(0, 1, (1000, 1))
    for wrong, share in ((0.0, 0.3), (1e12, 0.001), (-1e9, 0.01)):
        y = np.where(rng.random((1000, 1)) < share, wrong, x)
        sets = dk.SampleSets(y, [0, 1000])
        good = y != wrong
        np.testing.assert_allclose(sets.points[good], y[good], rtol=0, atol=1e-6)
        np.testing.assert_allclose(sets.points[~good], y[~good], rtol=2.0**-24 * 1e3)


def test_integers_are_subtracted_as_integers():
    # nanoseconds since 1970, where float64 has steps of 256
    ticks = 1_700_000_000_000_000_000 + np.arange(-500, 500)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sets = dk.SampleSets(ticks, [0, 1000])
    assert np.array_equal(np.diff(sets.relative[:, 0]), np.ones(999))


def test_slices_merges_and_pickles_keep_true_coordinates():
    rng = np.random.default_rng(0)
    arrays = [np.array([1e9, 3.0]) + rng.normal(0, 1, (n, 2)) for n in (5, 9, 7)]
    sets = dk.SampleSets.from_arrays(arrays)
    for few in (sets[1:], sets[[2, 0]], pickle.loads(pickle.dumps(sets))):
        assert np.array_equal(few.origin, sets.origin)
    assert np.array_equal(sets[[2, 0]][1], sets[0])
    merged = dk.SampleSets.from_arrays([sets[0], dk.SampleSets.from_arrays(arrays[1:])[1]])
    np.testing.assert_allclose(merged[1], arrays[2], rtol=0, atol=1e-6)
    np.testing.assert_allclose(sets.rebased([0, 0]).points, np.float32(sets.points))
    assert np.array_equal(sets.rebased(sets.origin).relative, sets.relative)


def test_with_a_given_origin_sets_do_not_depend_on_each_other():
    arrays = [1e9 + np.random.default_rng(i).normal(0, 1, (5, 1)) for i in range(3)]
    origin = np.array([1e9 + 7])
    every = as_sample_sets(arrays, origin)
    for i, x in enumerate(arrays):
        assert np.array_equal(as_sample_sets([x], origin).relative, np.float32(x - origin))
        assert np.array_equal(every[i : i + 1].relative, as_sample_sets([x], origin).relative)


def test_columns_too_wide_for_float32_warn():
    rng = np.random.default_rng(0)
    halves = rng.normal(0, 1, (400, 2))
    halves[::2, 1] += 1e12
    with pytest.warns(UserWarning, match="column 1 of the points .* float32 rounds to a few"):
        dk.SampleSets(halves, [0, 400])


def test_invalid_origins_are_refused():
    for wrong in (np.nan, [1, 2, 3], "a", [np.inf, 0]):
        with pytest.raises(dk.SampleSetError, match="origin must be a finite number, or one per column"):
            dk.SampleSets(np.zeros((3, 2)), [0, 3], origin=wrong)


def test_points_too_far_from_another_origin_are_refused():
    sets = dk.SampleSets.from_arrays([np.zeros((2, 1)), np.full((1, 1), 3e38)])
    with pytest.raises(dk.SampleSetError, match="point 0 of set 1 is inf"):
        sets.rebased(np.array([-3e38]))
