"""How long a fit takes, from what each of its stages takes of a processor: plain arithmetic.

Sets are read, looked at and embedded on all cores. Of SGD with one lane, steps come one after another, while other
cores make what comes next:

    a pass = max(what is taken one after another, all of it over the cores)

Cores share memory, the interpreter and a queue, so that two of them do 1.75 times what one does (`python
benchmarks/roofline.py road`); each further one is taken to add as much as the second.
Rows that are kept are read and embedded in the first pass alone. Sums of a ridge regression are made on all cores. Its
equations are as many as there are features, or sets where these are fewer; they are solved on one core, and where they
are many by BLAS on all of them.
"""

from __future__ import annotations

from typing import NamedTuple

from dkdist.linear.ridge.ridge_pass import FEW_COLUMNS

FURTHER = 0.75  # of what the first core does, each other does


class StageRates(NamedTuple):
    """Seconds of one processor: to start, to read and look at a point, and of the next three for a set.

    ``features`` and ``learn`` are apart where features are blocks of their own, else ``learn`` makes them, too. Solving
    n equations takes n^2 times ``squares``, for what is done with factors, and n^3 times ``solve``, to find them.
    """

    start: float
    read: float
    look: float
    embed: float
    features: float
    learn: float
    squares: float
    solve: float


class FitSizes(NamedTuple):
    """How often that happens: ``sampled`` sets are embedded for the median distance of rows."""

    n_sets: int
    n_points: int
    passes: int
    sampled: int
    n_features: int
    cores: int
    in_order: bool
    kept: bool


def stage_seconds(rates: StageRates, sizes: FitSizes) -> dict[str, float]:
    """Seconds on the clock to look at the points, choose from them, fit, and solve; and of all together."""
    read, at_work = rates.read * sizes.n_points, 1 + FURTHER * (sizes.cores - 1)
    made = read + rates.embed * sizes.n_sets
    unknowns = sizes.n_features if sizes.in_order else min(sizes.n_features, sizes.n_sets)
    features = rates.features * sizes.n_sets
    learn = rates.learn * sizes.n_sets * unknowns / sizes.n_features

    def a_pass(before: float) -> float:
        least = (before + features + learn) / at_work
        return max(learn, least) if sizes.in_order else least

    solving = 1 if unknowns <= FEW_COLUMNS else at_work
    later = a_pass(0.0 if sizes.kept else made)
    share = sizes.sampled / max(1, sizes.n_sets)
    found = {
        "look": (read + rates.look * sizes.n_points) / at_work,
        "choose": rates.start + share * made / at_work,
        "fit": a_pass(made) + (sizes.passes - 1) * later,
        "solve": (rates.squares * unknowns**2 + rates.solve * unknowns**3) / solving,
    }
    return found | {"all": sum(found.values())}
