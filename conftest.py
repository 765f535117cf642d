"""For tests and the examples of docstrings alike: pictures open no window, and none is left open.

Workers of ``pytest -n`` share the cores: BLAS has one thread in each of them and in the processes that their tests
start, or threads that wait for each other take a fifth of the time. Tests of several BLAS threads ask for them.
"""

import os
import sys
from collections.abc import Iterator

import pytest

os.environ["MPLBACKEND"] = "Agg"


def pytest_configure(config: pytest.Config) -> None:
    """Before any worker starts, or a library is loaded."""
    if getattr(config.option, "numprocesses", None):
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def pictures_closed() -> Iterator[None]:
    """Forget the figures that a test drew."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
