"""Tuned numbers of the helpers."""

MIN_CHECKED_BYTES = 2**24  # asking for the limit takes about 0.1 ms: reading 16 MB takes longer
