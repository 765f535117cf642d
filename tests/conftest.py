"""Hypothesis settings, and random numbers that depend on the name of a test only.

Property tests use the same few examples in every run, without a deadline. The generator `RNG` of a file restarts in
each test and fixture, so a test draws the same numbers alone, after other tests, and on any worker.
"""

from binascii import crc32
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "dkdist",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dkdist")


def restart_generator(module, name):
    generator = getattr(module, "RNG", None)
    if generator is not None:
        generator.bit_generator.state = np.random.PCG64(crc32(name.encode())).state


@pytest.fixture(scope="module")
def worker_processes():
    """A cluster of two processes with a thread each; its scheduler would disturb the memory tests of other files."""
    from distributed import LocalCluster

    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0")
    yield cluster
    with suppress(TimeoutError):  # of processes that end slowly where the machine is busy
        cluster.close()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    restart_generator(getattr(item, "module", None), item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    module = getattr(request.node, "module", None) or getattr(request.node, "obj", None)
    generator = getattr(module, "RNG", None)
    if generator is None:
        return (yield)
    state_before = generator.bit_generator.state
    restart_generator(module, f"{fixturedef.argname} {getattr(request, 'param', '')!r}")
    try:
        return (yield)
    finally:
        generator.bit_generator.state = state_before
