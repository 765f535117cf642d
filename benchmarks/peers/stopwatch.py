"""Clock of wall time, or of the processor time of this process.

Processor time depends little on other programs. It adds up all threads, so it suits runs of one thread.
"""

import time

_now = time.perf_counter


def count_processor_time() -> None:
    global _now
    _now = time.process_time


def seconds() -> float:
    """Return seconds since an arbitrary start."""
    return _now()
