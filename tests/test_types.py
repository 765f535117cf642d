"""Type checkers infer the results of public functions."""

from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = """
from typing import assert_type
import dask.array as da
import numpy as np
from numpy.typing import NDArray
import dkdist as dk
from dkdist.io import SetStore

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
sets, store, x = [np.zeros((3, 2))], dk.open_sets("a"), np.zeros((3, 2))
embedding, features = dk.DivergenceEmbedding(), dk.RandomFourierFeatures(10)
model = dk.SetClassifier()
assert_type(store, SetStore)
assert_type(embedding.transform(sets), F32)
assert_type(embedding.fit_transform(store), da.Array)
assert_type(features.transform(x), F32)
assert_type(features.fit_transform(embedding.transform(store)), da.Array)
assert_type(dk.distance_matrix(sets), F64)
assert_type(dk.divergence_matrix(store, "kl"), F64)
assert_type(dk.kernel_distance(x, x), float)
assert_type(dk.explain(embedding, sets), list[F64])
assert_type(model.explain(sets, by="dimension"), F64)
assert_type(model.explain(store, at=x), F64)
assert_type(dk.open_features("a"), da.Array)
"""


def test_results_have_inferred_types(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is missing: pip install 'dkdist[dev]'")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    text, errors, status = api.run([str(program)])
    assert (status, errors) == (0, ""), text
