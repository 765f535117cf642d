"""With what, where and when: versions, the processor, and how to cite."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import dkdist as dk
from dkdist._utils.memory_budget import memory_limit
from dkdist.cli.reporting.evidence import Evidence
from dkdist.cli.reporting.page import Section, paragraph
from dkdist.execution.processes.processors import kernels
from dkdist.plain.html_text import escaped, pairs_table

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "dask", "distributed", "zarr", "matplotlib")
CITED = (
    "Sutherland, Oliva, Poczos, Schneider: Linear-time learning on distributions with approximate kernel embeddings. "
    "AAAI 2016.",
    "Rahimi, Recht: Random features for large-scale kernel machines. NIPS 2007.",
)


def run_section(_: Evidence) -> Section:
    """Versions of what computes, and what decides its last bits."""
    found = kernels()
    pairs: list[tuple[object, object]] = [
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("dkdist", dk.__version__),
        ("Python", platform.python_version()),
        *((name, _version(name)) for name in PACKAGES),
        ("system", platform.platform()),
        (
            "processor",
            f"{_processor()}, {os.cpu_count()} cores, {memory_limit() / 2**30:.0f} GiB",
        ),
        ("BLAS", ", ".join(found["BLAS"])),
        ("compiled loops for", found["compiled loops"][0]),
    ]
    said = (
        "For the same seed and block size, results have the same bits on processors of one kind; on others the last "
        "digits may differ."
    )
    return Section("Environment", [pairs_table("", pairs), paragraph(said, "note")])


def citing_section(_: Evidence) -> Section:
    """The software in this version, and the papers behind its main road."""
    entry = (
        "@software{dkdist,\n  title = {dkdist: learning from distributions},\n"
        f"  version = {{{dk.__version__}}},\n  year = {{{datetime.now(UTC).year}}}\n}}"
    )
    return Section("How to cite", [f"<pre>{escaped(entry)}</pre>", *(paragraph(one) for one in CITED)])


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """The name of the processor, where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
