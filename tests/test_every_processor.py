"""A gate that is green on one processor is green on all: the numbers' tests with kernels that others would take.

OpenBLAS, numba and NumPy choose code for the processor they start on, and environment variables choose for them. The
long form (`make processors`) runs the rooms that compute; the short one some tests that saw differences.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

ROOT = Path(__file__).resolve().parents[1]
ROOMS = (
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
USES = {"Haswell": "AVX2", "SkylakeX": "AVX512F", "Zen": "AVX2"}  # instructions that kernels are made of
KERNELS = """
import numpy, threadpoolctl
print(*(pool.get("architecture") for pool in threadpoolctl.threadpool_info()))
print(*(name for name, there in numpy._core._multiarray_umath.__cpu_features__.items() if there))
"""

BY_BLAS = (
    "tests/loops/test_products.py::test_rows_of_any_size_and_rows_that_are_not_finite",
    "tests/loops/test_products.py::test_whole_numbers_are_exact_and_as_accurate_as_float32",
    "tests/pairs/test_pseudo_euclidean.py",
    "tests/pairs/test_psd.py",
    "tests/learners",
)
BY_LOOPS = ("tests/loops/test_elementary.py", "tests/loops/test_finite.py")


def name(setting: dict[str, str]) -> str:
    return "-".join(setting.values())


def run(tests: tuple[str, ...], setting: dict[str, str]) -> None:
    """Run tests in a process that takes these kernels; skip, and say why, where this machine has none of them."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    environment = {**inherited, **setting}
    if core := setting.get("OPENBLAS_CORETYPE"):
        taken, instructions = output([sys.executable, "-c", KERNELS], environment).stdout.splitlines()
        if core not in taken:
            pytest.skip(f"asked for {core} kernels, the BLAS takes {taken or 'others'}")
        if USES[core] not in instructions.split():
            pytest.skip(f"{core} kernels are made of {USES[core]} instructions, which this processor has not")
    done = output([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests], environment)
    assert done.returncode == 0, f"with {setting}:\n{done.stdout}"


def output(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


@pytest.mark.parametrize("setting", SETTINGS[:2], ids=name)
def test_products_and_solutions_by_other_kernels(setting: dict[str, str]) -> None:
    if any(pool.get("architecture") in setting.values() for pool in threadpool_info()):
        pytest.skip("all tests run with these kernels here")
    run(BY_BLAS, setting)


def test_loops_without_vectors_or_fused_multiply_add() -> None:
    run(BY_LOOPS, {"NUMBA_CPU_NAME": "generic"})


@pytest.mark.processors
@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS, ids=name)
def test_the_rooms_that_compute(setting: dict[str, str]) -> None:
    run(tuple(f"{place}/{room}" for place in ("tests", "dkdist") for room in ROOMS), setting)
