"""The package works without any optional dependency."""

from __future__ import annotations

import subprocess
import sys

# Dask requires fsspec, and scikit-learn narwhals.
PROGRAM = """
import sys, tempfile

EXTRAS = "pyarrow pandas polars matplotlib anndata laspy ot rapidfuzz faiss shtab obstore s3fs bokeh torch".split()
EXTRAS += "h5py uproot flowutils".split()

class Hidden:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *args):
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, *args)

    def __getattr__(self, name):
        return getattr(self.finder, name)

sys.meta_path[:] = map(Hidden, sys.meta_path)
import numpy as np
import dkdist as dk
from dkdist.cli import main

missing = [name for name in dk.__all__ if name != "plot" and getattr(dk, name, None) is None]
assert not missing, missing
rng, y = np.random.default_rng(0), np.arange(40) % 2
path = tempfile.mkdtemp() + "/sets.zarr"
dk.write_sets(path, [rng.normal(label, 1, (20, 2)) for label in y], targets=y)
assert main(["info", path]) == 0
store = dk.open_sets(path)
assert dk.SetClassifier(random_state=0).fit(store, y).score(store, y) > 0.5
"""


def test_package_works_without_optional_dependencies() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
