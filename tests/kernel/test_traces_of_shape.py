"""What a difference of shape leaves in both samples together, by definition, and what a shift does not leave."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import inv, sqrtm
from scipy.stats import kurtosis, norm, skew

from dkdist.kernel.comparing.kernel_family import kernel_family
from dkdist.kernel.comparing.ranks.rank_waves import rank_waves
from dkdist.kernel.comparing.traces_of_shape import traces_of_shape

N = 400


def traces(x):
    return traces_of_shape(x, rank_waves(x.shape[1]))


def skewed(rng, n, d):
    return rng.gamma(3, size=(n, d)) @ rng.normal(size=(d, d))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_traces_by_definition(d):
    """Skewness and kurtosis of scipy; waves one by one, of coordinates whitened by a root of the correlations."""
    x = skewed(np.random.default_rng(d), 90, d)
    found = traces(x)
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    R = z.T @ z / 90
    y = z @ inv(sqrtm(R))
    assert found.skewness == pytest.approx(90 * (skew(y) ** 2).mean() / 6)
    assert found.kurtosis == pytest.approx(90 * (kurtosis(y) ** 2).mean() / 24)
    if d > 1:
        assert found.products == pytest.approx(
            90 * np.mean([R[i, j] ** 2 for j in range(d) for i in range(j)])
        )
    powers, U = [], norm.cdf(y)
    for j in range(d):
        powers += [[abs(np.exp(2j * np.pi * k * U[:, j]).mean()) ** 2] for k in range(1, 9)]
    for i in range(d):
        for j in range(i + 1, d):
            powers += [
                [abs(np.exp(2j * np.pi * (k * U[:, i] + s * m * U[:, j])).mean()) ** 2 for s in (1, -1)]
                for k in range(1, 5)
                for m in range(1, 5)
            ]
    np.testing.assert_allclose(found.waves, [90 * np.mean(p) for p in powers], rtol=1e-6)
    every = 90 * np.concatenate(powers)
    assert found.roughness == pytest.approx((every.mean() - 1) * np.sqrt(len(every)))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_normal_points_leave_traces_of_one_and_so_do_shifts_and_scales(d):
    """Of 200 unions: means are 1 or less, as the fit takes its part; half a deviation is not seen, nor 1.3 of one."""
    rng, root = np.random.default_rng([d, 1]), np.eye(d) + 0.3
    for shift, scale in ((0.0, 1.0), (0.5, 1.0), (0.0, 1.3)):
        found = []
        for _ in range(200):
            x = rng.normal(size=(N, d))
            x[N // 2 :] = shift + scale * x[N // 2 :]
            t = traces(x @ root if shift == 0 else x)
            found.append([t.skewness, t.kurtosis, t.waves.mean(), t.roughness])
        found = np.array(found)
        standard_errors = found.std(axis=0) / np.sqrt(200)
        more = 1.3 if scale > 1 else 0.0  # kurtosis of a mixture of scales: a trace, but of the second order
        assert (found[:, :3].mean(axis=0) < 1 + 4 * standard_errors[:3] + more).all()
        assert found[:, 3].mean() < 0.5
        assert (found[:, 3] > 2.5).mean() < 0.03


def test_differences_of_shape_leave_traces_in_the_union():
    rng = np.random.default_rng(4)
    normal = rng.normal(size=(N, 2))
    skewed = np.concatenate([normal, (rng.gamma(4, size=(N, 2)) - 4) / 2])
    assert traces(skewed).skewness > 8
    assert traces(np.concatenate([normal, rng.standard_t(3, size=(N, 2))])).kurtosis > 20
    tied = normal.copy()
    tied[:, 1] = 0.5 * tied[:, 0] + np.sqrt(0.75) * rng.normal(size=N)
    assert traces(np.concatenate([normal, tied])).products > 10
    x = rng.random((8 * N, 1))
    waves = x[2 * rng.random(8 * N) < 1 + 0.6 * np.sin(8 * np.pi * x[:, 0])][:N]
    found = traces(np.concatenate([rng.random((N, 1)), waves]))
    assert found.roughness > 8
    assert found.waves[3:5].max() > 8 * found.waves[1:3].max()  # four periods, as a normal fit stretches them


def test_units_order_and_far_points_change_nothing_that_counts():
    rng = np.random.default_rng(5)
    x = skewed(rng, 200, 3)
    own = traces(x)
    for other in (x[rng.permutation(200)], x * [1e-300, 1, 1e150], x + 1e6):
        found = traces(other)
        assert found.roughness == pytest.approx(own.roughness, rel=1e-6)
        assert found.skewness == pytest.approx(own.skewness, rel=1e-6)
    with np.errstate(all="raise", under="ignore"):
        for odd in (np.r_[x, [[1e30, -1e30, 0]]], x * [1, 0, 1], x[:, [0, 0, 1]], x[:2]):
            found = traces(odd)
            assert np.isfinite([*found[:3], *found.waves, found.roughness]).all()
            assert np.isfinite(kernel_family(odd).shares).all()
