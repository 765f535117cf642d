"""`two_sample_power`: how many points a two-sample test needs, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from dkdist.base.parameter_checks import draw_seed, positive, whole
from dkdist.base.roles import Role
from dkdist.kernel.distance.point_inputs import points_of
from dkdist.loops.array_types import F64, I64
from dkdist.plain.real_arrays import require_same_names
from dkdist.two_sample.two_sample_test import two_sample_test

COVERAGE = 0.95

Draw = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True)
class TwoSamplePower:
    """What `two_sample_power` found: for each of ``sizes`` the share of tests that rejected, and an interval of it.

    ``low`` and ``high`` contain the power of a size with a probability of at least 95 % (Clopper, Pearson).
    """

    sizes: I64
    power: F64
    low: F64
    high: F64

    def size_for(self, power: float = 0.8) -> int:
        """The least size from which on all powers found are as large; ValueError if there is none."""
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
    """The power of `two_sample_test` by the number of points of each sample, by simulation: how large a study must be.

    Parameters
    ----------
    P, Q : (n, d) array or function
        Pilot samples; or what draws them, ``draw(n, rng)`` for (n, d) points from a NumPy generator, such as a model of
        what is expected.
    sizes : sequence of int
        Numbers of points of each sample, 2 or more. Of a pilot sample at most as many as it has.
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
        As `two_sample_test`; for sizes beyond a pilot sample, and what is drawn in another shape.

    Notes
    -----
    Points of a pilot are drawn without repetition: a part of a sample is a sample, so that the power found has no bias,
    at any size up to that of the pilot. (Tests of sizes near it share their points, so that the interval then is that
    of the power for parts of this pilot.) With repetition, pilots of one distribution would differ at sizes large
    enough, and every study would seem to need few points; nothing is extrapolated for the same reason. Beyond the pilot
    give functions. Cost: n_repetitions tests for each size.

    Examples
    --------
    >>> import dkdist as dk
    >>> still = lambda n, rng: rng.normal(0, 1, (n, 1))
    >>> moved = lambda n, rng: rng.normal(1, 1, (n, 1))
    >>> found = dk.two_sample_power(still, moved, [10, 50], n_repetitions=40, random_state=0)
    >>> found.size_for(0.8)
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
    require_same_names(**{name: value for name, value in (("P", P), ("Q", Q)) if not callable(value)})
    draws = [_draw(name, value, ordered[-1]) for name, value in (("P", P), ("Q", Q))]
    seed, counts = draw_seed(random_state), []
    for size in ordered:
        rejected = 0
        for i in range(repetitions):
            rng = np.random.default_rng([seed, Role.PERMUTATIONS, size, i])
            x, y = (draw(size, rng) for draw in draws)
            found = two_sample_test(x, y, n_permutations=n_permutations, random_state=rng, **test)
            rejected += found.p_value <= level
        counts.append(rejected)
    hits, tail = np.array(counts), (1 - COVERAGE) / 2
    low = np.where(hits > 0, beta.ppf(tail, hits, repetitions - hits + 1), 0.0)
    high = np.where(hits < repetitions, beta.ppf(1 - tail, hits + 1, repetitions - hits), 1.0)
    return TwoSamplePower(np.array(ordered), hits / repetitions, low, high)


def _draw(name: str, value: Any, largest: int) -> Draw:
    """What draws points: a function that is given, or one that takes some of a pilot sample."""
    if callable(value):

        def drawn(n: int, rng: np.random.Generator) -> Any:
            points = value(n, rng)
            size = len(points_of(f"what {name} draws", points))
            if size != n:
                raise ValueError(f"{name} was asked for {n} points and drew {size}")
            return points  # a data frame keeps the names of its columns

        return drawn
    pilot = points_of(name, value, ", or a function draw(n, rng) of such points")
    if largest > len(pilot):
        raise ValueError(
            f"sizes go up to {largest} and {name} has {len(pilot)} points: what more points would show is not in them. "
            "Give smaller sizes, or a function that draws points"
        )
    return lambda n, rng: pilot[rng.choice(len(pilot), n, replace=False)]
