"""Compiled functions give identical results whether they are compiled or loaded from the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import hashlib, numpy as np, dkdist as dk
from dkdist.linear.rows import RowLabels
from dkdist.linear.sgd_steps import Batch, Objective, State, step
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist._base.params import Domain
from dkdist.kernels.random_fourier_params import FourierSpec
rng = np.random.default_rng(0)
for d, n in ((1, 300), (2, 200)):
    sets = dk.SampleSets.from_arrays(list(rng.random((40, n, d)).astype("f4")))
    domain = Domain((0.0,) * d, (1.0,) * d, True)
    A = DivergenceSpec(domain, (0.08,) * d, "tensor", 6, (0.19, 0.63), (0.28, 0.05)).materialize().embed(sets)
    for method in ("structured", "iid"):
        Z = FourierSpec(A.shape[1], 500, 0.5, method, 0).materialize().transform(A)
        print(hashlib.md5(A.tobytes() + Z.tobytes()).hexdigest())
words = dk.SampleSets(rng.integers(0, 4, (3000, 1)).astype("u1"), np.arange(0, 3001, 30))
embedding = dk.DistanceEmbedding("levenshtein", n_components=70, lengths=(1, 20), random_state=0)
print(hashlib.md5(embedding.fit_transform(words[:20]).tobytes()).hexdigest())
objective = Objective("log_loss", 1e-4, 1.0, 2)
for writeable in (True, False):
    Z.flags.writeable = writeable
    batch = Batch(Z, RowLabels(np.arange(len(Z)) % 2, np.zeros(len(Z), bool)), np.arange(len(Z)), np.arange(0))
    print(hashlib.md5(step(objective, State.start(1, Z.shape[1], Z.dtype), batch).mean_coef.tobytes()).hexdigest())
"""


def output_of_script(cache: Path) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", SCRIPT]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def test_compiled_and_cached_functions_are_bit_identical(tmp_path: Path) -> None:
    compiled = output_of_script(tmp_path)
    *rows, writeable, read_only = compiled.split()
    assert len(rows) == 5
    assert writeable == read_only
    assert output_of_script(tmp_path) == compiled
    for index in tmp_path.rglob("*_tensor*.nbi"):  # recompile one function, but not the functions it calls
        index.unlink()
    assert output_of_script(tmp_path) == compiled
