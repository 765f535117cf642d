"""Parameters of the candidates for a collection of sets."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.auto.point_order import serial_correlation
from dkdist.auto.representations import Representation, is_text, representations


def family_representations(sets: dk.SampleSets, family: str, ordered: bool = False) -> list[Representation]:
    entries, _ = representations(sets, None, 0, ordered)
    return [entry for entry in entries if entry.family == family]


def sets_of(*shape: int) -> dk.SampleSets:
    return dk.SampleSets.from_arrays(np.random.default_rng(0).normal(size=shape))


@pytest.mark.parametrize("d", [1, 4])
def test_kernel_mean_bandwidths_follow_the_dimension(d: int) -> None:
    """Standardised points of d dimensions have norms of about sqrt(d)."""
    result = [entry.embedding.sigma for entry in family_representations(sets_of(5, 8, d), "kernel-mean")]  # type: ignore[union-attr]
    np.testing.assert_allclose(result, [np.sqrt(d) / 2, np.sqrt(d), 2 * np.sqrt(d)])


def test_serial_correlation_of_neighbours_within_sets() -> None:
    """Sum of products of neighbours over sum of squares: -1/2 for (1, -1), (1 - 1 + 1) / 4 for (1, 1, -1, -1)."""
    assert serial_correlation(dk.SampleSets.from_arrays([[[1.0], [-1.0]]] * 3)) == pytest.approx(-0.5)
    runs = dk.SampleSets.from_arrays([[[4.0], [4.0], [2.0], [2.0]], [[1.0], [1.0], [-1.0], [-1.0]]])
    assert serial_correlation(runs) == pytest.approx(0.25)


def test_time_warping_is_a_candidate_only_for_series() -> None:
    steps = sets_of(6, 60, 1)
    walks = dk.SampleSets.from_arrays(
        [np.cumsum(x, axis=0) for x in np.asarray(steps.relative).reshape(6, 60, 1)]
    )
    assert serial_correlation(walks) > 0.3 > serial_correlation(steps)
    assert len(family_representations(walks, "dtw", True)) == 2
    assert not family_representations(steps, "dtw", False)
    assert not is_text(steps)


@pytest.mark.parametrize(("d", "names"), [(128, ["means", "moments"]), (129, ["means"])])
def test_moments_are_candidates_up_to_128_dimensions(d: int, names: list[str]) -> None:
    sets = sets_of(4, 3, d)
    result = [name for name in ("means", "moments") for _ in family_representations(sets, name)]
    assert result == names
