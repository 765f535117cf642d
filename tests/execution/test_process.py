"""Number of BLAS threads during a run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_info, threadpool_limits

from dkdist._runtime.process import one_blas_thread


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def blas_threads_of_a_run() -> set[int]:
    with one_blas_thread():
        return blas_threads()


def test_runs_limit_blas_to_one_thread() -> None:
    """threadpoolctl 3.8 respects only the first thread that sets a number, which is this one."""
    with ThreadPoolExecutor(1) as pool:
        threads_before = blas_threads()
        with threadpool_limits(2, user_api="blas"):
            assert pool.submit(blas_threads_of_a_run).result() == {1}
            assert blas_threads() == {2}
            assert blas_threads_of_a_run() == {1}
            assert blas_threads() == {2}
        assert blas_threads() == threads_before
