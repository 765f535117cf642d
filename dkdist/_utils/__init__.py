"""Helpers without knowledge of sets: what this process may use."""
