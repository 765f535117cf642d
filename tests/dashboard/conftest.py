"""A store of many small blocks for tests of the dashboard."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dashboard.models import BLOCK_SETS, N_SETS


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    rng = np.random.default_rng(0)
    y = np.arange(N_SETS) % 2
    sets = [rng.normal(0.45 + 0.1 * c, 0.2, (20, 2)) for c in y]
    path = tmp_path_factory.mktemp("dashboard") / "bags.zarr"
    dk.write_sets(path, sets, targets=y)
    return path


@pytest.fixture(scope="session")
def sets(store):
    return dk.open_sets(store, block_sets=BLOCK_SETS)
