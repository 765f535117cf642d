"""Sets that pictures are drawn of."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def bags():
    """Thirty sets in the plane, of three kinds in turn."""
    rng = np.random.default_rng(0)
    return [rng.normal([2 * (i % 3), 0], 1, (40, 2)) for i in range(30)]
