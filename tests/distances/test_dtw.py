"""Dynamic time warping against the plain table, aeon and dtaidistance, and its properties."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdist.distances.dtw import N_LANES, DynamicTimeWarping

GROUNDS = ("sqeuclidean", "euclidean")


def series(lengths, d, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    return [(offset + rng.standard_normal((n, d))).astype(np.float32) for n in lengths]


def flat(arrays):
    return np.concatenate(arrays), np.cumsum([0, *(len(a) for a in arrays)])


def distances(distance, objects, omegas):
    packed = distance.prepare(*flat(omegas), None)
    assert packed.n_omegas == len(omegas)
    out = np.full((len(objects), len(omegas)), np.nan, np.float32)
    distance.fill(pickle.loads(pickle.dumps(packed)), *flat(objects), None, out)
    return out


def table(x, y, ground, band):
    n, m = len(x), len(y)
    costs = ((x[:, None].astype(np.float64) - y) ** 2).sum(axis=2)
    costs = np.sqrt(costs) if ground == "euclidean" else costs
    radius = np.inf if band is None else np.floor(band * max(n, m))
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            if -max(0, n - m) - radius <= j - i <= max(0, m - n) + radius:
                D[i + 1, j + 1] = costs[i, j] + min(D[i, j], D[i, j + 1], D[i + 1, j])
    return D[n, m]


def tables(objects, omegas, ground="sqeuclidean", band=None):
    return np.array([[table(x, y, ground, band) for y in omegas] for x in objects])


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("d", [1, 3, 4, 9])
@pytest.mark.parametrize("band", [None, 0.0, 0.15, 0.5, 1.0])
def test_equals_the_table(ground, d, band):
    objects, omegas = series([1, 2, 3, 4, 5, 17, 30], d), series([1, 2, 7, 16, 24], d, seed=1)
    expected = tables(objects, omegas, ground, band)
    result = distances(DynamicTimeWarping(ground, band=band), objects, omegas)
    np.testing.assert_allclose(result, expected, rtol=2e-6)


def test_root_and_normalize_rescale_the_table():
    objects, omegas = series([3, 10], 2), series([1, 8], 2, seed=1)
    total = tables(objects, omegas)
    mean = total / (np.array([[3], [10]]) + np.array([1, 8]))
    for options, expected in (
        ({"root": True}, np.sqrt(total)),
        ({"normalize": True}, mean),
        ({"normalize": True, "root": True}, np.sqrt(mean)),
    ):
        result = distances(DynamicTimeWarping(**options), objects, omegas)
        np.testing.assert_allclose(result, expected, rtol=2e-6)


def test_long_series_are_accurate():
    objects, omegas = series([600], 3), series([500], 3, seed=1)
    np.testing.assert_allclose(
        distances(DynamicTimeWarping(), objects, omegas), tables(objects, omegas), rtol=1e-5
    )


def test_hundreds_of_variables():
    objects, omegas = series([20], 301), series([6, 11], 301, seed=1)
    np.testing.assert_allclose(
        distances(DynamicTimeWarping(), objects, omegas), tables(objects, omegas), rtol=2e-6
    )


def test_a_huge_offset_costs_no_more_than_the_rounding_of_the_points():
    objects, omegas = series([9, 40], 2, offset=1e6), series([5, 12], 2, seed=1, offset=1e6)
    np.testing.assert_allclose(
        distances(DynamicTimeWarping(), objects, omegas), tables(objects, omegas), rtol=2e-6
    )


def test_a_band_of_zero_is_the_diagonal():
    x, y = series([13, 13], 2)
    result = distances(DynamicTimeWarping(band=0.0), [x], [y])
    np.testing.assert_allclose(result, [[((x - y) ** 2).sum()]], rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 30), min_size=2, max_size=6),
    d=st.integers(1, 6),
    band=st.none() | st.floats(0, 1),
    ground=st.sampled_from(GROUNDS),
    seed=st.integers(0, 1000),
)
def test_identity_symmetry_and_effect_of_the_band(lengths, d, band, ground, seed):
    objects = series(lengths, d, seed)
    D = distances(DynamicTimeWarping(ground, band=band, root=True), objects, objects)
    np.testing.assert_array_equal(np.diag(D), 0)
    np.testing.assert_array_equal(D, D.T)  # bit-identical: the same sums
    assert np.isfinite(D).all()  # every band contains a path to the last corner
    free = distances(DynamicTimeWarping(ground, root=True), objects, objects)
    assert (free <= D).all()  # a band removes paths, so none gets shorter


@pytest.mark.parametrize("band", [None, 0.1])
@pytest.mark.parametrize("d", [1, 5])
def test_entries_do_not_depend_on_other_rows_and_columns(band, d):
    rng = np.random.default_rng(0)
    objects, omegas = (
        series(rng.integers(1, 40, 9), d),
        series(rng.integers(1, 25, 2 * N_LANES + 9), d, seed=1),
    )
    distance = DynamicTimeWarping("euclidean", True, band, True)
    D = distances(distance, objects, omegas)
    for i in (0, 4, 8):
        np.testing.assert_array_equal(distances(distance, objects[i : i + 1], omegas), D[i : i + 1])
    order = rng.permutation(len(omegas))
    np.testing.assert_array_equal(distances(distance, objects, [omegas[j] for j in order]), D[:, order])
    for some in (order[:1], order[:N_LANES], order[: N_LANES + 1]):
        np.testing.assert_array_equal(distances(distance, objects, [omegas[j] for j in some]), D[:, some])


def test_equals_aeon():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        aeon = pytest.importorskip("aeon.distances")
    for d in (1, 5):
        objects, omegas = series([20, 31, 50], d), series([4, 11, 20, 25], d, seed=1)
        expected = [
            [aeon.dtw_distance(x.T.astype(float), y.T.astype(float)) for y in omegas] for x in objects
        ]
        np.testing.assert_allclose(distances(DynamicTimeWarping(), objects, omegas), expected, rtol=1e-5)
        objects, omegas = series([30] * 3, d), series([30] * 3, d, seed=1)
        for band in (0.0, 0.1, 0.55, 1.0):
            expected = [
                [aeon.dtw_distance(x.T.astype(float), y.T.astype(float), window=band) for y in omegas]
                for x in objects
            ]
            result = distances(DynamicTimeWarping(band=band), objects, omegas)
            np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_equals_dtaidistance():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dtw_ndim = pytest.importorskip("dtaidistance.dtw_ndim")
    for d in (1, 5):
        objects, omegas = series([1, 20, 31, 50], d), series([2, 11, 20, 25], d, seed=1)
        for ground, inner in (("sqeuclidean", "squared euclidean"), ("euclidean", "euclidean")):
            for band in (None, 0.0, 0.1, 0.4):

                def peer(x, y, inner=inner, band=band):
                    window = None if band is None else int(band * max(len(x), len(y))) + 1
                    x, y = x.astype(float), y.astype(float)
                    return dtw_ndim.distance(x, y, window=window, inner_dist=inner, use_c=False)

                expected = [[peer(x, y) for y in omegas] for x in objects]
                result = distances(DynamicTimeWarping(ground, ground == "sqeuclidean", band), objects, omegas)
                np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_invalid_options_dimensions_and_weights_are_refused():
    with pytest.raises(ValueError, match=r"ground.*'manhattan'"):
        DynamicTimeWarping("manhattan")
    with pytest.raises(ValueError, match=r"band.*1\.5"):
        DynamicTimeWarping(band=1.5)
    with pytest.raises(ValueError, match=r"2 dimensions.*got 3"):
        distances(DynamicTimeWarping(), series([4], 3), series([4], 2))
    with pytest.raises(ValueError, match="weights"):
        DynamicTimeWarping().prepare(*flat(series([4], 2)), np.ones(4, np.float32))
