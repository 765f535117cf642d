"""Stochastic gradient descent: losses, loops over rows, steps of batches."""
