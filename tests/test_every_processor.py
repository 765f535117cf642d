"""Run numerical tests with the kernels of other processors.

OpenBLAS, Numba and NumPy select code for the processor, and environment variables override the selection. The long
form (`make processors`) runs all numerical folders; the short form runs some tests that found differences.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (
    "loops",
    "learners",
    "base",
    "densities",
    "moments",
    "distances",
    "pairs",
    "kernel",
    "explaining",
    "inspection",
    "theory",
    "linear",
    "files",
)
SETTINGS = (
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "SkylakeX"},
    {"OPENBLAS_CORETYPE": "Zen"},
    {"NUMBA_CPU_NAME": "generic"},
)
USES = {"Haswell": "AVX2", "SkylakeX": "AVX512F", "Zen": "AVX2"}  # instruction sets of the kernels
KERNELS = """
import numpy, threadpoolctl
print(*(pool.get("architecture") for pool in threadpoolctl.threadpool_info()))
print(*(name for name, has_feature in numpy._core._multiarray_umath.__cpu_features__.items() if has_feature))
"""

BLAS_TESTS = (
    "tests/loops/test_products.py::test_rows_of_any_scale_and_nonfinite_rows",
    "tests/loops/test_products.py::test_integers_are_exact_and_floats_are_accurate",
    "tests/pairs/test_pseudo_euclidean.py",
    "tests/pairs/test_psd.py",
    "tests/learners",
)
COMPILED_TESTS = ("tests/loops/test_elementary.py", "tests/loops/test_finite.py")


def name(setting: dict[str, str]) -> str:
    return "-".join(setting.values())


def run(tests: tuple[str, ...], setting: dict[str, str]) -> None:
    """Run tests in a process with these kernels; skip if this machine does not support them."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment = {**inherited, **setting}
    if core := setting.get("OPENBLAS_CORETYPE"):
        selected, instructions = output([sys.executable, "-c", KERNELS], environment).stdout.splitlines()
        if core not in selected:
            pytest.skip(f"requested {core} kernels; the BLAS uses {selected or 'others'}")
        if USES[core] not in instructions.split():
            pytest.skip(f"{core} kernels need {USES[core]} instructions, which this processor lacks")
    result = output([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests], environment)
    assert result.returncode == 0, f"with {setting}:\n{result.stdout}"


def output(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.parametrize("setting", SETTINGS[:2], ids=name)
def test_products_and_solutions_with_other_blas_kernels(setting: dict[str, str]) -> None:
    if any(pool.get("architecture") in setting.values() for pool in threadpool_info()):
        pytest.skip("all tests run with these kernels on this machine")
    run(BLAS_TESTS, setting)


def test_compiled_functions_for_a_generic_cpu() -> None:
    run(COMPILED_TESTS, {"NUMBA_CPU_NAME": "generic"})


@pytest.mark.processors
@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_numerical_folders(setting: dict[str, str]) -> None:
    run(tuple(f"{root}/{folder}" for root in ("tests", "dkdist") for folder in FOLDERS), setting)
