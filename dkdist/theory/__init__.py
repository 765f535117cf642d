"""Estimates and bounds of kernel errors, and numbers of features for a required error."""
