"""Dask's performance report of a run on a cluster: task stream, progress, profiles and logs in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from distributed import get_client, performance_report


@contextmanager
def reported(file: str | None) -> Iterator[None]:
    """Write the report of what the active client runs inside the ``with``; None for none.

    Refused before anything runs if the file could not be written, or the scheduler has no bokeh to draw it with.
    """
    if file is None:
        yield
        return
    if Path(file).is_dir() or not Path(file).parent.is_dir():
        raise ValueError(f"{file} cannot be written: expected a file in a directory that is there")
    try:
        get_client().run_on_scheduler(version, "bokeh")
    except ImportError as error:
        raise ImportError(
            "the scheduler draws the report with bokeh, which it does not have: pip install 'dkdist[dashboard]' there"
        ) from error
    with performance_report(file):
        yield
