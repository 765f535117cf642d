"""Spatial order of strata: halves are separated by a median cut."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.coresets._coreset_numba import spatial_order


def check_halves(x, order, leaf):
    if len(order) <= leaf:
        return
    region, half = x[order], len(order) // 2
    j = int(np.argmax(region.max(axis=0) - region.min(axis=0)))
    assert region[:half, j].max() <= region[half:, j].min()
    check_halves(x, order[:half], leaf)
    check_halves(x, order[half:], leaf)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("leaf", [1, 7])
def test_spatial_order_halves_regions_along_widest_side(d, leaf):
    rng = np.random.default_rng(d)
    equal = np.zeros((64, d))
    for x in (
        rng.normal(size=(501, d)),
        rng.integers(0, 4, (300, d)),
        equal,
        np.sort(rng.random((200, d)), axis=0),
    ):
        x = x.astype(np.float32)
        order = spatial_order(x, leaf)
        np.testing.assert_array_equal(np.sort(order), np.arange(len(x)))
        check_halves(x, order, leaf)
    assert len(spatial_order(np.zeros((0, d), np.float32))) == 0
