"""Golden cases of hypothesis tests, whose statistics and p-values are kept in an archive of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import dkdist as dk

from .harness import ALL_FORMS, IN_MEMORY, case, float64
from .inputs import LABELS, N_SETS, cloud

TESTS = "hypothesis_tests"
P, Q = cloud(0), cloud(1, 80, shift=0.4)
STATISTIC = float64(
    "kernel sums and ranks; p-values are counts of permutations", condition=1e3, by_entry=True
)


@case(STATISTIC, forms=IN_MEMORY, archive=TESTS)
def two_samples(inputs: Any) -> Mapping[str, Any]:
    del inputs
    results: dict[str, Any] = {}
    for name, samples, choices in (
        ("aggregated", (P, Q), {}),
        ("aggregated five", (cloud(2, n_dims=5), cloud(3, 80, 5, 0.3)), {}),
        ("equal", (cloud(4), cloud(5)), {}),
        ("one bandwidth", (P, Q), {"sigma": 0.7}),
        ("laplace", (P, Q), {"sigma": "median", "kernel": "laplace"}),
    ):
        test = dk.two_sample_test(*samples, n_permutations=199, random_state=0, **choices)
        results[name] = [test.statistic, test.p_value, test.sigma]
        results[f"{name} kernel"] = [test.kernel]
    return results


@case(STATISTIC, forms=IN_MEMORY, archive=TESTS)
def power_of_two_samples(inputs: Any) -> Mapping[str, Any]:
    del inputs
    power = dk.two_sample_power(P, Q, [10, 30], n_repetitions=20, n_permutations=39, random_state=0)
    return {"power": power.power, "low": power.low, "high": power.high}


@case(STATISTIC, forms=IN_MEMORY, archive=TESTS)
def adjusted(inputs: Any) -> Mapping[str, Any]:
    del inputs
    values = np.array([0.001, 0.2, 0.04, 0.03, 0.8])
    return {method: dk.adjusted_p_values(values, method) for method in ("holm", "benjamini-hochberg")}


@case(STATISTIC, forms=ALL_FORMS, archive=TESTS)
def groups_of_sets(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    results: dict[str, Any] = {}
    for name, choices in (("all", {}), ("blocks", {"blocks": np.arange(N_SETS) // 4})):
        test = dk.group_test(sets, LABELS, n_permutations=199, random_state=0, **choices)
        results[name] = [test.statistic, test.p_value]
        results[f"{name} statistics"] = list(test.statistics.values())
        results[f"{name} names"] = list(test.statistics)
    return results
