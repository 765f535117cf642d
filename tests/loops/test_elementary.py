"""Float32 elementary functions compared with float64 NumPy over their ranges."""

import numpy as np
import pytest
from numba import njit

from dkdist._numba import elementary
from dkdist._numba.compilation import FINITE_FMA, jit

F32 = np.float32
MIDDLE = F32(4.837512969970703125e-4)  # the part of pi / 2 whose multiples float32 cannot represent
# rounding of the last products of the series, which are below 1, 1/2 and 1/16
HALF_TURNS = 2.0**-25 + 2.0**-26 + 2.0**-29


@jit(FINITE_FMA)
def _multiply_add(a, b, c):
    return a * b + c


def has_fma():
    """Return whether compiled functions round a b + c once: 1 + 2^-11 + 2^-24 - 1 - 2^-11, or 0."""
    a = F32(1 + 2.0**-12)
    return bool(_multiply_add(a, a, -(a * a)))


def rounding_without_fma(size):
    """Return the rounding error of products of this size, 0 with FMA."""
    return 0.0 if has_fma() else size


def vectorized(function):
    @njit
    def loop(x, out):
        for i in range(len(x)):
            out[i] = function(x[i])

    def call(x):
        out = np.empty(len(x), np.float32)
        loop(np.asarray(x, np.float32), out)
        return out

    return call


log, exp, cospi = (vectorized(f) for f in (elementary.log, elementary.exp, elementary.cospi))


@njit
def _sincos(x, sine, cosine):
    for i in range(len(x)):
        sine[i], cosine[i] = elementary.sincos(x[i])


def sincos(x):
    x = np.asarray(x, np.float32)
    sine, cosine = np.empty_like(x), np.empty_like(x)
    _sincos(x, sine, cosine)
    return sine, cosine


@njit
def _sincospi(v, sine, cosine):
    for i in range(len(v)):
        sine[i], cosine[i] = elementary.sincospi(v[i])


def ulp_errors(result, exact):
    return np.abs(result - exact) / np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_log_of_all_normal_numbers(rng):
    x = np.exp(rng.uniform(np.log(1.2e-38), np.log(3.4e38), 300_000)).astype(np.float32)
    x = np.concatenate([x, np.exp(rng.uniform(-0.5, 0.5, 300_000)).astype(np.float32)])
    x = x[x != 1]
    assert ulp_errors(log(x), np.log(x.astype(np.float64))).max() < 1.0


def test_log_at_limits():
    tiny, huge = np.finfo(np.float32).tiny, np.finfo(np.float32).max
    x = np.array([tiny, huge, 1.0, np.sqrt(0.5), np.nextafter(np.float32(1), np.float32(2))], np.float32)
    np.testing.assert_allclose(log(x), np.log(x.astype(np.float64)), rtol=1.2e-7, atol=0)
    assert log([1.0])[0] == 0.0


def test_exp_over_its_range(rng):
    x = np.concatenate([rng.uniform(-87, 88, 300_000), rng.uniform(-1, 1, 100_000), [-87, 0, 88]])
    x = x.astype(np.float32)
    assert ulp_errors(exp(x), np.exp(x.astype(np.float64))).max() < 2.0
    assert exp([0.0])[0] == 1.0


@pytest.mark.parametrize("max_value", [10.0, 1e3, 1e5])
def test_sincos_of_phases(rng, max_value):
    x = np.concatenate([rng.uniform(-max_value, max_value, 300_000), [0.0, max_value, -max_value]]).astype(
        np.float32
    )
    sine, cosine = sincos(x)
    quarters = np.rint(x.astype(np.float64) * (2 / np.pi)).astype(np.float32)
    tolerance = 1.2e-7 + rounding_without_fma(np.spacing(np.abs(quarters * MIDDLE)).astype(np.float64) / 2)
    assert (np.abs(sine - np.sin(x.astype(np.float64))) < tolerance).all()
    assert (np.abs(cosine - np.cos(x.astype(np.float64))) < tolerance).all()


def test_sincos_near_multiples_of_pi_over_4():
    x = (np.arange(-2000, 2001) * np.pi / 4).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    sine, cosine = sincos(x)
    assert np.abs(sine - np.sin(x.astype(np.float64))).max() < 1.2e-7
    assert np.abs(cosine - np.cos(x.astype(np.float64))).max() < 1.2e-7


@pytest.mark.parametrize("max_value", [1e7, 1e9, 1e20, 3e38])
def test_sincos_of_huge_phases_is_bounded(rng, max_value):
    sine, cosine = sincos(rng.uniform(-max_value, max_value, 100_000))
    assert max(np.abs(sine).max(), np.abs(cosine).max()) <= 1.0


def test_cospi_on_the_unit_interval(rng):
    u = np.concatenate([rng.random(300_000), [0.0, 0.25, 0.5, 1.0]]).astype(np.float32)
    assert np.abs(cospi(u) - np.cos(np.pi * u.astype(np.float64))).max() < 1.8e-7
    assert cospi([0.5])[0] == 0.0


@pytest.mark.parametrize("max_value", [1.0, 1e3, 1e6, 2e9])
def test_sincospi(rng, max_value):
    v = np.concatenate(
        [rng.uniform(-max_value, max_value, 300_000), np.arange(-8, 9) / 4, [max_value, -max_value]]
    )
    v = v.astype(np.float32)
    sine, cosine = np.empty_like(v), np.empty_like(v)
    _sincospi(v, sine, cosine)
    phase = np.pi * (v.astype(np.float64) % 2)
    tolerance = 1.8e-7 + rounding_without_fma(HALF_TURNS)
    assert np.abs(sine - np.sin(phase)).max() < tolerance
    assert np.abs(cosine - np.cos(phase)).max() < tolerance
    integers = np.arange(-8, 9, dtype=np.float32)
    _sincospi(integers, sine[:17], cosine[:17])
    np.testing.assert_array_equal(sine[:17], 0)
    np.testing.assert_array_equal(cosine[:17], 1 - 2 * (integers % 2))
