"""Short descriptions of columns."""

import numpy as np
import pytest

from dkdist._utils.text import column_text, numbers_text, sizes_text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (np.array(["b", "a", "b"]), "text, 2 classes: a (1), b (2)"),
        (np.array([True, False]), "bool, 2 classes: False (1), True (1)"),
        (np.arange(1000), "int64, 1,000 distinct values, 0 to 999"),
        (np.zeros((4, 3)), "float64, 3 columns"),
        (np.zeros(0), "float64, none"),
        (np.array([None, "a", 1], object), "object, 3 values"),
        (np.array([0.25, 1e9]), "float64, 0.25 to 1e+09"),
    ],
)
def test_column_text(values, text):
    assert column_text(values) == text


def test_sizes_text_and_numbers_text():
    assert sizes_text(np.zeros(0, int)) == "none"
    assert sizes_text(np.array([2000, 1, 3])) == "1 to 2,000 (median 3)"
    assert numbers_text(np.arange(3.0)) == "0, 1, 2"
    assert numbers_text(np.arange(9.0)) == "0, 1, 2, 3, 4, 5, ..."
