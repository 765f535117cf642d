"""Permutation tests of two samples and of groups of sets."""
