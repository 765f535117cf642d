"""ERP, TWED, MSM and soft-DTW against plain tables and aeon, and their properties; DTW with few landmarks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist.distances import dtw
from dkdist.distances.elastic import ERP, MSM, TWED, SoftDTW

INF = np.inf


def series(lengths, d, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((n, d)).astype(np.float32) for n in lengths]


def flat(arrays):
    return np.concatenate(arrays), np.cumsum([0, *(len(a) for a in arrays)])


def distances(distance, objects, omegas):
    packed = distance.prepare(*flat(omegas), None)
    out = np.full((len(objects), len(omegas)), np.nan, np.float32)
    distance.fill(packed, *flat(objects), None, out)
    return out


def norm(v):
    return float(np.sqrt((v * v).sum()))


def erp(x, y, i, j, T, distance):
    if i and j:
        yield T[i - 1, j - 1] + norm(x[i] - y[j])
    if i:
        yield T[i - 1, j] + norm(x[i] - distance.gap)
    if j:
        yield T[i, j - 1] + norm(y[j] - distance.gap)


def twed(x, y, i, j, T, distance):
    if i and j:
        nu, out = distance.nu, distance.nu + distance.penalty
        yield T[i - 1, j - 1] + norm(x[i] - y[j]) + norm(x[i - 1] - y[j - 1]) + 2 * nu * abs(i - j)
        yield T[i - 1, j] + norm(x[i] - x[i - 1]) + out
        yield T[i, j - 1] + norm(y[j] - y[j - 1]) + out


def msm(x, y, i, j, T, distance):
    def move(a, before, other):
        between = min(before, other) <= a <= max(before, other)
        return distance.cost + (0 if between else min(abs(a - before), abs(a - other)))

    if i and j:
        yield T[i - 1, j - 1] + norm(x[i] - y[j])
    if i > 1 and j:
        yield T[i - 1, j] + move(x[i, 0], x[i - 1, 0], y[j, 0])
    if i and j > 1:
        yield T[i, j - 1] + move(y[j, 0], y[j - 1, 0], x[i, 0])


def soft(x, y, i, j, T, distance):
    if i and j:
        ways = np.array([T[i - 1, j - 1], T[i - 1, j], T[i, j - 1]])
        if ways.min() < INF:
            total = np.exp(-(ways - ways.min()) / distance.gamma).sum()
            yield norm(x[i] - y[j]) ** 2 + ways.min() - distance.gamma * np.log(total)


RULES = {ERP: erp, TWED: twed, MSM: msm, SoftDTW: soft}


def table(x, y, distance):
    """Fill the whole table by cells; index 0 is before the first point, where TWED has a point of zeros."""
    n, m = len(x), len(y)
    radius = INF if distance.band is None else np.floor(distance.band * max(n, m))
    x, y = (np.vstack([np.zeros((1, a.shape[1])), a.astype(np.float64)]) for a in (x, y))
    T = np.full((n + 1, m + 1), INF)
    T[0, 0] = 0
    for i in range(n + 1):
        for j in range(m + 1):
            if i + j and -max(0, n - m) - radius <= j - i <= max(0, m - n) + radius:
                T[i, j] = min(RULES[type(distance)](x, y, i, j, T, distance), default=INF)
    return T[n, m]


def tables(objects, omegas, distance):
    if isinstance(distance, MSM):  # each variable separately
        each = [
            ([x[:, e : e + 1] for x in objects], [y[:, e : e + 1] for y in omegas])
            for e in range(objects[0].shape[1])
        ]
        return sum(np.array([[table(x, y, distance) for y in ys] for x in xs]) for xs, ys in each)
    return np.array([[table(x, y, distance) for y in omegas] for x in objects])


def distances_with_band(band):
    return [ERP(0.3, band), TWED(0.1, 0.7, band), MSM(0.4, band), SoftDTW(0.5, band, divergence=False)]


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("band", [None, 0.0, 0.2, 1.0])
def test_equal_the_table(band, d):
    objects, omegas = series([1, 2, 3, 17], d), series([1, 2, 7, 23], d, seed=1)
    for distance in distances_with_band(band):
        result, expected = distances(distance, objects, omegas), tables(objects, omegas, distance)
        np.testing.assert_allclose(result, expected, rtol=2e-6, atol=2e-6 * np.abs(expected).max())


@settings(deadline=None, max_examples=30)
@given(
    lengths=st.lists(st.integers(1, 25), min_size=3, max_size=6),
    d=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
def test_erp_twed_and_msm_are_metrics_and_soft_dtw_is_a_divergence(lengths, d, seed):
    objects = series(lengths, d, seed)
    objects.append(np.concatenate([objects[0], objects[0][-1:]]))  # the last point repeated
    for distance in distances_with_band(None)[:3]:
        D = distances(distance, objects, objects).astype(np.float64)
        np.testing.assert_array_equal(np.diag(D), 0)
        np.testing.assert_allclose(D, D.T, rtol=1e-6)
        assert (D[~np.eye(len(D), dtype=bool)] > 0).all()
        assert (D[:, None, :] <= (D[:, :, None] + D[None, :, :]) * (1 + 1e-5)).all()
    D = distances(SoftDTW(0.5), objects, objects)
    assert (D >= 0).all()
    assert np.diag(D).max() <= 1e-5 * D.max()
    np.testing.assert_allclose(D, D.T, rtol=1e-4, atol=1e-4)


def test_soft_dtw_tends_to_dtw():
    objects, omegas = series([20, 31], 2), series([9, 33], 2, seed=1)
    hard = distances(dk.DynamicTimeWarping(), objects, omegas)
    for gamma in (1e-1, 1e-2, 1e-3):
        result = distances(SoftDTW(gamma, divergence=False), objects, omegas)
        assert (result <= hard * (1 + 1e-5)).all()
        assert (hard - result <= gamma * np.log(3) * 64 + 1e-5 * hard).all()


def test_entries_do_not_depend_on_other_rows_and_columns():
    objects, omegas = series([5, 12, 30], 2), series([4, 9, 31], 2, seed=1)
    for distance in distances_with_band(0.5):
        D = distances(distance, objects, omegas)
        for i in range(3):
            np.testing.assert_array_equal(
                distances(distance, objects[i : i + 1], omegas[::-1]), D[i : i + 1, ::-1]
            )
            np.testing.assert_array_equal(distances(distance, objects, omegas[i : i + 1]), D[:, i : i + 1])


@pytest.mark.parametrize("band", [None, 0.1])
@pytest.mark.parametrize(("d", "ground"), [(1, "euclidean"), (7, "sqeuclidean")])
def test_few_and_many_landmarks_give_bit_identical_columns(d, ground, band):
    """A few landmarks are computed along diagonals, many in SIMD lanes."""
    objects, omegas = (
        series([3, 40, 91], d),
        series([100 + j % 7 for j in range(dtw.N_LANES + 20)], d, seed=1),
    )
    distance = dk.DynamicTimeWarping(ground, band=band, normalize=True, root=True)
    D = distances(distance, objects, omegas[: dtw.N_LANES])
    few = distances(distance, objects, omegas[:2])
    assert len(distance.prepare(*flat(omegas[:2]), None).unpacked.columns) == 2
    np.testing.assert_array_equal(few, D[:, :2])
    np.testing.assert_array_equal(distances(distance, objects, omegas)[:, : dtw.N_LANES], D)


def test_elastic_distances_work_by_name():
    sets = series(range(3, 23), 2)
    for name in ("erp", "twed", "msm", "soft-dtw"):
        A = dk.DistanceEmbedding(name, n_components=8, random_state=0).fit_transform(sets)
        assert np.isfinite(A).all()
    far = [x + np.array([5e6, 0.0]) for x in sets]
    np.testing.assert_allclose(
        dk.distance_matrix(far, distance="msm"), dk.distance_matrix(sets, distance="msm"), rtol=1e-4
    )


def test_twed_and_msm_equal_aeon():
    """Without ERP: aeon 1.6 fills its border with the sum over the whole series, which exceeds the paper's value."""
    aeon = pytest.importorskip("aeon.distances")
    objects = series([12, 12, 12], 1)
    X = np.array([x.T.astype(np.float64) for x in objects])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Numba warnings from aeon
        expected = {
            TWED(0.1, 0.7): aeon.twe_pairwise_distance(X, nu=0.1, lmbda=0.7),
            MSM(0.4): aeon.msm_pairwise_distance(X, c=0.4),
        }
    for distance, theirs in expected.items():
        np.testing.assert_allclose(distances(distance, objects, objects), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ERP(band=2), "band must be None or from 0 to 1"),
        (lambda: ERP(gap="0"), "gap must be a number"),
        (lambda: TWED(nu=0.0), "nu must be a positive number"),
        (lambda: TWED(penalty=-1), "penalty must be a positive number"),
        (lambda: MSM(cost=np.nan), "cost must be a positive number"),
        (lambda: SoftDTW(gamma=0), "gamma must be a positive number"),
    ],
)
def test_invalid_options_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()
