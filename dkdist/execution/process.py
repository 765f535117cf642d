"""What a process that computes blocks should be: freed memory kept for the next block, one thread for BLAS.

Workers are made so for as long as they live, by `dkdist.preload` when they start, else when a client first gives them
work. In the user's own process only the first of the two is for good; threads are limited around each run.
"""

from __future__ import annotations

import ctypes
import os
import uuid
from contextlib import suppress
from functools import cache

from dkdist.execution.blas import one_blas_thread_for_good

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
THIS_PROCESS = uuid.uuid4().hex
DASK_TRIM = ("MALLOC_TRIM_THRESHOLD_", "65536")  # what Dask's nannies give every worker: nobody's choice


@cache
def keep_freed_memory() -> None:
    """Let glibc keep up to 512 MB that blocks have freed for the blocks that follow.

    By default it gives them back to the system, which zeroes every page again: a tenth of a run. Whoever set one
    of glibc's own variables knows better.
    """
    if not any(
        name.startswith("MALLOC_") for name, value in os.environ.items() if (name, value) != DASK_TRIM
    ):
        with suppress(OSError, AttributeError):  # another C library
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
            libc.mallopt(M_TRIM_THRESHOLD, 512 * 2**20)


def prepare_worker(client: str = "") -> int:
    """Make this process a worker's, for as long as it lives; the BLAS threads it had before, at least 1.

    Nothing is changed if it is the process of the ``client`` that asks: its threads are limited around each run.
    """
    import scipy.linalg  # noqa: F401  its BLAS can only be limited once it is there

    if client == THIS_PROCESS:
        return 1
    keep_freed_memory()
    return one_blas_thread_for_good()
