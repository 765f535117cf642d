"""`two_sample_power`: the power of two-sample tests by sample size, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from dkdist._base.parameter_checks import RandomStateLike, check_int, check_positive, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import require_same_names
from dkdist.kernels.inputs import PointsLike, as_points
from dkdist.two_sample.two_sample_test import two_sample_test

CONFIDENCE_LEVEL = 0.95  # level of the Clopper-Pearson confidence intervals (1934)

Draw = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True)
class TwoSamplePower:
    """Result of `two_sample_power`.

    For each of ``sizes``, ``power`` is the fraction of tests that reject, and ``low`` to ``high`` its 95 % confidence
    interval (Clopper, Pearson).
    """

    sizes: I64
    power: F64
    low: F64
    high: F64

    def size_for(self, power: float = 0.8) -> int:
        """Return the smallest size such that it and all larger sizes have this ``power``; ValueError if none."""
        suffices = np.minimum.accumulate(self.power[::-1])[::-1] >= power
        if not suffices.any():
            raise ValueError(
                f"no size reached a power of {power:g}; the maximum is {self.power.max():.2f}. Try larger sizes."
            )
        return int(self.sizes[int(np.argmax(suffices))])


def two_sample_power(
    P: PointsLike,
    Q: PointsLike,
    sizes: Sequence[int],
    *,
    level: float = 0.05,
    n_repetitions: int = 200,
    n_permutations: int = 199,
    random_state: RandomStateLike = None,
    **test: Any,
) -> TwoSamplePower:
    """Estimate the power of `two_sample_test` by simulation, for several sample sizes.

    Parameters
    ----------
    P, Q : (n, d) array or function
        Pilot samples, or functions ``draw(n, rng)`` that return (n, d) points from a NumPy generator.
    sizes : sequence of int
        Numbers of points of each sample, at least 2, and at most the size of a pilot sample.
    level : float, default=0.05
        Significance level; tests with p-values up to this level reject.
    n_repetitions : int, default=200
        Number of tests of each size.
    n_permutations : int, default=199
        Number of permutations of each test; (1 + n_permutations) times the level should be a whole number.
    random_state : int, Generator or None, default=None
        Seed of samples and tests.
    **test
        Other arguments of `two_sample_test`, such as ``sigma``.

    Returns
    -------
    TwoSamplePower
        ``sizes`` in ascending order, ``power``, ``low``, ``high``; ``size_for(power)``.

    Raises
    ------
    ValueError
        As in `two_sample_test`; for sizes beyond a pilot sample, and functions that return a wrong number of points.

    Notes
    -----
    Points of a pilot sample are drawn without replacement, so that the power is unbiased at any size. Tests of sizes
    near that of the pilot share points; the interval is then for the power on subsets of this pilot sample. Cost:
    n_repetitions tests for each size.

    Examples
    --------
    >>> import dkdist as dk
    >>> reference = lambda n, rng: rng.normal(0, 1, (n, 1))
    >>> shifted = lambda n, rng: rng.normal(1, 1, (n, 1))
    >>> dk.two_sample_power(reference, shifted, [10, 50], n_repetitions=40, random_state=0).size_for(0.8)
    50
    """
    level, repetitions = check_positive("level", level), check_int("n_repetitions", n_repetitions)
    check_int("n_permutations", n_permutations)
    if not 1 / (1 + n_permutations) <= level < 1:
        raise ValueError(
            f"level must be at least 1 / (1 + n_permutations) = {1 / (1 + n_permutations):.3g}, the smallest p-value, "
            f"and below 1; got {level:g}. Increase n_permutations."
        )
    ordered = sorted(check_int("sizes", size, minimum=2) for size in np.ravel(np.asarray(sizes, object)))
    if not ordered:
        raise ValueError("sizes must contain at least one number of points; got an empty sequence.")
    samples = {"P": P, "Q": Q}
    require_same_names(**{name: value for name, value in samples.items() if not callable(value)})
    draws = [_draw(name, value, ordered[-1]) for name, value in samples.items()]
    seed, counts = draw_seed(random_state), []
    for size in ordered:
        p_values = []
        for i in range(repetitions):
            rng = np.random.default_rng([seed, RngStream.PERMUTATIONS, size, i])
            points = [draw(size, rng) for draw in draws]
            result = two_sample_test(*points, n_permutations=n_permutations, random_state=rng, **test)
            p_values.append(result.p_value)
        counts.append(int((np.array(p_values) <= level).sum()))
    interval = [binomtest(count, repetitions).proportion_ci(CONFIDENCE_LEVEL) for count in counts]
    low, high = np.transpose([(ci.low, ci.high) for ci in interval])
    return TwoSamplePower(np.array(ordered), np.array(counts) / repetitions, low, high)


def _draw(name: str, value: Any, largest: int) -> Draw:
    """Return a function that draws points: the user's function, or a sampler of a pilot sample."""
    if callable(value):

        def draw(n: int, rng: np.random.Generator) -> Any:
            points = value(n, rng)
            size = len(as_points(f"the result of {name}", points))
            if size != n:
                raise ValueError(f"{name}(n, rng) must return {n} points; got {size}.")
            return points  # data frames keep their column names

        return draw
    pilot = as_points(name, value, ", or a function draw(n, rng) of such points")
    if largest > len(pilot):
        raise ValueError(
            f"sizes must be at most {len(pilot)}, the number of points of {name}; got {largest}. Use smaller sizes, or "
            "a function that draws points."
        )
    return lambda n, rng: pilot[rng.choice(len(pilot), n, replace=False)]
