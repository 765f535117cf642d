"""`two_sample_power`: the power of two-sample tests by sample size, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from dkdist._base.parameter_checks import draw_seed, positive, whole
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import require_same_names
from dkdist.kernels.inputs import as_points
from dkdist.two_sample.two_sample_test import two_sample_test

COVERAGE = 0.95

Draw = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True)
class TwoSamplePower:
    """Result of `two_sample_power`: for each of ``sizes`` the fraction of tests that reject, and its 95 % confidence
    interval from ``low`` to ``high`` (Clopper, Pearson)."""

    sizes: I64
    power: F64
    low: F64
    high: F64

    def size_for(self, power: float = 0.8) -> int:
        """The smallest size from which on all powers are at least ``power``; ValueError if there is none."""
        enough = np.minimum.accumulate(self.power[::-1])[::-1] >= power
        if not enough.any():
            raise ValueError(
                f"no size reached a power of {power:g}: the most was {self.power.max():.2f}. Try larger sizes"
            )
        return int(self.sizes[int(np.argmax(enough))])


def two_sample_power(
    P: Any,
    Q: Any,
    sizes: Sequence[int],
    *,
    level: float = 0.05,
    n_repetitions: int = 200,
    n_permutations: int = 199,
    random_state: Any = None,
    **test: Any,
) -> TwoSamplePower:
    """Estimate the power of `two_sample_test` for several sample sizes by simulation, to plan a study.

    Parameters
    ----------
    P, Q : (n, d) array or function
        Pilot samples, or functions ``draw(n, rng)`` that return (n, d) points from a NumPy generator.
    sizes : sequence of int
        Numbers of points of each sample, 2 or more; of a pilot sample at most as many as it has.
    level : float, default=0.05
        p-values up to it reject.
    n_repetitions : int, default=200
        Tests of each size.
    n_permutations : int, default=199
        Of each test; (1 + n_permutations) times the level should be a whole number.
    random_state : int, Generator or None, default=None
        Seed of samples and tests.
    **test
        Other arguments of `two_sample_test`, such as ``sigma``.

    Returns
    -------
    TwoSamplePower
        ``sizes`` in rising order, ``power``, ``low``, ``high``; ``size_for(power)``.

    Raises
    ------
    ValueError
        As `two_sample_test`; for sizes beyond a pilot sample, and draws of another shape.

    Notes
    -----
    Points of a pilot are drawn without replacement, so that the power has no bias at any size. Tests of sizes near that
    of the pilot share points; the interval then is that of the power for parts of this pilot. Nothing is extrapolated.
    Cost: n_repetitions tests for each size.

    Examples
    --------
    >>> import dkdist as dk
    >>> reference = lambda n, rng: rng.normal(0, 1, (n, 1))
    >>> shifted = lambda n, rng: rng.normal(1, 1, (n, 1))
    >>> dk.two_sample_power(reference, shifted, [10, 50], n_repetitions=40, random_state=0).size_for(0.8)
    50
    """
    level, repetitions = positive("level", level), whole("n_repetitions", n_repetitions)
    whole("n_permutations", n_permutations)
    if not 1 / (1 + n_permutations) <= level < 1:
        raise ValueError(
            f"level must be from 1 / (1 + n_permutations) = {1 / (1 + n_permutations):.3g}, the least p-value, to "
            f"below 1; found {level:g}: give more permutations"
        )
    ordered = sorted(whole("sizes", size, least=2) for size in np.ravel(np.asarray(sizes, object)))
    if not ordered:
        raise ValueError("sizes is empty: give the numbers of points to try")
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
    interval = [binomtest(count, repetitions).proportion_ci(COVERAGE) for count in counts]
    low, high = np.transpose([(ci.low, ci.high) for ci in interval])
    return TwoSamplePower(np.array(ordered), np.array(counts) / repetitions, low, high)


def _draw(name: str, value: Any, largest: int) -> Draw:
    """The function that draws points: the given one, or one that takes some of a pilot sample."""
    if callable(value):

        def draw(n: int, rng: np.random.Generator) -> Any:
            points = value(n, rng)
            size = len(as_points(f"what {name} draws", points))
            if size != n:
                raise ValueError(f"{name} was asked for {n} points and drew {size}")
            return points  # a data frame keeps the names of its columns

        return draw
    pilot = as_points(name, value, ", or a function draw(n, rng) of such points")
    if largest > len(pilot):
        raise ValueError(
            f"sizes go up to {largest} and {name} has {len(pilot)} points. Give smaller sizes, or a function to draw"
        )
    return lambda n, rng: pilot[rng.choice(len(pilot), n, replace=False)]
