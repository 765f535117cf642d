"""General helpers, independent of sets: validation, files, text, concurrency, memory limits, serializable records."""
