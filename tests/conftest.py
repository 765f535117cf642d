"""One profile for every law, and random numbers that depend on a test's name alone.

Every law is tried on the same examples in every run, without a deadline, few enough to stay quick. A file's
generator `RNG` starts anew in each test and each fixture, so that what a test draws is the same whether it
runs alone, after others, or on one worker of several.
"""

from binascii import crc32

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


def start_anew(module, name):
    generator = getattr(module, "RNG", None)
    if generator is not None:
        generator.bit_generator.state = np.random.PCG64(crc32(name.encode())).state


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    start_anew(getattr(item, "module", None), item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    module = getattr(request.node, "module", None) or getattr(request.node, "obj", None)
    generator = getattr(module, "RNG", None)
    if generator is None:
        return (yield)
    before = generator.bit_generator.state
    start_anew(module, f"{fixturedef.argname} {getattr(request, 'param', '')!r}")
    try:
        return (yield)
    finally:
        generator.bit_generator.state = before
