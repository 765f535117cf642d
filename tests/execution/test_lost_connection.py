"""Work that ended because its scheduler went away is told from work that the cluster gave up."""

from __future__ import annotations

from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest
from distributed.comm.core import CommClosedError

from dkdist._runtime.cluster import is_connection_lost
from dkdist._runtime.run import resources


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
    assert is_connection_lost(SimpleNamespace(status=status), error) == lost


def test_a_client_that_is_closing_counts_as_a_lost_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a client has forgotten its workers (no ``scheduler_info``) a moment before its futures are cancelled."""
    client = SimpleNamespace(status="closing", scheduler=None, scheduler_info=lambda n_workers: {})
    monkeypatch.setattr("dkdist._runtime.run.active_client", lambda: client)
    with pytest.raises(CommClosedError, match="make a new Client") as closing:
        resources()
    assert is_connection_lost(client, closing.value)
