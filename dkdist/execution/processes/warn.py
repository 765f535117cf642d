"""Warnings that reach the user, wherever the code runs that gives them."""

from __future__ import annotations

import sys
import warnings

from dkdist.plain.user_line import user_level


def warn(message: str) -> None:
    """Warn the user: here, and on the clients of the cluster if this is one of its workers."""
    worker = sys.modules.get("distributed.worker")  # a process that has not imported it is no worker
    if worker is None:
        warnings.warn(message, stacklevel=user_level())
    else:
        worker.warn(message, stacklevel=3)
