"""Selection of held-out rows, and number of blocks that are shuffled together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdist.linear.held_out import choose_held_out
from dkdist.linear.rows import n_blocks_to_shuffle


@settings(max_examples=40)
@given(st.integers(2, 300), st.floats(0.01, 0.9), st.integers(1, 5), st.integers(0, 2**40))
def test_held_out_rows_are_stratified(n: int, fraction: float, k: int, seed: int) -> None:
    groups = np.random.default_rng(seed).integers(0, k, n)
    sizes = np.bincount(groups)
    if sizes.max() < 2:
        return
    held = choose_held_out(n, fraction, (seed,), groups)
    assert held.any()
    assert (np.bincount(groups[~held], minlength=len(sizes))[sizes > 0] >= 1).all()
    shares = np.bincount(groups[held], minlength=len(sizes))
    assert (shares <= fraction * sizes + 1).all()
    assert (shares >= np.minimum(fraction * sizes, sizes - 1) - 1 - fraction).all()
    np.testing.assert_array_equal(held, choose_held_out(n, fraction, (seed,), groups))


def test_held_out_rows_depend_on_seed_and_are_spread() -> None:
    held = choose_held_out(10_000, 0.1, (3,))
    assert held.sum() == 1000
    assert not np.array_equal(held, choose_held_out(10_000, 0.1, (4,)))
    assert abs(np.flatnonzero(held).mean() - 5000) < 300
    assert not choose_held_out(10, 0.0, (3,)).any()


def test_no_held_out_rows_raises() -> None:
    with pytest.raises(ValueError, match=r"hold out at least 1 row; got .* of n_samples=2"):
        choose_held_out(2, 0.1, (0,), np.array([0, 1]))


def test_n_blocks_to_shuffle_depends_on_order() -> None:
    rng = np.random.default_rng(0)
    bounds = np.append(np.arange(0, 4000, 100), [4000, 4000])  # the last block is empty
    for y, k in ((rng.standard_normal(4000), 0), (rng.integers(0, 5, 4000), 5)):
        assert n_blocks_to_shuffle(y, bounds, k) == 1
        assert n_blocks_to_shuffle(np.sort(y), bounds, k) == 8
        half = y.copy()
        half[:2000].sort()
        assert 1 < n_blocks_to_shuffle(half, bounds, k) < 8
    assert n_blocks_to_shuffle(np.zeros(4000), bounds, 0) == 1
