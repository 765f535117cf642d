"""Faults of other libraries, made into ordinary errors."""
