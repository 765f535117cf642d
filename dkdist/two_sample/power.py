"""`two_sample_power`, `group_test_power`: the power of tests by sample size, by simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from dkdist._base.parameter_checks import RandomStateLike, check_int, check_positive, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import require_same_names
from dkdist.kernels.inputs import PointsLike, as_points
from dkdist.two_sample.group_test import group_test
from dkdist.two_sample.two_sample_test import two_sample_test

CONFIDENCE_LEVEL = 0.95  # level of the Clopper-Pearson confidence intervals (1934)

Draw = Callable[[int, np.random.Generator], Any]


@dataclass(frozen=True)
class PowerCurve:
    """Result of `two_sample_power` and `group_test_power`.

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
) -> PowerCurve:
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
    PowerCurve
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
    ordered = _check_sizes(sizes, level, n_permutations, "points")
    samples = {"P": P, "Q": Q}
    require_same_names(**{name: value for name, value in samples.items() if not callable(value)})
    draws = [_draw(name, value, ordered[-1]) for name, value in samples.items()]

    def p_value(size: int, rng: np.random.Generator) -> float:
        points = [draw(size, rng) for draw in draws]
        return two_sample_test(*points, n_permutations=n_permutations, random_state=rng, **test).p_value

    return _simulate(p_value, ordered, level, n_repetitions, random_state)


def group_test_power(
    draw: Callable[[int, np.random.Generator], Mapping[str, Any]],
    sizes: Sequence[int],
    *,
    level: float = 0.05,
    n_repetitions: int = 200,
    n_permutations: int = 199,
    random_state: RandomStateLike = None,
    **test: Any,
) -> PowerCurve:
    """Estimate the power of `group_test` by simulation, for several numbers of sets.

    Parameters
    ----------
    draw : function
        ``draw(n, rng)`` returns a simulated study of size n, drawn with a NumPy generator, as a dict of arguments of
        `group_test`: "sets", "groups", and "blocks" if any. n may be the number of sets per group, or of donors.
    sizes : sequence of int
        Values of n, at least 2.
    level : float, default=0.05
        Significance level; tests with p-values up to this level reject.
    n_repetitions : int, default=200
        Number of studies of each size.
    n_permutations : int, default=199
        Number of permutations of each test; (1 + n_permutations) times the level should be a whole number.
    random_state : int, Generator or None, default=None
        Seed of studies and tests.
    **test
        Other arguments of `group_test`, the same for all studies, such as ``statistic``, ``adjust`` or ``contrast``.

    Returns
    -------
    PowerCurve
        ``sizes`` in ascending order, ``power``, ``low``, ``high``; ``size_for(power)``.

    Raises
    ------
    ValueError
        As in `group_test`, and for functions that do not return such a dict.

    Notes
    -----
    Plan with the smallest effect that matters, and with sets of a pilot study for the variation between sets: draw all
    groups from the same pilot sets, with replacement, and add the effect to one group, as in the example. Without an
    effect, the test then rejects at most at its level, because copies of a set are as likely in each group.

    Do not draw each group from its own group of a pilot. This takes the observed difference as the true one, with its
    error: from pilots of ten sets per group without any difference, 0.45 of the tests of ten sets per group reject, and
    0.99 of those of 40 (benchmarks/studies_groups.py). Draw whole donors with all their sets, and give each drawn
    donor its own label in "blocks".

    Cost: n_repetitions tests for each size, some 20 ms each for 20 small sets.

    Examples
    --------
    How many donors per group detect a shift by half a standard deviation of the cells?

    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> pilot = dk.SampleSets.from_arrays([rng.normal(rng.normal(0, 0.3), 1, (50, 1)) for _ in range(20)])
    >>> def study(n, rng):
    ...     sets, ill = pilot[rng.integers(len(pilot), size=2 * n)], np.arange(2 * n) % 2
    ...     return {"sets": [x + 0.5 * i for x, i in zip(sets, ill)], "groups": ill}
    >>> curve = dk.group_test_power(study, [4, 16], n_repetitions=40, n_permutations=99, random_state=0)
    >>> curve.size_for(0.8)
    16
    """
    if not callable(draw):
        raise ValueError(f"draw must be a function draw(n, rng) that returns a study; got {draw!r:.200}.")
    ordered = _check_sizes(sizes, level, n_permutations, "sets")

    def p_value(size: int, rng: np.random.Generator) -> float:
        study = draw(size, rng)
        if not isinstance(study, Mapping) or not {"sets", "groups"} <= study.keys():
            keys = list(study) if isinstance(study, Mapping) else type(study).__name__
            raise ValueError(
                f"draw(n, rng) must return a dict of arguments of group_test, with 'sets' and 'groups'; got {keys}."
            )
        return group_test(**study, n_permutations=n_permutations, random_state=rng, **test).p_value

    return _simulate(p_value, ordered, level, n_repetitions, random_state)


def _check_sizes(sizes: Sequence[int], level: float, n_permutations: int, unit: str) -> list[int]:
    """Return sizes in ascending order; ValueError for invalid ones, and levels that no test can reach."""
    check_positive("level", level)
    check_int("n_permutations", n_permutations)
    if not 1 / (1 + n_permutations) <= level < 1:
        raise ValueError(
            f"level must be at least 1 / (1 + n_permutations) = {1 / (1 + n_permutations):.3g}, the smallest p-value, "
            f"and below 1; got {level:g}. Increase n_permutations."
        )
    ordered = sorted(check_int("sizes", size, minimum=2) for size in np.ravel(np.asarray(sizes, object)))
    if not ordered:
        raise ValueError(f"sizes must contain at least one number of {unit}; got an empty sequence.")
    return ordered


def _simulate(
    p_value: Callable[[int, np.random.Generator], float],
    sizes: Sequence[int],
    level: float,
    n_repetitions: int,
    random_state: RandomStateLike,
) -> PowerCurve:
    """Return the fractions of p-values of simulated tests up to ``level``, for each size."""
    repetitions, seed = check_int("n_repetitions", n_repetitions), draw_seed(random_state)
    counts = []
    for size in sizes:
        rngs = [np.random.default_rng([seed, RngStream.PERMUTATIONS, size, i]) for i in range(repetitions)]
        counts.append(sum(p_value(size, rng) <= level for rng in rngs))
    interval = [binomtest(count, repetitions).proportion_ci(CONFIDENCE_LEVEL) for count in counts]
    low, high = np.transpose([(ci.low, ci.high) for ci in interval])
    return PowerCurve(np.array(sizes), np.array(counts) / repetitions, low, high)


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
