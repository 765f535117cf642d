"""Warnings point to the line of the user's code."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._utils.validation import find_stacklevel

COARSE = [(1e8 + 100 * np.random.default_rng(i).random((20, 1))).astype(np.float32) for i in range(4)]


@pytest.mark.parametrize(
    "fit",
    [
        lambda: dk.MomentEmbedding().fit(COARSE),
        lambda: make_pipeline(dk.MomentEmbedding()).fit(COARSE),
        lambda: make_pipeline(dk.MomentEmbedding(), dk.RandomFourierFeatures(16)).fit_transform(COARSE),
    ],
)
def test_warnings_point_to_the_line_of_the_user(fit: Any) -> None:
    with pytest.warns(UserWarning, match="float32") as message:
        fit()
    assert {warning.filename for warning in message} == {__file__}


def test_stacklevel_in_a_thread() -> None:
    namespace: dict[str, Any] = {"__name__": "dkdist.some", "user_level": find_stacklevel, "found": []}
    exec("def work():\n    found.append(user_level())", namespace)
    thread = threading.Thread(target=namespace["work"])
    thread.start()
    thread.join()
    assert namespace["found"] == [1]


def test_find_stacklevel_matches_warn() -> None:
    def warn_here() -> None:
        warnings.warn("here", stacklevel=find_stacklevel())

    with pytest.warns(UserWarning, match="here") as message:
        warn_here()
    assert message[0].filename == __file__
    assert find_stacklevel() == 1
