"""Stochastic gradient descent over blocks: parameters, epochs, their order and their end."""
