"""What a second is: of the wall clock, or of one processor's work for this process.

The latter says the same on a machine that does other things too; all threads count, so that it is for one thread.
"""

import time

_now = time.perf_counter


def count_processor_time() -> None:
    global _now
    _now = time.process_time


def seconds() -> float:
    """Seconds since some moment."""
    return _now()
