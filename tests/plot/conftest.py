"""Sets for tests of plots."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def bags():
    """Return thirty sets in the plane, of three alternating kinds."""
    rng = np.random.default_rng(0)
    return [rng.normal([2 * (i % 3), 0], 1, (40, 2)) for i in range(30)]
