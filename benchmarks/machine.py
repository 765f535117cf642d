"""One line that says what a benchmark ran on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil


def describe_machine() -> str:
    """Processor, cores, memory, Python and the libraries that matter for speed."""
    cpuinfo = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        if cpuinfo.exists()
        else []
    )
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    simd = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "numba", "dask", "zarr", "scikit-learn")
    )
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"{names[0] if names else platform.processor()} ({simd}), {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, {libraries}"
    )
