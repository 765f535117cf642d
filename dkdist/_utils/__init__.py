"""Helpers without knowledge of sets: validation, files, text, concurrency, memory limits, serializable records."""
