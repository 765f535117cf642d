"""Functions of points in memory import neither stores nor Dask, and few modules, in new processes."""

import subprocess
import sys

import pytest

PRINT_MODULES = """
files = [m for n, m in sys.modules.items() if n.startswith("dkdist.") and not m.__file__.endswith("__init__.py")]
print(len(files), *(name for name in ("zarr", "dask", "distributed", "sklearn") if name in sys.modules))
"""
SETS = "import numpy as np; x = np.random.default_rng(0).random((40, 2)); y = x[::-1] + 0.1\n"
CALLS = {
    "dkdist.align(x, y, sigma=0.3)": 35,
    "dkdist.align(x, y, sigma=0.5, guarantee=0.1, random_state=0)": 62,
    "dkdist.kernel_distance(x, y, sigma=0.3)": 35,
    "dkdist.kernel_distance(np.tile(x, (60, 1)), y, sigma=0.3)": 35,
    "dkdist.two_sample_test(x, y)": 60,
    "dkdist.coreset(x, 9, sigma='median')": 60,
}


@pytest.mark.parametrize("call", CALLS)
def test_points_in_memory_import_few_modules(call):
    code = f"import sys, dkdist\n{SETS}{call}\n{PRINT_MODULES}"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    count, *others = result.stdout.split()
    assert int(count) <= CALLS[call]
    assert not others
