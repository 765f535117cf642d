"""Work that ended because its scheduler went away is told from work that the cluster gave up."""

from __future__ import annotations

from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest
from distributed.comm.core import CommClosedError

from dkdist.execution.cluster.failures import lost_connection


@pytest.mark.parametrize(
    ("status", "error", "lost"),
    [
        ("running", CancelledError("x cancelled for reason: scheduler-connection-lost."), True),
        ("running", CommClosedError("closed"), True),
        ("running", CancelledError("x cancelled for reason: unknown."), False),
        # a client that waited for its scheduler in vain closes, which cancels without a reason
        ("closing", CancelledError("x cancelled for reason: unknown."), True),
        ("closed", CancelledError("x cancelled for reason: unknown."), True),
    ],
)
def test_a_client_that_gave_its_scheduler_up_says_so(status: str, error: Exception, lost: bool) -> None:
    assert lost_connection(SimpleNamespace(status=status), error) == lost
