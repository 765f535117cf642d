"""For tests and the examples of docstrings alike: pictures open no window, and none is left open."""

import os
import sys
from collections.abc import Iterator

import pytest

os.environ["MPLBACKEND"] = "Agg"


@pytest.fixture(autouse=True)
def pictures_closed() -> Iterator[None]:
    """Forget the figures that a test drew."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
