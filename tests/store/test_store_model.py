"""Stateful test of the store against a plain list: random writes, appends, replacements and reads."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from .store_machine import StoreMachine

CHECKS = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def test_a_store_behaves_like_a_list():
    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=10, stateful_step_count=8, **CHECKS)
    )


@pytest.mark.chaos
def test_a_store_behaves_like_a_list_over_long_sequences():
    run_state_machine_as_test(
        StoreMachine, settings=settings(max_examples=300, stateful_step_count=40, **CHECKS)
    )
