"""Learners: features and targets in, states that can be merged and carried on out."""
