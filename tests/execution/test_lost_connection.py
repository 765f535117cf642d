"""A lost scheduler connection is distinguished from tasks that the cluster cancelled."""

from __future__ import annotations

from concurrent.futures import CancelledError
from types import SimpleNamespace

import pytest
from distributed.comm.core import CommClosedError

from dkdist._runtime.cluster import is_connection_lost
from dkdist._runtime.run import resources


@pytest.mark.parametrize(
    ("status", "error", "is_lost"),
    [
        ("running", CancelledError("x cancelled for reason: scheduler-connection-lost."), True),
        ("running", CommClosedError("closed"), True),
        ("running", CancelledError("x cancelled for reason: unknown."), False),
        # a client that cannot reconnect closes, which cancels without a reason
        ("closing", CancelledError("x cancelled for reason: unknown."), True),
        ("closed", CancelledError("x cancelled for reason: unknown."), True),
    ],
)
def test_is_connection_lost(status: str, error: Exception, is_lost: bool) -> None:
    assert is_connection_lost(SimpleNamespace(status=status), error) == is_lost


def test_closing_client_counts_as_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closing client has no workers in ``scheduler_info`` shortly before its futures are cancelled."""
    client = SimpleNamespace(status="closing", scheduler=None, scheduler_info=lambda n_workers: {})
    monkeypatch.setattr("dkdist._runtime.run.active_client", lambda: client)
    with pytest.raises(CommClosedError, match="make a new Client") as caught:
        resources()
    assert is_connection_lost(client, caught.value)
