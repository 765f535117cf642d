"""Permutation tests of groups of sets."""
