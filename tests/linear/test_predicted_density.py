"""Predicted densities: cosine sums, the projection on densities, integrals, and samples by goodness-of-fit tests."""

import pickle

import numpy as np
import pytest
from scipy import integrate, optimize, stats

import dkdist as dk
from dkdist.linear.predicted_density import project_density

RNG = np.random.default_rng(0)
# Level of the goodness-of-fit tests. Seeds are fixed, so a test of a correct sampler passes always or, with this
# probability, never.
LEVEL = 0.01


def random_density(d, n_functions, scale):
    """Return a density on a box from random coefficients, whose sum is negative in places for a scale above 1."""
    degrees = np.indices((n_functions,) * d)
    coefficients = scale * RNG.standard_normal((n_functions,) * d) / (1 + (degrees**2).sum(axis=0))
    coefficients[(0,) * d], coefficients[(1,) * d] = 1, scale
    return dk.PredictedDensity(coefficients, np.arange(d) - 2.0, np.arange(d) * 2.0 + 3)


def series(density, x):
    """Return the sum of cosines at points x (n, d), relative to the volume of the box."""
    low, high = density.domain
    unit = (x - low) / (high - low)
    total = np.zeros(len(x))
    for a in np.ndindex(density.coefficients.shape):
        total += density.coefficients[a] * np.prod(
            np.sqrt(2.0) ** (np.array(a) > 0) * np.cos(np.pi * np.array(a) * unit), axis=1
        )
    return total / np.prod(high - low)


def knots(density):
    """Return, for each dimension, the ends of the pieces on which the density is linear."""
    low, high = density.domain
    g = density.grid_values.shape[0]
    unit = np.concatenate([[0], (np.arange(g) + 0.5) / g, [1]])
    return [a + unit * (b - a) for a, b in zip(low, high, strict=True)]


@pytest.mark.parametrize(("d", "n_functions"), [(1, 4), (1, 60), (2, 3), (2, 12), (3, 4)])
def test_positive_series_are_interpolated_between_midpoints(d, n_functions):
    density = random_density(d, n_functions, 0.1)
    low, high = density.domain
    g = density.grid_values.shape[0]
    cells = RNG.integers(g, size=(40, d))
    midpoints = low + (cells + 0.5) / g * (high - low)
    assert series(density, midpoints).min() > 0
    np.testing.assert_allclose(density.pdf(midpoints), series(density, midpoints), rtol=1e-9)
    x = RNG.uniform(low + (high - low) / g, high - (high - low) / g, (200, d))
    # linear interpolation changes cos(pi a x) by (pi a / g)^2 / 8 of its amplitude, in each dimension
    degrees = np.indices(density.coefficients.shape).reshape(d, -1)
    amplitudes = np.abs(density.coefficients.ravel()) * np.sqrt(2.0) ** (degrees > 0).sum(axis=0)
    bound = (amplitudes * (np.pi * degrees / g) ** 2 / 8).sum() / np.prod(high - low)
    assert np.abs(density.pdf(x) - series(density, x)).max() <= bound


@pytest.mark.parametrize(("d", "n_functions"), [(1, 5), (1, 40), (2, 9), (3, 6)])
def test_clipped_series_integrate_to_one(d, n_functions):
    density = random_density(d, n_functions, 3)
    np.testing.assert_array_equal(
        density.pdf([side + s for s, side in zip((-0.1, 0.1), density.domain, strict=True)]), 0
    )
    corners = np.stack(np.meshgrid(*knots(density), indexing="ij"), -1)
    values = density.pdf(corners.reshape(-1, d)).reshape(corners.shape[:-1])
    assert (values == 0).any()
    assert (values >= 0).all()
    # the trapezoidal rule is exact for pieces that are linear in each dimension
    for axis in knots(density)[::-1]:
        values = np.trapezoid(values, axis)
    np.testing.assert_allclose(values, 1, rtol=1e-12)


@pytest.mark.parametrize("size", [2, 300])
def test_projection_matches_a_root_finder(size):
    for scale in (0.1, 1, 10):
        values = scale * RNG.standard_normal(size)
        values += 1 - values.mean()
        xi = optimize.brentq(
            lambda t, v=values: np.maximum(v - t, 0).mean() - 1, values.min() - 2, values.max()
        )
        np.testing.assert_allclose(project_density(values), np.maximum(values - xi, 0), atol=1e-9 * scale)


def test_projection_is_nearer_to_every_density():
    values = RNG.standard_normal(200)
    values += 1 - values.mean()
    for density in RNG.dirichlet(np.full(200, 0.3), 20) * 200:
        assert ((project_density(values) - density) ** 2).sum() <= ((values - density) ** 2).sum()


@pytest.mark.parametrize("scale", [1e10, 1e20, 1e300])
def test_far_extrapolations_are_densities(scale):
    """Values that differ by more than one in floating point leave the whole mass to the largest one."""
    values = project_density(scale * np.array([0.3, -2.0, 0.5, -1.0]))
    np.testing.assert_array_equal(values, [0, 0, 4, 0])
    density = dk.PredictedDensity([1, scale, scale], [0.0], [1.0])
    np.testing.assert_array_equal(density.grid_values[[0, -1]], [256, 0])
    assert density.grid_values.mean() == 1
    assert density.sample(5, random_state=0).max() < 2 / 256


def test_samples_follow_the_density():
    """Kolmogorov-Smirnov test with 20,000 points, which detects differences of the distribution function of 0.0115."""
    density = random_density(1, 8, 3)
    knot = knots(density)[0]
    x = np.linspace(knot[0], knot[-1], 8 * len(knot))
    mass = integrate.cumulative_trapezoid(density.pdf(x), x, initial=0)
    sample = density.sample(20_000, random_state=0)
    assert sample.shape == (20_000, 1)
    assert stats.kstest(sample[:, 0], lambda q: np.interp(q, x, mass / mass[-1])).pvalue > LEVEL
    assert density.pdf(sample).min() > 0


@pytest.mark.parametrize(("d", "n_functions"), [(2, 7), (3, 5)])
def test_samples_fill_the_cells_of_a_grid(d, n_functions):
    """Chi-squared test of counts in blocks of 8 cells along each axis, with at least 5 expected points."""
    density = random_density(d, n_functions, 1)
    low, high = density.domain
    g = density.grid_values.shape[0]
    sample = density.sample(20_000, random_state=1)
    cells = np.floor((sample - low) / (high - low) * (g // 8)).astype(int)
    counts = np.bincount(np.ravel_multi_index(cells.T, (g // 8,) * d), minlength=(g // 8) ** d)
    # quarter-cell midpoints integrate the interpolated density in a block with a relative error below 1e-3
    fine = (np.arange(g * 2) + 0.5) / (g * 2)
    points = np.stack(np.meshgrid(*[fine] * d, indexing="ij"), -1).reshape(-1, d)
    values = density.pdf(low + points * (high - low)).reshape([k for _ in range(d) for k in (g // 8, 16)])
    expected = values.mean(axis=tuple(range(1, 2 * d, 2))).ravel()
    expected *= 20_000 / expected.sum()
    frequent = expected >= 5
    observed = np.append(counts[frequent], counts[~frequent].sum())
    predicted = np.append(expected[frequent], expected[~frequent].sum())
    if predicted[-1] == 0:
        observed, predicted = observed[:-1], predicted[:-1]
    assert stats.chisquare(observed, predicted).pvalue > LEVEL


def test_samples_depend_on_the_seed_alone():
    density = random_density(2, 5, 1)
    np.testing.assert_array_equal(density.sample(9, random_state=3), density.sample(9, random_state=3))
    assert (density.sample(9, random_state=3) != density.sample(9, random_state=4)).any()
    generator = np.random.default_rng(0)
    assert (density.sample(9, generator) != density.sample(9, generator)).any()
    again = pickle.loads(pickle.dumps(density))
    np.testing.assert_array_equal(again.sample(4, 0), density.sample(4, 0))


def test_invalid_points_and_sizes_raise():
    density = random_density(2, 4, 0.1)
    with pytest.raises(ValueError, match=r"x must be points of shape \(n, 2\); got shape \(3,\)"):
        density.pdf([1, 2, 3])
    with pytest.raises(ValueError, match=r"x must be finite; got .*nan.* \(point 1\)"):
        density.pdf([[1, 2], [np.nan, 0]])
    with pytest.raises(ValueError, match="n must be an integer >= 1; got 0"):
        density.sample(0)
    assert density.n_dims == 2
    assert random_density(1, 4, 0.1).pdf([0.5, 1]).shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([2.0, 1], [0], [1]), r"the first must be 1; got shape \(2,\) and 2"),
        (([], [0], [1]), r"coefficients must have shape .* got shape \(0,\)"),
        (([[1.0, 0, 0]], [0, 0], [1, 1]), r"coefficients must have shape .* got shape \(1, 3\)"),
        (([1.0, np.nan], [0], [1]), "coefficients must be finite; got nan"),
        (([1.0, 0], [0], [np.inf]), "high must be finite; got inf"),
        (([1.0, 0], [1], [1]), r"low < high; got \[1.\] and \[1.\]"),
        (([1.0, 0], [0, 0], [1, 1]), r"low and high must have shape \(1,\)"),
        (([1.0, 0], 0, 1), r"low and high must have shape \(1,\)"),
        ((["a", "b"], [0], [1]), "coefficients must contain real numbers"),
    ],
)
def test_invalid_series_and_boxes_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        dk.PredictedDensity(*arguments)


def test_lists_are_accepted():
    np.testing.assert_allclose(dk.PredictedDensity([1, 0], [0], [2]).pdf([0, 1, 2, 3]), [0.5, 0.5, 0.5, 0])
