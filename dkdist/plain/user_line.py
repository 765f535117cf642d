"""The line of the user's that a warning is about: not one of ours, nor of the libraries that called us."""

from __future__ import annotations

import sys
from types import FrameType

BETWEEN = {"dkdist", "sklearn", "dask", "distributed", "joblib", "contextlib", "functools"}
THREADS = {"threading", "concurrent"}  # what stands above all lines of a thread that is not the user's


def user_level() -> int:
    """The ``stacklevel`` with which its caller warns of the nearest line above that is the user's, or of its own."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _package(frame) in BETWEEN:
        frame, level = frame.f_back, level + 1
    return 1 if _package(frame) in BETWEEN | THREADS else level


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
