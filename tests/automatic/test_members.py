"""Ensemble members compared with their formulas, and path gradients with differences of values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dkdist.auto.ensemble import KernelMember, LinearMember, Member
from dkdist.auto.explanations import MachineTerm
from dkdist.auto.representation_rows import RowKernel
from dkdist.auto.set_learner import check_weights
from dkdist.linear.feature_trees import Node

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
IMAGES = tuple(RNG.normal(size=(2, 5, 4)).astype(np.float32))
DUALS, CENTRE = RNG.normal(size=(5, 2)), RNG.normal(size=4)
W, B = RNG.normal(size=(2, 4)), RNG.normal(size=2)
GAUSSIAN = KernelMember(0, RowKernel(1.7), IMAGES, DUALS, CENTRE, 0.3, B)
LINEAR_KERNEL = KernelMember(0, RowKernel(None, 2.5), IMAGES[:1], DUALS, CENTRE, 0.3, B)
LINEAR = LinearMember(0, W, B, 0.3)


def kernel_values(member: KernelMember) -> np.ndarray:
    """share (k(x, a) duals + b), by the kernel that `test_row_kernels` checks."""
    K = member.kernel.of(X.astype(float), member.rows, CENTRE)
    return np.asarray(0.3 * (K @ DUALS + B))


def test_values_match_formulas() -> None:
    np.testing.assert_allclose(LINEAR.values(X), [0.3 * (W @ x + B) for x in X])
    for member in (GAUSSIAN, LINEAR_KERNEL):  # kernels in float32
        tolerance = 4 * 2.0**-24 * 0.3 * np.abs(DUALS).sum()
        np.testing.assert_allclose(member.values(X), kernel_values(member), rtol=0, atol=tolerance)
        assert member.values(X[:0]).shape == (0, 2)


@pytest.mark.parametrize("member", [GAUSSIAN, LINEAR_KERNEL, LINEAR])
def test_path_gradients_sum_to_differences_of_values(member: Member) -> None:
    """One start per output: the product of gradient and path is the difference of that output."""
    no_map: Any = SimpleNamespace()
    term, row, starts = MachineTerm(Node(no_map, (), 0), [member], 2), X[0], X[1:]
    result = term.gradient(row, starts)
    assert result is not None
    values = member.values(X)
    for j in range(2):
        path = row.astype(float) - starts[j]
        # kernels in float32: rounding of 6e-8 times the duals
        assert path @ result[:, j] == pytest.approx(values[0, j] - values[1 + j, j], abs=1e-6)


def test_check_weights_rejects_negative_and_all_zero_weights() -> None:
    np.testing.assert_array_equal(check_weights([0, 2, 1], 3), [0.0, 2.0, 1.0])
    with pytest.raises(ValueError, match=r"got -1\.0 \(set 1\)"):
        check_weights([0, -1, -2], 3)
    with pytest.raises(ValueError, match=r"got nan \(set 2\)"):
        check_weights([0, 1, np.nan], 3)
    with pytest.raises(ValueError, match="got only zeros"):
        check_weights([0, 0], 2)
