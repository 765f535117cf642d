"""Automatic models are available without the modules that only fits need, and later imports are the usual ones."""

import subprocess
import sys

HEAVY = "dask", "numba", "pandas", "scipy.stats", "sklearn.metrics", "zarr"


def output_of(code: str) -> str:
    command = [sys.executable, "-c", f"import sys, dkdist\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_classes_are_available_before_heavy_modules_are_imported() -> None:
    code = "dkdist.SetClassifier(); dkdist.SetRegressor()\n"
    assert output_of(f"{code}print(*(name for name in {HEAVY} if name in sys.modules))").split() == []


def test_deferred_modules_are_imported_as_usual_afterwards() -> None:
    code = """
dkdist.SetClassifier
import pandas, scipy.stats
from sklearn.utils import fixes
print(sys.modules["pandas"] is pandas, type(scipy.stats).__name__, scipy.stats.norm.cdf(0.0), fixes._mode([1, 1, 2])[0])
print(fixes.pd.DataFrame is pandas.DataFrame)
"""
    assert output_of(code).split() == ["True", "module", "0.5", "[1]", "True"]


def test_missing_pandas_stays_missing() -> None:
    code = """
sys.modules["pandas"] = None  # import raises ImportError
dkdist.SetClassifier
from sklearn.utils import fixes
print(fixes.pd)
"""
    assert output_of(code).split() == ["None"]
